// `shardweld inspect`: what a checkpoint holds.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "app/binding/bind_model.hpp"
#include "app/binding/framework_adapter.hpp"
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

/// What is shown of a checkpoint.
struct Inspection {
    std::string head;     ///< directory, format, files, facts
    std::string ranks;    ///< their grid
    std::string tensors;  ///< the tree, or every row
    std::string ignored;
    ModelParts stored;
    bool has_local = false;    ///< shards are still to be joined: some may be copies
    bool is_finished = false;  ///< a HuggingFace model already

    // What a merge would make of it, or why it would not.
    std::string model;     ///< "LlamaForCausalLM (llama)"; "" without a config
    std::string recipe;    ///< "" if none was chosen
    ModelParts parts;      ///< of the tensors that would be written
    std::string obstacle;  ///< why there would be none; "" otherwise
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

void bind_into(Inspection& found, const ModelFiles& files, const JobModel& choice, const Job& job,
               catalogue::Catalogue catalogue) {
    found.model = name_in(files);
    HeldModel model = prepare_with_adapter(files, choice, catalogue);
    found.recipe = model.recipe->name;
    bind_model(model, job, std::move(catalogue));
    for (const plan::Target& target : model.binding.targets) {
        found.parts.add(target.name.text(), 1, target.dtype, target.bytes());
    }
}

// Two tables whose columns begin alike: each first key is as wide as the widest of both.
constexpr const char* kHeadKey = "checkpoint ";
constexpr const char* kModelKey = "model      ";

constexpr std::array<std::pair<const char*, int catalogue::Coordinates::*>, 5> kAxes = {
    {{"tp", &catalogue::Coordinates::tp},
     {"pp", &catalogue::Coordinates::pp},
     {"vpp", &catalogue::Coordinates::vpp},
     {"ep", &catalogue::Coordinates::ep},
     {"etp", &catalogue::Coordinates::etp}}};

/// Along each axis the largest coordinate of all rows' ranks.
catalogue::Coordinates largest_of(const std::vector<StoredRow>& rows) {
    catalogue::Coordinates largest;
    for (const StoredRow& row : rows) {
        for (const catalogue::Coordinates& at : row.ranks) {
            for (const auto& [axis, of] : kAxes) {
                largest.*of = std::max(largest.*of, at.*of);
            }
        }
    }
    return largest;
}

/// By the coordinates that tell it from others, "tp0 pp1": those that are not 0 everywhere.
std::string rank_name(const catalogue::Coordinates& at, const catalogue::Coordinates& largest) {
    std::string text;
    for (const auto& [axis, of] : kAxes) {
        if (largest.*of > 0) {
            text += (text.empty() ? "" : " ") + std::string(axis) + std::to_string(at.*of);
        }
    }
    return text.empty() ? "the only one" : text;
}

/// "tp0 pp1, tp1 pp1, ...".
std::string ranks_text(const std::vector<catalogue::Coordinates>& ranks,
                       const catalogue::Coordinates& largest) {
    constexpr std::size_t kShown = 2;
    std::string text;
    for (std::size_t i = 0; i < std::min(kShown, ranks.size()); ++i) {
        text += (i == 0 ? "" : ", ") + rank_name(ranks[i], largest);
    }
    return ranks.size() > kShown ? text + ", ..." : text;
}

std::string every_tensor(const std::vector<StoredRow>& rows) {
    const bool has_local =
        std::ranges::any_of(rows, [](const StoredRow& row) { return row.is_local; });
    const catalogue::Coordinates largest = largest_of(rows);
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
                torch_name(row.dtype),
                shape_text(row.shape),
                std::to_string(row.n_shards),
                std::to_string(row.n_replicas),
                std::to_string(row.bytes),
                ranks_text(row.ranks, largest)};
    };
    return table({Align::left, Align::left, Align::left, Align::right, Align::right, Align::right,
                  Align::left},
                 rows.size() + 1, cells_of);
}

std::string ignored_table(const std::vector<catalogue::Ignored>& ignored) {
    if (ignored.empty()) {
        return "";
    }
    Cells cells;
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
                             human_bytes(add_up(catalogue.files, &catalogue::File::size))},
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

std::string model_text(const Inspection& found) {
    Cells rows;
    if (!found.model.empty()) {
        rows.push_back({kModelKey, found.model});
    }
    if (!found.recipe.empty()) {
        rows.push_back({"recipe", found.recipe});
    }
    const PartRow all = found.parts.all();
    if (all.n_tensors > 0) {
        rows.push_back({"would write", human_count(all.elements) + " parameters in " +
                                           counted(all.n_tensors, "tensor") + ", " +
                                           human_bytes(all.bytes)});
    }
    for (const PartRow& dtype : found.parts.dtypes()) {
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
std::string command_text(const Inspection& found, const Job& job) {
    constexpr Bytes kLarge = 1'000'000'000;
    if (!found.obstacle.empty()) {
        return "\na merge would be refused: " + found.obstacle + "\n";
    }
    const bool is_finished = found.is_finished;
    const bool is_large = found.parts.all().bytes >= kLarge;
    const std::string words = process::shell_line(job.merge_words);
    return (is_finished ? "\na finished model; convert it with --quantize, --dtype or "
                          "--max_shard_size, for example\n  "
                        : "\nmerge it with\n  ") +
           std::string(is_large ? "mpirun -n 8 " : "") + "shardweld merge " + words +
           (is_finished ? " --quantize fp8-block" : "") + "\n" +
           (is_large ? "how many ranks to use:\n  shardweld plan " + words + "\n" : "");
}

/// Collective; on the first rank only, elsewhere nothing is added. Takes the catalogue. Whatever
/// stands in the way of a merge is its obstacle, never an Error.
void add_model(mpi::Comm& comm, const Job& job, Checkpoint& read, Inspection& found) {
    const JobModel choice = model_choice(job, job.outputs.front(), true);
    const std::pair<ModelFiles, std::string> files =
        mpi::share(comm, read.home, [&] { return find_files(job, read, choice); });
    found.obstacle = files.second;
    mpi::on_first(comm, [&] {
        if (!found.obstacle.empty()) {
            return;
        }
        try {
            bind_into(found, files.first, choice, job, std::move(read.catalogue));
        } catch (const Error& error) {
            found.obstacle = app::text_of(error);
        }
    });
}

Inspection look_at(const Checkpoint& read, const Job& job) {
    const catalogue::Catalogue& catalogue = read.catalogue;
    const std::vector<StoredRow> rows = stored_rows(catalogue);
    Inspection files;
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
std::string inspect_text(const Inspection& found, const Job& job) {
    const bool is_bound = found.parts.all().n_tensors > 0;
    const std::string title = is_bound          ? "part of the model"
                              : found.has_local ? "part (copies on several ranks count)"
                                                : "part";
    return found.head + model_text(found) + (found.ranks.empty() ? "" : "\n" + found.ranks) + "\n" +
           parts_table(is_bound ? found.parts : found.stored, title) + "\n" + found.tensors +
           found.ignored + command_text(found, job);
}

constexpr int kInspectSchema = 1;

ordered_json tensor_json(const StoredRow& row) {
    ordered_json json = {{"name", row.name},       {"dtype", torch_name(row.dtype)},
                         {"shape", row.shape},     {"local", row.is_local},
                         {"shards", row.n_shards}, {"replicas", row.n_replicas},
                         {"bytes", row.bytes},     {"replica_bytes", row.replica_bytes}};
    if (row.is_local) {
        ordered_json& ranks = json["ranks"] = ordered_json::array();
        for (const catalogue::Coordinates& at : row.ranks) {
            ordered_json& rank = ranks.emplace_back();
            for (const auto& [axis, of] : kAxes) {
                rank[axis] = at.*of;
            }
        }
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
    json["files"] = collect_list(catalogue.files, [](const catalogue::File& file) -> ordered_json {
        return {{"path", file.path}, {"bytes", file.size}};
    });
    json["tensors"] = collect_list(stored_rows(catalogue), tensor_json);
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
    Inspection shown;
    mpi::on_first(comm, [&] { shown = look_at(found, job); });
    add_model(comm, job, found, shown);
    if (comm.rank() == 0) {
        out << inspect_text(shown, job);
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
