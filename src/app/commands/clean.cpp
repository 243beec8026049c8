// The command clean: what killed merges left, and what became of it.

#include <algorithm>
#include <array>
#include <cerrno>

#include <nlohmann/json.hpp>

#include "app/messages/table.hpp"
#include "app/report/report_json.hpp"
#include "app/runtime/mounts.hpp"
#include "core/process/system.hpp"
#include "core/text.hpp"
#include "io/paths.hpp"
#include "publish/abandoned.hpp"
#include "shardweld/error.hpp"

#include "commands.hpp"

namespace shardweld::app {

namespace {

using publish::Abandoned;
using Fate = Abandoned::Fate;

constexpr int kCleanSchema = 1;

std::string fate_name(Fate fate) {
    constexpr std::array kNames{"removed", "would go", "live", "young", "kept", "failed"};
    static_assert(kNames.size() == as_size(Fate::failed) + 1);
    return kNames[as_size(fate)];
}

std::string age_text(double seconds) {
    constexpr std::array<std::pair<double, const char*>, 3> kUnits = {
        {{86400, "d"}, {3600, "h"}, {60, "min"}}};
    for (const auto& [length, unit] : kUnits) {
        if (seconds >= length) {
            return std::to_string(static_cast<Index>(seconds / length)) + " " + unit;
        }
    }
    return std::to_string(static_cast<Index>(seconds)) + " s";
}

Bytes bytes_of(const std::vector<Abandoned>& all, Fate fate) {
    Bytes bytes = 0;
    for (const Abandoned& one : all) {
        bytes += one.fate == fate ? one.bytes : 0;
    }
    return bytes;
}

std::string cleaning_text(const std::vector<Abandoned>& all, const std::vector<fs::path>& unseen,
                          bool is_dry_run) {
    Cells rows;
    rows.reserve(all.size());
    for (const Abandoned& one : all) {
        rows.push_back({fate_name(one.fate), human_bytes(one.bytes), age_text(one.age_s),
                        printable(one.path.string(), 1000) +
                            (one.why.empty() ? "" : ": " + printable(one.why, 1000))});
    }
    std::string text = table({Align::left, Align::right, Align::right, Align::left}, rows) +
                       add_up(unseen, [](const fs::path& directory) {
                           return "not looked at: " + printable(directory.string(), 1000) + "\n";
                       });
    return text + (is_dry_run ? human_bytes(bytes_of(all, Fate::listed)) + " would be freed\n"
                              : human_bytes(bytes_of(all, Fate::removed)) + " freed\n");
}

std::string cleaning_json(const fs::path& looked_below, const std::vector<Abandoned>& all,
                          const std::vector<fs::path>& unseen) {
    const auto rows = collect_list(all, [](const Abandoned& one) -> ordered_json {
        return {{"path", one.path.string()},
                {"target", one.target.string()},
                {"bytes", one.bytes},
                {"age_s", one.age_s},
                {"fate", one.fate == Fate::listed ? "listed" : fate_name(one.fate)},
                {"why", one.why}};
    });
    const bool is_done = !contains(all, Fate::failed, &Abandoned::fate);
    ordered_json json = {
        {"schema", kCleanSchema}, {"ok", is_done}, {"dir", looked_below.string()}, {"found", rows}};
    json["unseen"] =
        collect_list(unseen, [](const fs::path& directory) { return directory.string(); });
    return json_text(json);
}

/// Mounts below the directory whose process was killed, which nobody can look into.
std::vector<Abandoned> clean_mounts(const fs::path& directory, bool is_dry_run) {
    std::vector<Abandoned> all;
    for (const ModelMount& one : model_mounts()) {
        if (!io::is_within(one.point, directory) || !is_dead_mount(one.point)) {
            continue;
        }
        const int failure = is_dry_run ? 0 : take_away(one.point);
        const bool is_others = failure == EPERM || failure == EBUSY;
        all.push_back({one.point, one.source, 0, 0,
                       is_dry_run     ? Fate::listed
                       : failure == 0 ? Fate::removed
                       : is_others    ? Fate::kept
                                      : Fate::failed,
                       failure == 0 ? "" : text_of_errno(failure)});
    }
    return all;
}

}  // namespace

int clean(const Job& job, std::ostream& out) {
    const fs::path& directory = job.inputs.front().directory;
    std::vector<Abandoned> all = clean_mounts(io::resolved(directory), job.run.is_dry_run);
    std::vector<fs::path> unseen;
    const auto left = publish::clean(directory, job.run.older_than, job.run.is_dry_run, unseen);
    append_all(all, left);
    out << (job.run.json ? cleaning_json(directory, all, unseen)
                         : cleaning_text(all, unseen, job.run.is_dry_run));
    auto* const failed =
        find_where(all, [](const Abandoned& one) { return one.fate == Fate::failed; });
    if (failed != nullptr) {
        throw Error(ErrorCode::io, "cannot remove " + failed->path.string() + ": " + failed->why,
                    "see to its rights, then run this again");
    }
    return 0;
}

}  // namespace shardweld::app
