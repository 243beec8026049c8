// `shardweld inspect`: what a checkpoint holds.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "app/family/bind_model.hpp"
#include "app/family/framework_adapter.hpp"
#include "app/family/model.hpp"
#include "app/messages/log.hpp"
#include "app/messages/table.hpp"
#include "app/report/checkpoint_text.hpp"
#include "app/report/report_json.hpp"
#include "app/report/run.hpp"
#include "app/settings/job.hpp"
#include "app/survey/checkpoint.hpp"
#include "app/survey/input.hpp"
#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/rank_grid.hpp"
#include "io/paths.hpp"
#include "mpi/share.hpp"
#include "process/process.hpp"
#include "shardweld/error.hpp"

#include "commands.hpp"

namespace shardweld::app {

namespace {

/// What a merge would make of a checkpoint, or why it would not.
struct ModelSummary {
    std::string name;      ///< "LlamaForCausalLM (llama)"; "" without a config
    std::string recipe;    ///< "" if none was chosen
    ModelParts parts;      ///< of the tensors that would be written
    std::string obstacle;  ///< why there would be none; "" otherwise
};

/// Everything that is shown of a catalogue, kept while that becomes a model.
struct InspectedFiles {
    std::string head;     ///< directory, format, files, facts
    std::string ranks;    ///< their grid
    std::string tensors;  ///< the tree, or every row
    std::string ignored;
    ModelParts stored;
    bool has_local = false;    ///< shards are still to be joined: some may be copies
    bool is_finished = false;  ///< a HuggingFace model already
};

/// The model's files, or what stands in their way.
std::pair<ModelFiles, std::string> find_files(const Job& job, const Checkpoint& read,
                                              const JobModel& choice) {
    try {
        const bool is_alone = is_adapter_alone(choice.lora, read.catalogue);
        return {read_model_files(job, read.location, {}, !is_alone), ""};
    } catch (const Error& error) {
        return {{}, app::text_of(error)};
    }
}

std::string name_in(const ModelFiles& files) {
    const models::Config config = models::Config::parse(files.config_text, files.config_path);
    const auto classes = config.architectures();
    const std::string type = printable(config.text("model_type").value_or(""));
    return classes.empty() ? type
                           : printable(classes.front()) + (type.empty() ? "" : " (" + type + ")");
}

void bind_into(ModelSummary& summary, const ModelFiles& files, const JobModel& choice,
               const Job& job, catalogue::Catalogue catalogue) {
    summary.name = name_in(files);
    HeldModel model = prepare_with_adapter(files, choice, catalogue);
    summary.recipe = model.recipe->name;
    bind_model(model, job, std::move(catalogue));
    for (const plan::Target& target : model.binding.targets) {
        summary.parts.add(target.name, 1, target.dtype, target.bytes());
    }
}

using Cells = std::vector<std::vector<std::string>>;

// Two tables whose columns begin alike: each first key is as wide as the widest of both.
constexpr const char* kHeadKey = "checkpoint ";
constexpr const char* kModelKey = "model      ";

Bytes bytes_of(const std::vector<catalogue::File>& files) {
    return add_up(files, &catalogue::File::size);
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
        std::ranges::any_of(rows, [](const StoredRow& row) { return row.is_local; });
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
        return {
            printable(row.name),          torch_name(row.dtype),          shape_text(row.shape),
            std::to_string(row.n_shards), std::to_string(row.n_replicas), std::to_string(row.bytes),
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

/// What stands in all notes of a location and its catalogue, each once.
std::vector<std::string> all_notes(const formats::Location& location,
                                   const catalogue::Catalogue& catalogue) {
    std::vector<std::string> notes = location.notes;
    for (const std::string& note : catalogue.notes) {
        if (!contains(notes, note)) {
            notes.push_back(note);
        }
    }
    return notes;
}

std::string head_text(const Checkpoint& read, const std::vector<StoredRow>& rows,
                      bool is_each_shown) {
    const formats::Location& location = read.location;
    const catalogue::Catalogue& catalogue = read.catalogue;
    Cells head{{kHeadKey, io::shown(location.directory)},
               {"format", catalogue.format},
               {"files", std::to_string(catalogue.files.size()) + ", " +
                             human_bytes(bytes_of(catalogue.files))},
               {"config", location.hf_directory ? io::shown(*location.hf_directory / "config.json")
                                                : "none: a merge needs --hf_config"},
               {"facts", facts_text(catalogue)},
               {"provenance", is_each_shown ? printable(catalogue::text_of(read.provenance), 1000)
                                            : name_of(read.provenance.standing) +
                                                  std::string(" (-v: what files say of it)")}};
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
        rows.push_back({kModelKey, model.name});
    }
    if (!model.recipe.empty()) {
        rows.push_back({"recipe", model.recipe});
    }
    const PartRow all = model.parts.all();
    if (all.n_tensors > 0) {
        rows.push_back({"would write", human_count(all.elements) + " parameters in " +
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
std::string command_text(const ModelSummary& model, bool is_finished, const Job& job) {
    constexpr Bytes kLarge = 1'000'000'000;
    if (!model.obstacle.empty()) {
        return "\na merge would be refused: " + model.obstacle + "\n";
    }
    const bool is_large = model.parts.all().bytes >= kLarge;
    const std::string words = process::shell_line(job.merge_words);
    return (is_finished ? "\na finished model; convert it with --quantize, --dtype or "
                          "--max_shard_size, for example\n  "
                        : "\nmerge it with\n  ") +
           std::string(is_large ? "mpirun -n 8 " : "") + "shardweld merge " + words +
           (is_finished ? " --quantize fp8-block" : "") + "\n" +
           (is_large ? "how many ranks to use:\n  shardweld plan " + words + "\n" : "");
}

/// Collective, the same on the first rank only: elsewhere it stays empty. Takes the catalogue.
/// Whatever stands in the way of a merge is its obstacle, never an Error.
ModelSummary summarise_model(mpi::Comm& comm, const Job& job, Checkpoint& read) {
    const JobModel choice = model_choice(job, job.outputs.front(), Purpose::model);
    const std::pair<ModelFiles, std::string> found =
        mpi::share(comm, read.home, [&] { return find_files(job, read, choice); });
    ModelSummary summary;
    summary.obstacle = found.second;
    mpi::collectively(comm, [&] {
        if (comm.rank() != 0 || !summary.obstacle.empty()) {
            return;
        }
        try {
            bind_into(summary, found.first, choice, job, std::move(read.catalogue));
        } catch (const Error& error) {
            summary.obstacle = app::text_of(error);
        }
    });
    return summary;
}

InspectedFiles look_at(const Checkpoint& read, const Job& job) {
    const catalogue::Catalogue& catalogue = read.catalogue;
    const std::vector<StoredRow> rows = stored_rows(catalogue);
    InspectedFiles files;
    files.is_finished = catalogue.format == "huggingface";
    files.head = head_text(read, rows, job.run.log_level == LogLevel::debug);
    files.ranks = grid_text(formats::rank_grid(catalogue), copies_only(catalogue));
    files.tensors = job.run.is_whole ? "" : tensor_tree(rows);
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

/// The whole text, which ends with the command that merges the checkpoint.
std::string inspect_text(const InspectedFiles& files, const ModelSummary& model, const Job& job) {
    const bool is_bound = model.parts.all().n_tensors > 0;
    const std::string title = is_bound          ? "part of the model"
                              : files.has_local ? "part (copies on several ranks count)"
                                                : "part";
    return files.head + model_text(model) + (files.ranks.empty() ? "" : "\n" + files.ranks) + "\n" +
           parts_table(is_bound ? model.parts : files.stored, title) + "\n" + files.tensors +
           files.ignored + command_text(model, files.is_finished, job);
}

using nlohmann::ordered_json;

constexpr int kInspectSchema = 1;

ordered_json tensor_json(const StoredRow& row) {
    ordered_json json = {{"name", row.name},       {"dtype", torch_name(row.dtype)},
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

/// Fields are never renamed or removed.
std::string inspect_json(const Checkpoint& read) {
    const formats::Location& location = read.location;
    const catalogue::Catalogue& catalogue = read.catalogue;
    ordered_json json = {{"schema", kInspectSchema},
                         {"ok", true},
                         {"dir", location.directory.string()},
                         {"format", catalogue.format},
                         {"dialect", catalogue.dialect}};
    json["hf_config"] = location.hf_directory
                            ? ordered_json((*location.hf_directory / "config.json").string())
                            : ordered_json();
    json["notes"] = all_notes(location, catalogue);
    json["provenance"] = json_of(read.provenance);
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

/// The ranks' files that are there, of a checkpoint that cannot be read.
std::string ranks_found(const Job& job) {
    try {
        return grid_text(formats::rank_grid(formats::locate(job.inputs.front())), {});
    } catch (const Error&) {
        return "";  // what is wrong with it is being told already
    }
}

Checkpoint look_for(mpi::Comm& comm, const Job& job, std::ostream& out, Log& log) {
    try {
        return survey_shown(begin_run(comm, job, log), job.inputs.front());
    } catch (const Error&) {
        if (comm.rank() == 0 && !job.run.json) {
            out << ranks_found(job);
        }
        throw;
    }
}

void print_text(mpi::Comm& comm, const Job& job, Checkpoint& found, std::ostream& out) {
    InspectedFiles files;
    mpi::on_first(comm, [&] { files = look_at(found, job); });
    const ModelSummary model = summarise_model(comm, job, found);
    if (comm.rank() == 0) {
        out << inspect_text(files, model, job);
    }
}

}  // namespace

int inspect(mpi::Comm& comm, const Job& job, std::ostream& out, Log& log) {
    if (job.run.shows_steps) {
        print(comm, out, [&] { return steps_text(job.inputs.front().directory, job.run.json); });
        return 0;
    }
    if (has_header(job.inputs.front().directory) && mpi::share(comm, 0, [&] {
            return io::kind_at(job.inputs.front().directory) != io::FileKind::directory;
        })) {
        print(comm, out, [&] { return header_text(job.inputs.front().directory, job.run.json); });
        return 0;
    }
    Checkpoint found = look_for(comm, job, out, log);
    if (job.model.hf_config) {
        found.location.hf_directory = *job.model.hf_config;
    }
    if (!job.run.json) {
        print_text(comm, job, found, out);
        return 0;
    }
    mpi::on_first(comm, [&] { out << inspect_json(found); });
    return 0;
}

}  // namespace shardweld::app
