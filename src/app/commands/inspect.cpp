#include "inspect.hpp"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "shardweld/core/text.hpp"

#include "../cli/table.hpp"
#include "../report/json_parts.hpp"
#include "../survey/survey.hpp"
#include "inspect_rows.hpp"

namespace shardweld::app {

namespace {

using nlohmann::ordered_json;

constexpr int kInspectSchema = 1;

Bytes bytes_of(const std::vector<catalogue::File>& files) {
    Bytes total = 0;
    for (const catalogue::File& file : files) {
        total += file.size;
    }
    return total;
}

/// The coordinates of a rank that tell it from others: those that are not 0 everywhere.
class RankNames {
  public:
    explicit RankNames(const std::vector<StoredRow>& rows) {
        for (const StoredRow& row : rows) {
            for (const catalogue::Coordinates& at : row.ranks) {
                largest_ = {std::max(largest_.tp, at.tp), std::max(largest_.pp, at.pp),
                            std::max(largest_.vpp, at.vpp), std::max(largest_.ep, at.ep),
                            std::max(largest_.etp, at.etp)};
            }
        }
    }

    /// "tp0 pp1, tp1 pp1, ...".
    [[nodiscard]] std::string list(const std::vector<catalogue::Coordinates>& ranks) const {
        constexpr std::size_t kShown = 2;
        std::string text;
        for (std::size_t i = 0; i < std::min(kShown, ranks.size()); ++i) {
            text += (i == 0 ? "" : ", ") + name(ranks[i]);
        }
        return ranks.size() > kShown ? text + ", ..." : text;
    }

  private:
    [[nodiscard]] std::string name(const catalogue::Coordinates& at) const {
        std::string text;
        const auto add = [&](const char* axis, int value, int largest) {
            if (largest > 0) {
                text += (text.empty() ? "" : " ") + std::string(axis) + std::to_string(value);
            }
        };
        add("tp", at.tp, largest_.tp);
        add("pp", at.pp, largest_.pp);
        add("vpp", at.vpp, largest_.vpp);
        add("ep", at.ep, largest_.ep);
        add("etp", at.etp, largest_.etp);
        return text.empty() ? "the only one" : text;
    }

    catalogue::Coordinates largest_;
};

std::string tensors_table(const std::vector<StoredRow>& rows) {
    const bool has_local =
        std::any_of(rows.begin(), rows.end(), [](const StoredRow& row) { return row.is_local; });
    const RankNames names(rows);
    const auto cells_of = [&](std::size_t i) -> std::vector<std::string> {
        if (i == 0) {
            return {"tensor",
                    "dtype",
                    has_local ? "shape (of a shard)" : "shape",
                    "shards",
                    "replicas",
                    "bytes",
                    has_local ? "ranks" : ""};
        }
        const StoredRow& row = rows[i - 1];
        return {printable(row.name),
                std::string(torch_name(row.dtype)),
                shape_text(row.shape),
                std::to_string(row.n_shards),
                std::to_string(row.n_replicas),
                std::to_string(row.bytes),
                names.list(row.ranks)};
    };
    return table({Align::left, Align::left, Align::left, Align::right, Align::right, Align::right,
                  Align::left},
                 rows.size() + 1, cells_of);
}

std::string ignored_table(const std::vector<catalogue::Ignored>& ignored) {
    if (ignored.empty()) {
        return "";
    }
    std::vector<std::vector<std::string>> cells;
    cells.reserve(ignored.size());
    for (const catalogue::Ignored& entry : ignored) {
        cells.push_back({"  " + printable(entry.pattern), std::to_string(entry.count),
                         human_bytes(entry.bytes), printable(entry.reason)});
    }
    return "\nignored\n" + table({Align::left, Align::right, Align::right, Align::left}, cells);
}

ordered_json tensor_json(const StoredRow& row) {
    ordered_json json = {{"name", row.name},       {"dtype", std::string(torch_name(row.dtype))},
                         {"shape", row.shape},     {"local", row.is_local},
                         {"shards", row.n_shards}, {"replicas", row.n_replicas},
                         {"bytes", row.bytes},     {"replica_bytes", row.replica_bytes}};
    if (row.is_local) {
        ordered_json ranks = ordered_json::array();
        for (const catalogue::Coordinates& at : row.ranks) {
            ranks.push_back(
                {{"tp", at.tp}, {"pp", at.pp}, {"vpp", at.vpp}, {"ep", at.ep}, {"etp", at.etp}});
        }
        json["ranks"] = std::move(ranks);
    }
    return json;
}

std::vector<std::string> all_notes(const formats::Location& location,
                                   const catalogue::Catalogue& catalogue) {
    std::vector<std::string> notes = location.notes;
    for (const std::string& note : catalogue.notes) {
        if (std::find(notes.begin(), notes.end(), note) == notes.end()) {
            notes.push_back(note);
        }
    }
    return notes;
}

}  // namespace

std::string inspect_text(const Survey& survey) {
    const formats::Location& location = survey.location;
    const catalogue::Catalogue& catalogue = survey.catalogue;
    std::vector<std::vector<std::string>> head{
        {"checkpoint", location.directory.string()},
        {"format", catalogue.format},
        {"files",
         std::to_string(catalogue.files.size()) + ", " + human_bytes(bytes_of(catalogue.files))},
        {"config", location.hf_directory ? (*location.hf_directory / "config.json").string()
                                         : "none: a merge needs --hf_config"}};
    std::string facts;
    for (const auto& [name, value] : catalogue.facts) {
        facts += (facts.empty() ? "" : ", ") + name + " " + std::to_string(value);
    }
    head.push_back({"facts", facts});
    head.push_back({"provenance", printable(catalogue::text_of(survey.provenance), 1000)});
    for (const std::string& note : all_notes(location, catalogue)) {
        head.push_back({"note", printable(note, 1000)});
    }
    for (const auto& [code, text] : catalogue.warnings) {
        head.push_back({"warning", printable(text, 1000)});
    }
    const std::vector<StoredRow> rows = stored_rows(catalogue);
    std::set<std::string> names;
    Bytes bytes = 0;
    for (const StoredRow& row : rows) {
        names.insert(row.name);
        bytes += row.bytes;
    }
    head.push_back({"tensors", std::to_string(names.size()) + ", " + human_bytes(bytes)});
    return table({Align::left, Align::left}, head) + "\n" + tensors_table(rows) +
           ignored_table(catalogue.ignored);
}

std::string inspect_json(const Survey& survey) {
    const formats::Location& location = survey.location;
    const catalogue::Catalogue& catalogue = survey.catalogue;
    ordered_json json = {{"schema", kInspectSchema},
                         {"dir", location.directory.string()},
                         {"format", catalogue.format},
                         {"dialect", catalogue.dialect}};
    json["hf_config"] = location.hf_directory
                            ? ordered_json((*location.hf_directory / "config.json").string())
                            : ordered_json();
    json["notes"] = all_notes(location, catalogue);
    json["provenance"] = json_of(survey.provenance);
    json["warnings"] = ordered_json(catalogue.warnings);
    json["facts"] = ordered_json(catalogue.facts);
    json["claims"] = ordered_json(catalogue.claims);
    ordered_json files = ordered_json::array();
    for (const catalogue::File& file : catalogue.files) {
        files.push_back({{"path", file.path}, {"bytes", file.size}});
    }
    json["files"] = std::move(files);
    ordered_json tensors = ordered_json::array();
    for (const StoredRow& row : stored_rows(catalogue)) {
        tensors.push_back(tensor_json(row));
    }
    json["tensors"] = std::move(tensors);
    json["ignored"] = json_list(catalogue.ignored);
    json["inert_globals"] = ordered_json(catalogue.inert_globals);
    return json_text(json);
}

int inspect(mpi::Comm& comm, const Options& options, std::ostream& out) {
    Survey found = survey(comm, input_request(options));
    if (options.hf_config) {
        found.location.hf_directory = *options.hf_config;
    }
    mpi::collectively(comm, [&] {
        if (comm.rank() == 0) {
            out << (options.json ? inspect_json(found) : inspect_text(found));
        }
    });
    return 0;
}

}  // namespace shardweld::app
