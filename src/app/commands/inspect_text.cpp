#include "inspect_text.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "app/messages/shown_numbers.hpp"
#include "app/messages/table.hpp"
#include "app/report/grid_text.hpp"
#include "app/report/stored_rows.hpp"
#include "app/report/tensor_tree.hpp"
#include "core/text.hpp"
#include "formats/rank_grid.hpp"
#include "process/shell.hpp"

namespace shardweld::app {

namespace {

using Cells = std::vector<std::vector<std::string>>;

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

std::string every_tensor(const std::vector<StoredRow>& rows) {
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

std::string facts_text(const catalogue::Catalogue& catalogue) {
    std::map<std::string, Index> facts = catalogue.facts;
    leave_shown(facts);
    return joined(facts, ", ",
                  [](const auto& fact) { return fact.first + " " + std::to_string(fact.second); });
}

std::string head_text(const Survey& survey, const std::vector<StoredRow>& rows) {
    const formats::Location& location = survey.location;
    const catalogue::Catalogue& catalogue = survey.catalogue;
    Cells head{{"checkpoint", location.directory.string()},
               {"format", catalogue.format},
               {"files", std::to_string(catalogue.files.size()) + ", " +
                             human_bytes(bytes_of(catalogue.files))},
               {"config", location.hf_directory ? (*location.hf_directory / "config.json").string()
                                                : "none: a merge needs --hf_config"},
               {"facts", facts_text(catalogue)},
               {"provenance", printable(catalogue::text_of(survey.provenance), 1000)}};
    for (const std::string& note : all_notes(location, catalogue)) {
        head.push_back({"note", printable(note, 1000)});
    }
    for (const auto& [code, text] : catalogue.warnings) {
        head.push_back({"warning", printable(text, 1000)});
    }
    std::set<std::string_view> names;
    Bytes bytes = 0;
    for (const StoredRow& row : rows) {
        names.insert(row.name);
        bytes += row.bytes;
    }
    head.push_back({"tensors", std::to_string(names.size()) + ", " + human_bytes(bytes)});
    return table({Align::left, Align::left}, head);
}

std::string model_text(const ModelSummary& model) {
    Cells rows;
    if (!model.name.empty()) {
        rows.push_back({"model     ", model.name});
    }
    if (!model.recipe.empty()) {
        rows.push_back({"recipe", model.recipe});
    }
    const PartRow all = model.parts.all();
    if (all.n_tensors > 0) {
        rows.push_back({"merged", human_count(all.elements) + " parameters in " +
                                      counted(all.n_tensors, "tensor") + ", " +
                                      human_bytes(all.bytes)});
    }
    for (const PartRow& dtype : model.parts.dtypes()) {
        rows.push_back({"", dtype.name + ": " + counted(dtype.n_tensors, "tensor") + ", " +
                                human_bytes(dtype.bytes)});
    }
    return table({Align::left, Align::left}, rows);
}

std::string parts_table(const ModelParts& parts, const std::string& title) {
    const PartRow all = parts.all();
    Cells cells{{title, "tensors", "parameters", "bytes", "share"}};
    const auto whole = static_cast<double>(all.bytes);
    for (const PartRow& part : parts.parts()) {
        const auto bytes = static_cast<double>(part.bytes);
        cells.push_back({"  " + part.name, std::to_string(part.n_tensors),
                         human_count(part.elements), human_bytes(part.bytes),
                         percent_text(bytes, whole), bar(bytes, whole)});
    }
    return table({Align::left, Align::right, Align::right, Align::right, Align::right, Align::left},
                 cells);
}

/// Small models are quicker without a launcher.
std::string command_text(const ModelSummary& model, const Options& options) {
    constexpr Bytes kLarge = 1'000'000'000;
    if (!model.obstacle.empty()) {
        return "\nnot to be merged as it is: " + model.obstacle + "\n";
    }
    const bool is_large = model.parts.all().bytes >= kLarge;
    const std::string words = process::shell_line(options.merge_words);
    return "\nmerge it with\n  " + std::string(is_large ? "mpirun -n 8 " : "") +
           "shardweld merge " + words + "\n" +
           (is_large ? "how many ranks are worth it tells\n  shardweld plan " + words + "\n" : "");
}

}  // namespace

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

InspectedFiles look_at(const Survey& survey, const Options& options) {
    const catalogue::Catalogue& catalogue = survey.catalogue;
    const std::vector<StoredRow> rows = stored_rows(catalogue);
    InspectedFiles files;
    files.head = head_text(survey, rows);
    files.ranks = grid_text(formats::rank_grid(catalogue), copies_only(catalogue));
    files.tensors = options.is_whole ? "" : tensor_tree(rows);
    if (files.tensors.empty()) {
        files.tensors = every_tensor(rows);
    }
    files.ignored = ignored_table(catalogue.ignored);
    for (const StoredRow& row : rows) {
        files.stored.add(row.name, 1, row.dtype, row.bytes);
        files.has_local = files.has_local || row.is_local;
    }
    return files;
}

std::string inspect_text(const InspectedFiles& files, const ModelSummary& model,
                         const Options& options) {
    const bool is_bound = model.parts.all().n_tensors > 0;
    const std::string title = is_bound          ? "part of the model"
                              : files.has_local ? "part (copies on several ranks count)"
                                                : "part";
    return files.head + model_text(model) + (files.ranks.empty() ? "" : "\n" + files.ranks) + "\n" +
           parts_table(is_bound ? model.parts : files.stored, title) + "\n" + files.tensors +
           files.ignored + command_text(model, options);
}

}  // namespace shardweld::app
