#include "keeping.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

#include "app/report/report_json.hpp"
#include "formats/shared/iteration_directories.hpp"
#include "io/directory.hpp"
#include "io/paths.hpp"
#include "mpi/comm.hpp"
#include "publish/report_file.hpp"
#include "publish/traces.hpp"

namespace shardweld::app::watching {

bool is_own_output(const fs::path& output, const fs::path& run) {
    bool is_own = false;
    (void)mpi::error_of([&] {
        const fs::path report = output / publish::kKeptReport;
        const auto facts = publish::report_at(report);
        is_own = !fs::is_symlink(output) && facts && facts->is_success &&
                 facts->command == "merge" && facts->output == io::resolved(output) &&
                 io::is_within(read_reported_output(report).input.directory, run);
    });
    return is_own;
}

bool was_made_with(const std::vector<std::string>& options, const fs::path& output,
                   const fs::path& run) {
    bool is_same = false;
    (void)mpi::error_of([&] {
        is_same = is_own_output(output, run) && read_reported_output(output / publish::kKeptReport)
                                                        .made_of.value_or(MadeOf())
                                                        .options == options;
    });
    return is_same;
}

std::vector<std::string> outputs_beyond(Index keep, const fs::path& out, const fs::path& run) {
    std::vector<std::pair<Index, std::string>> own;
    for (const fs::directory_entry& entry : io::entries_of(out)) {
        std::string name = entry.path().filename().string();
        const auto step = formats::parse_step(name);
        if (step && step->iteration && is_own_output(entry.path(), run)) {
            own.emplace_back(*step->iteration, std::move(name));
        }
    }
    std::ranges::sort(own);
    std::vector<std::string> beyond;
    for (std::size_t at = 0; at + static_cast<std::size_t>(keep) < own.size(); ++at) {
        beyond.push_back(own[at].second);
    }
    return beyond;
}

void remove_output(const fs::path& output) {
    const fs::path leaving = publish::beside(output, publish::kRemovedTrace);
    fs::rename(output, leaving);
    io::remove_below(output.parent_path(), leaving.filename());
}

void finish_removals(const fs::path& out) {
    const std::string_view trace = publish::kRemovedTrace;
    for (const fs::directory_entry& entry : io::entries_of(out)) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with('.') && name.ends_with(trace)) {
            io::remove_below(out, name);
        }
    }
}

}  // namespace shardweld::app::watching
