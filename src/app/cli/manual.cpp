#include "manual.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include "app/runtime/version.hpp"
#include "app/settings/command_table.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

struct ExitRow {
    ErrorCode code;
    std::string_view meaning;
    unsigned commands = 0;  ///< that end with it, see bit_of
};

struct ManualRow {
    std::string_view term;
    std::string_view text;
    unsigned commands = 0;
};

constexpr unsigned kParallel = kEvery & ~kRecipes;
constexpr unsigned kPlanned = kMerge | kPlan | kTest;
constexpr unsigned kChecked = kPlanned | kInspect | kDiff | kVerify;
constexpr unsigned kUploading = kMerge | kUpload;

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
        {ErrorCode::space, "disk, quota or inodes are exhausted", kPlanned | kVerify | kIobench},
        {ErrorCode::memory, "not enough memory", kEvery},
        {ErrorCode::launch, "MPI or the launcher", kParallel},
        {ErrorCode::stopped, "stopped, can be resumed", kMerge},
        {ErrorCode::target, "the target, or the place of a log, exists or may not be written",
         kParallel},
        {ErrorCode::differs, "a comparison found differences", kTest | kDiff | kVerify},
        {ErrorCode::strict, "a warning under --strict", kPlanned},
        {ErrorCode::locked, "another run is writing the target", kMerge},
        {ErrorCode::no_client, "upload: no client", kUploading},
        {ErrorCode::no_token, "upload: no token", kUploading},
        {ErrorCode::no_rights, "upload: the token or its rights were refused", kUploading},
        {ErrorCode::no_repository, "upload: no such repository or owner", kUploading},
        {ErrorCode::no_network, "upload: the Hub cannot be reached", kUploading},
        {ErrorCode::interrupted, "upload: began and did not finish", kUploading},
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
         "the Hub's token, or where its client keeps it. It is not printed.", kUploading},
        {"PATH", "where hf (uploads), lfs (striping) and squeue (the job's end) are searched.",
         kPlanned | kUpload | kIobench},
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
         "a model's weights, or their index, and its config.", kDiff | kVerify | kUpload},
        {".shardweld-iobench-*", "in DIR: the files that are measured with; removed at the end.",
         kIobench},
        {"rank-0000.log", "in the directory of --log_dir: what the first rank says and does.",
         kParallel},
        {"lib/shardweld/shardweld_hdf5.so, lib/shardweld/shardweld_hdf5_list",
         "beside the program's directory: what writes and lists HDF5 files.", kPlanned | kInspect},
        {"share/doc/shardweld/docs/using/recipes.md", "the language of recipes and dialects.",
         kRecipes},
    };
    return rows;
}

constexpr std::string_view kExamples = "Examples:\n";

/// Text as roff shows it as it is: backslashes and dashes escaped, no line taken for a request.
std::string escaped(std::string_view text) {
    std::string result;
    bool at_line_begin = true;
    for (const char c : text) {
        if (at_line_begin && (c == '.' || c == '\'')) {
            result += "\\&";
        }
        if (c == '\\') {
            result += "\\e";
        } else if (c == '-') {
            result += "\\-";
        } else {
            result += c;
        }
        at_line_begin = c == '\n';
    }
    return result;
}

std::string bold(std::string_view text) {
    return "\\fB" + escaped(text) + "\\fP";
}

std::string title(std::string_view name) {
    std::string upper(name);
    std::transform(upper.begin(), upper.end(), upper.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return ".TH " + escaped(upper) + R"( 1 "" "shardweld )" + escaped(version()) + "\" shardweld\n";
}

std::string section(std::string_view name, const std::string& body) {
    return ".SH " + std::string(name) + "\n" + body;
}

/// Lines that keep their breaks.
std::string verbatim(std::string_view text) {
    return ".nf\n" + escaped(text) + ".fi\n";
}

/// Paragraphs stand apart by empty lines, which roff would take literally.
std::string paragraphs(std::string_view text) {
    std::string result;
    bool is_first = true;
    for (const std::string_view line : split(text, '\n')) {
        if (line.empty()) {
            is_first = true;
            continue;
        }
        result += (is_first && !result.empty() ? ".PP\n" : "") + escaped(line) + "\n";
        is_first = false;
    }
    return result;
}

std::string entry(const std::string& term, std::string_view text) {
    return ".TP\n" + term + "\n" + escaped(text) + "\n";
}

std::string options_of(const CommandRow& command) {
    std::string text;
    std::string_view group;
    for (const OptionRow* row : listed_options(command)) {
        if (row->group != group) {
            group = row->group;
            text += ".SS " + std::string(group) + "\n";
        }
        std::string term;
        if (row->letter != 0) {
            term = bold(std::string("-") + row->letter) + ", ";
        }
        term += bold("--" + std::string(row->name));
        if (!row->is_flag()) {
            term += " \\fI" + escaped(row->value) + "\\fP";
        }
        text += entry(term, help_for(*row, command));
    }
    return text;
}

/// The rows of `commands`, each as an entry.
std::string entries(const std::vector<ManualRow>& rows, unsigned commands) {
    std::string text;
    for (const ManualRow& row : rows) {
        if ((row.commands & commands) != 0) {
            text += entry(bold(row.term), row.text);
        }
    }
    return text;
}

std::string exit_status(unsigned commands) {
    std::string text;
    for (const ExitRow& row : exit_rows()) {
        if ((row.commands & commands) != 0) {
            text += entry(bold(std::to_string(static_cast<int>(row.code))), row.meaning);
        }
    }
    return text + ".PP\nAll ranks end with the same code, which mpirun and srun return.\n";
}

std::string see_also() {
    std::string text = bold("shardweld") + "(1)";
    for (const CommandRow& command : command_rows()) {
        text += ",\n" + bold("shardweld-" + std::string(command.name)) + "(1)";
    }
    return text + "\n";
}

/// The sections that all pages end with.
std::string last_sections(unsigned commands, std::string_view examples) {
    return section("EXIT STATUS", exit_status(commands)) +
           section("ENVIRONMENT", entries(environment_rows(), commands)) +
           section("FILES", entries(file_rows(), commands)) +
           section("EXAMPLES", verbatim(examples)) + section("SEE ALSO", see_also());
}

std::string commands() {
    std::string text;
    for (const CommandRow& command : command_rows()) {
        text += entry(bold(command.name), command.summary);
    }
    return text;
}

}  // namespace

std::string manual_page() {
    return title("shardweld") +
           section(
               "NAME",
               "shardweld \\- merge distributed training checkpoints into HuggingFace models\n") +
           section("SYNOPSIS", bold("shardweld") + " \\fICOMMAND\\fP [\\fIoptions\\fP]\n.br\n" +
                                   bold("mpirun -n") + " \\fIN\\fP " + bold("shardweld") +
                                   " \\fICOMMAND\\fP [\\fIoptions\\fP]\n") +
           section(
               "DESCRIPTION",
               paragraphs("Merges the shards that training jobs leave behind into one model "
                          "directory, with as many ranks as the launcher starts. Each command "
                          "has a page of its own. Option names may be written with - or _. Results "
                          "go to standard output, messages to standard error.\n")) +
           section("COMMANDS", commands()) +
           last_sections(kEvery,
                         "  shardweld inspect ckpt/global_step_100\n"
                         "  mpirun -n 8 shardweld merge --local_dir ckpt/global_step_100/actor \\\n"
                         "      --target_dir merged\n"
                         "  shardweld verify merged\n");
}

std::string manual_page(const CommandRow& command) {
    const std::string name = "shardweld-" + std::string(command.name);
    const std::size_t examples = command.about.find(kExamples);
    std::string page = title(name) +
                       section("NAME", escaped(name) + " \\- " + escaped(command.summary) + "\n") +
                       section("SYNOPSIS", bold(command.usage) + "\n");
    if (examples > 0) {
        page += section("DESCRIPTION", paragraphs(command.about.substr(0, examples)));
    }
    return page + section("OPTIONS", options_of(command)) +
           last_sections(bit_of(command.command),
                         command.about.substr(examples + kExamples.size()));
}

}  // namespace shardweld::app
