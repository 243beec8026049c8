// All that can be said on the command line, for programs: packaging/pages.py makes manual pages and
// completions of it.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/runtime/external.hpp"
#include "app/runtime/version.hpp"
#include "app/settings/option_table.hpp"
#include "models/recipe.hpp"
#include "models/saved_form.hpp"
#include "shardweld/error.hpp"

#include "parse_options.hpp"

namespace shardweld::app {

namespace {

using nlohmann::ordered_json;

struct ExitRow {
    ErrorCode code;
    std::string_view meaning;
    unsigned commands = 0;  ///< that end with it, see bit_of
};

struct ManualRow {
    std::string_view term;
    std::string_view text;
    unsigned commands = 0;  ///< that it matters to, see bit_of
};

constexpr unsigned kParallel = kEvery & ~kRecipes;
constexpr unsigned kPlanned = kMerge | kPlan | kTest;
constexpr unsigned kChecked = kPlanned | kInspect | kDiff | kVerify;
// Of commands that are programs of their own, too.
constexpr int kCodesOfAll[] = {0, 2, 3, 7, 9, 70};

// NOLINTNEXTLINE(readability-function-size): a table
/// All codes, in their order.
const std::vector<ExitRow>& exit_rows() {
    static const std::vector<ExitRow> rows = {
        {ErrorCode::ok, "done", kEvery},
        {ErrorCode::usage, "the command line, a recipe or the choice of a directory is wrong",
         kEvery},
        {ErrorCode::not_found, "no checkpoint or model, or an incomplete one", kEvery},
        {ErrorCode::corrupt, "a file is damaged or hostile", kChecked},
        {ErrorCode::unsupported, "recognised, but not handled", kParallel},
        {ErrorCode::mismatch, "shapes, dtypes, ranks, config or cover contradict each other",
         kChecked},
        {ErrorCode::io, "reading or writing failed", kEvery},
        {ErrorCode::space, "disk, quota or inodes are exhausted", kPlanned | kVerify},
        {ErrorCode::memory, "not enough memory", kEvery},
        {ErrorCode::launch, "MPI or the launcher", kParallel},
        {ErrorCode::stopped, "stopped, can be resumed", kMerge},
        {ErrorCode::target, "the target, or the place of a log, exists or may not be written",
         kParallel},
        {ErrorCode::differs, "a comparison found differences", kTest | kDiff | kVerify},
        {ErrorCode::strict, "a warning under --strict", kPlanned},
        {ErrorCode::locked, "another run is writing the target", kMerge},
        {ErrorCode::incomplete, "a step was not made, or what is run behind it failed", 0},
        {ErrorCode::no_client, "upload: no client", kMerge},
        {ErrorCode::no_token, "upload: no token", kMerge},
        {ErrorCode::no_rights, "upload: the token or its rights were refused", kMerge},
        {ErrorCode::no_repository, "upload: no such repository or owner", kMerge},
        {ErrorCode::no_network, "upload: the Hub cannot be reached", kMerge},
        {ErrorCode::interrupted, "upload: began and did not finish", kMerge},
        {ErrorCode::internal, "a bug in shardweld", kEvery},
    };
    return rows;
}

// NOLINTNEXTLINE(readability-function-size): a table
/// Variables that the program reads or sets.
const std::vector<ManualRow>& environment_rows() {
    static const std::vector<ManualRow> rows = {
        {"OMPI_COMM_WORLD_SIZE, PMIX_RANK, PMI_RANK, PMI_SIZE, MPI_LOCALNRANKS, PALS_RANKID, "
         "SLURM_STEP_NUM_TASKS",
         "set by launchers. They tell whether MPI is to be started, and how many ranks must then "
         "find each other.",
         kParallel},
        {"OMPI_COMM_WORLD_RANK, PMIX_RANK, PMI_RANK, PALS_RANKID, SLURM_PROCID",
         "the rank, before MPI is started: only the first one speaks.", kEvery},
        {"OMPI_MCA_pml, OMPI_MCA_mtl",
         "the transport of Open MPI. Where neither is set and the node has no fast network, ob1 is "
         "taken, which saves the search for one.",
         kParallel},
        {"SLURM_JOB_ID, SLURM_JOB_END_TIME",
         "the job and its end, before which a merge stops by itself (--stop_before).", kMerge},
        {"SLURM_MEM_PER_NODE, SLURM_MEM_PER_CPU, SLURM_CPUS_ON_NODE",
         "the job's memory, beside that of its cgroup: they bound the default of --memory_limit.",
         kPlanned},
        {"HF_TOKEN, HUGGING_FACE_HUB_TOKEN, HF_TOKEN_PATH, HF_HOME, XDG_CACHE_HOME, "
         "HF_OIDC_RESOURCE",
         "the Hub's token, or where its client keeps it. It is not printed.", kMerge},
        {"PATH", "where hf (uploads), lfs (striping) and squeue (the job's end) are searched.",
         kPlanned},
        {"NO_COLOR, TERM",
         "whether messages on a terminal have colours and a bar: no colours where NO_COLOR is set, "
         "neither where TERM is dumb.",
         kEvery},
        {"TORCHELASTIC_RUN_ID, WORLD_SIZE",
         "set by torchrun, whose processes are refused where there are several.", kEvery},
        {"OPAL_PREFIX, LD_LIBRARY_PATH",
         "where a program that is not linked with MPI, such as that of the wheel, looks first for "
         "the library of its ranks.",
         kParallel},
    };
    return rows;
}

// NOLINTNEXTLINE(readability-function-size): a table
const std::vector<ManualRow>& file_rows() {
    static const std::vector<ManualRow> rows = {
        {"config.json",
         "the HuggingFace config, from the checkpoint (huggingface/) or --hf_config, with the "
         "tokenizer beside it.",
         kPlanned | kInspect},
        {".NAME.shardweld-partial",
         "beside the target NAME: what a merge has written so far, with the journal that --resume "
         "reads. Renamed to NAME at the end.",
         kMerge},
        {".NAME.shardweld-lock", "beside the target NAME: held by the merge into it.", kMerge},
        {".NAME.shardweld-old", "beside the target NAME: the model that --overwrite replaces.",
         kMerge},
        {".shardweld-partial, .shardweld-lock, .shardweld-old",
         "the same inside the target, where nothing can be created beside it.", kMerge},
        {"lora_adapter/", "in the target: the adapter of --lora split.", kMerge},
        {"model.safetensors, model.safetensors.index.json, config.json",
         "a model's weights, or their index, and its config.", kDiff | kVerify},
        {"rank-0000.log", "in the directory of --log_dir: what the first rank says and does.",
         kParallel},
        {"lib/shardweld/shardweld_hdf5.so, lib/shardweld/shardweld_hdf5_list",
         "beside the program's directory: what writes and lists HDF5 files.", kPlanned | kInspect},
        {"share/doc/shardweld/docs/using/recipes.md", "the language of recipes and dialects.",
         kRecipes},
    };
    return rows;
}

/// The names of a set of commands.
std::vector<std::string_view> names_of(unsigned commands) {
    std::vector<std::string_view> names;
    for (const CommandRow& command : command_rows()) {
        if ((commands & bit_of(command.command)) != 0) {
            names.push_back(command.name);
        }
    }
    return names;
}

std::string_view kind_of_value(const OptionRow& row) {
    if (row.names_path()) {
        return row.names_directory() ? "directory" : "file";
    }
    return row.is_flag() ? "none" : row.set.words().empty() ? "text" : "word";
}

ordered_json commands_json() {
    ordered_json commands = ordered_json::array();
    for (const CommandRow& row : command_rows()) {
        commands.push_back({{"name", row.name},
                            {"usage", row.usage},
                            {"summary", row.summary},
                            {"about", row.about},
                            {"arguments", row.others}});
    }
    return commands;
}

ordered_json options_json() {
    ordered_json options = ordered_json::array();
    for (const OptionRow& row : option_rows()) {
        ordered_json by_command = ordered_json::object();
        for (const CommandRow& command : command_rows()) {
            if (row.is_in_help_of(command)) {
                by_command[std::string(command.name)] = help_for(row, command);
            }
        }
        options.push_back({{"name", row.name},
                           {"letter", row.letter == 0 ? "" : std::string(1, row.letter)},
                           {"group", row.group},
                           {"is_listed", !row.group.empty()},
                           {"value", row.value},
                           {"kind", kind_of_value(row)},
                           {"words", row.set.words()},
                           {"may_lack_value", row.may_lack_value()},
                           {"is_repeated", row.is_repeated},
                           {"help", row.help},
                           {"help_by_command", std::move(by_command)}});
    }
    return options;
}

ordered_json exit_codes_json() {
    ordered_json codes = ordered_json::array();
    for (const ExitRow& row : exit_rows()) {
        codes.push_back({{"code", static_cast<int>(row.code)},
                         {"name", name_of(row.code)},
                         {"meaning", row.meaning},
                         {"commands", names_of(row.commands)}});
    }
    return codes;
}

ordered_json rows_json(const std::vector<ManualRow>& rows) {
    ordered_json all = ordered_json::array();
    for (const ManualRow& row : rows) {
        all.push_back(
            {{"name", row.term}, {"meaning", row.text}, {"commands", names_of(row.commands)}});
    }
    return all;
}

ordered_json recipes_json() {
    ordered_json names = ordered_json::array();
    for (const models::RecipeFile& source : models::built_in_sources()) {
        if (!source.file_name.ends_with(models::kListEnding)) {
            names.push_back(fs::path(source.file_name).stem().string());
        }
    }
    return names;
}

}  // namespace

namespace {

ordered_json& row_of(ordered_json& rows, const ordered_json& name, const char* key) {
    for (ordered_json& row : rows) {
        if (row.at(key) == name) {
            return row;
        }
    }
    return rows.emplace_back();
}

/// Puts the rows of a command into those of all; a row that is there only learns the command.
void add_rows(ordered_json& all, const ordered_json& own, const char* key,
              const std::string& command) {
    for (const ordered_json& row : own) {
        ordered_json& known = row_of(all, row.at(key), key);
        if (known.empty()) {
            known = row;
            known["commands"] = ordered_json::array();
        }
        known["commands"].push_back(command);
    }
}

/// Puts an installed command's description where the built-in ones are.
void add_command(ordered_json& help, ordered_json told) {
    const std::string name = told.at("name");
    const std::string passes_on = told.at("passes_on");
    for (ordered_json& option : help.at("options")) {
        ordered_json& by_command = option.at("help_by_command");
        if (by_command.contains(passes_on)) {
            by_command[name] = by_command.at(passes_on);
        }
    }
    for (ordered_json& own : told.at("options")) {
        ordered_json& option = row_of(help.at("options"), own.at("name"), "name");
        if (option.empty()) {
            option = own;
            option["help_by_command"] = ordered_json::object();
        }
        if (own.at("is_listed").get<bool>()) {
            option["is_listed"] = true;
            option["help_by_command"][name] = own.at("help");
        } else {
            option["help_by_command"].erase(name);
        }
    }
    for (ordered_json& row : help.at("exit_codes")) {
        if (std::ranges::find(kCodesOfAll, row.at("code").get<int>()) != std::end(kCodesOfAll)) {
            row["commands"].push_back(name);
        }
    }
    add_rows(help.at("exit_codes"), told.at("exit_codes"), "code", name);
    add_rows(help.at("environment"), told.at("environment"), "name", name);
    add_rows(help.at("files"), told.at("files"), "name", name);
    for (const ordered_json& refused : told.value("refuses", ordered_json::array())) {
        row_of(help.at("options"), refused, "name").at("help_by_command").erase(name);
    }
    for (const char* key :
         {"passes_on", "refuses", "options", "exit_codes", "environment", "files"}) {
        told.erase(key);
    }
    help.at("commands").push_back(std::move(told));
}

}  // namespace

std::string help_json_of(const std::string& command) {
    ordered_json options = options_json();
    for (std::size_t i = options.size(); i > 0; --i) {
        const ordered_json& by_command = options[i - 1].at("help_by_command");
        if (!by_command.contains(command)) {
            options.erase(i - 1);
        }
    }
    return ordered_json{{"version", version()}, {"name", command}, {"options", std::move(options)}}
               .dump(2) +
           "\n";
}

std::string help_json() {
    ordered_json help = {{"version", version()},
                         {"commands", commands_json()},
                         {"options", options_json()},
                         {"recipes", recipes_json()},
                         {"exit_codes", exit_codes_json()},
                         {"environment", rows_json(environment_rows())},
                         {"files", rows_json(file_rows())}};
    for (const External& external : installed_externals()) {
        add_command(help, ordered_json::parse(description_of(external)));
    }
    return help.dump(2) + "\n";
}

}  // namespace shardweld::app
