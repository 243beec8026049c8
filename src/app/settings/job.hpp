// What is asked for, as values, and that all ranks are asked for the same.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "app/messages/progress.hpp"
#include "core/dtype.hpp"
#include "core/path.hpp"
#include "formats/format.hpp"
#include "mpi/comm.hpp"
#include "numeric/encoding.hpp"
#include "plan/binding.hpp"
#include "plan/job_plan.hpp"
#include "publish/room.hpp"

namespace shardweld::app {

/// Regular expressions (RE2's syntax) that are searched for in names as they are written.
struct Selection {
    std::optional<std::string> include;  ///< only names that hold it
    std::optional<std::string> exclude;  ///< but not those that hold this
};

/// Error(usage), in the name of `option`, when `text` is no such expression.
void check_expression(const std::string& text, const std::string& option);

/// Whether a name is selected; for many names.
std::function<bool(const std::string&)> selects(const Selection& selection);

/// Takes what is not selected out of a binding; the ledger counts it as ignored. Error(usage) when
/// nothing is left.
void select(plan::Binding& binding, const Selection& selection);

/// Several checkpoints that become one model.
struct Averaging {
    bool is_average = false;      ///< --average
    std::vector<double> weights;  ///< --average_weights, by checkpoint; empty: not given
    std::optional<double> decay;  ///< --average_decay
    std::optional<fs::path>
        base;  ///< --task_arithmetic: the model that the checkpoints' differences are from
    std::vector<double> scales;     ///< --scale: of each checkpoint, or one of all
    std::size_t n_checkpoints = 1;  ///< those that are joined, without the base

    [[nodiscard]] bool is_asked() const { return is_average || base.has_value(); }
    /// By checkpoint, as they are multiplied: weights are divided by their sum, scales are as
    /// given. Requires is_asked().
    [[nodiscard]] std::vector<float> factors() const;
    /// "average of 2: 0.5, 0.5". Requires is_asked().
    [[nodiscard]] std::string text() const;
};

/// Error(usage) for options that do not go together, for weights that are not as many as
/// checkpoints, and for those that do not add up to more than 0.
void check_averaging(const Averaging& averaging);

enum class Command {
    merge,
    plan,
    inspect,
    recipes,
    test,
    diff,
    verify,
    clean,
    mount,
    unmount,
    help,
    version,
    external  ///< a program of its own, installed with this one
};

/// What becomes of a LoRA adapter in the checkpoint.
enum class Lora {
    split,  ///< written on its own beside the base weights
    fold,   ///< added into the weights
    drop,   ///< left out
};

/// When the checksums of torch's records are held against their bytes.
enum class CheckCrc {
    before,  ///< all are read once more before anything is written
    during,  ///< as they are read
    off,
};

/// What a merge does whose output is there already, whole and its own.
enum class IfComplete {
    error,   ///< it refuses, as for any target that is not empty
    verify,  ///< it reads the output against the report, and ends well
    skip,    ///< it looks at sizes and headers only, and ends well
};

/// The most ranks that are planned for: a plan looks at the share of each.
inline constexpr Index kMostRanks = 100'000;

/// What is asked for one output of a merge; everything else is asked for the whole run.
struct JobOutput {
    fs::path directory;
    std::optional<Encoding> quantise = {};
    std::optional<DType> dtype = {};
    std::optional<fs::path> report = {};  ///< written when the run ends
    std::string gguf_file = {};           ///< the name of its GGUF file; "": by its type
    bool keeps_report = false;  ///< one is published with the model (publish::kKeptReport)
    std::string form = {};  ///< of a training checkpoint (--to, --like); "": a HuggingFace model

    [[nodiscard]] bool is_reported() const { return report || keeps_report; }
    [[nodiscard]] bool is_training() const { return !form.empty(); }
    /// The type of a GGUF file, in llama.cpp's names and forms; nullopt: it is none.
    [[nodiscard]] std::optional<Encoding> ggml() const {
        return quantise && facts_of(*quantise).is_ggml() ? quantise : std::nullopt;
    }
};

struct Checkpoint;

/// Names of modules that begin with `from` in an adapter, and with `to` in its base.
struct Respelling {
    std::string from;
    std::string to;
};

/// How a model is to be understood and made, beyond what its files say.
struct JobModel {
    bool has_module_names = false;    ///< of the checkpoint's module tree; else save_pretrained's
    bool is_tied = false;             ///< head and embedding are one, whatever config.json says
    bool is_value = false;            ///< it classifies tokens
    std::optional<Index> vocab_size;  ///< instead of config.json's
    Lora lora = Lora::split;          ///< what becomes of an adapter
    std::optional<double> lora_alpha;
    Averaging averaging;  ///< of several checkpoints
    Selection selection;
    std::optional<std::string> quantise_ignore;  ///< names of weights that stay as they are
    std::optional<fs::path> hf_config;           ///< has config.json and the tokenizer
    std::optional<fs::path> recipe;
    std::optional<fs::path> config;  ///< recipes: the directory whose config.json is evaluated
    std::optional<fs::path> base;    ///< the model an adapter was trained on
    fs::path supplement;             ///< the model that has what a checkpoint lacks; "": none

    // What is known when it is prepared.
    JobOutput output = {};  ///< the forms and types that it is bound for
    /// A GGUF file beside it is made of the same read (plan::LogicalPatch).
    bool has_logical_patches = false;
    bool is_bound_again = false;  ///< what is stored is bound to another output's tensors, too
    bool has_states = false;      ///< of an optimizer, which padding rows have, too
    std::shared_ptr<const Checkpoint> like = {};      ///< the template that its form names
    std::shared_ptr<const Checkpoint> supplied = {};  ///< has what the checkpoint does not
    bool is_untied = false;  ///< head and embedding are two, though one may stand for both
    std::vector<Respelling> respelled =
        {};  ///< what an adapter's names were before (respelled.hpp)
};

/// How the work is done and told, and what of it is kept.
struct JobRun {
    plan::JobPlan plan;  ///< as far as it does not depend on the ranks
    std::size_t max_open = 64;
    CheckCrc check_crc = CheckCrc::during;
    bool copies_template = true;  ///< with --like: what only the template has
    bool is_verl = false;         ///< --verl: as verl's merger gives it
    bool overwrite = false;
    IfComplete if_complete = IfComplete::error;
    bool sync = true;
    bool has_card = true;    ///< README.md of the written model
    bool is_direct = false;  ///< --direct_io
    bool sha256 = false;
    bool paranoid = false;  ///< all that was written is read back before it is published
    std::optional<publish::Striping> striping;
    std::optional<Bytes> memory_limit;  ///< not given: default_memory_limit()
    std::optional<bool> read_ahead;     ///< not given: where ranks have a core to spare
    bool strict = false;
    std::optional<Bytes> bw_limit;  ///< bytes a second, of all ranks; not given: no limit
    bool resume = false;   ///< work to go on with is expected: it is said where there is none
    bool restart = false;  ///< work of an earlier merge is removed instead of gone on with
    std::optional<double> stop_before;  ///< seconds before the job's end
    std::optional<double> stop_at;      ///< seconds since 1970
    std::stop_token stop;               ///< of a program that calls the merge
    double stall_timeout = 1800;        ///< seconds; 0: none
    int n_ranks = 1;                    ///< plan only
    std::optional<Bytes> rate;          ///< plan only: bytes a second that the job reads and writes

    // Comparing (test, diff).
    fs::path reference;  ///< test: --test_hf_dir; diff: the second directory
    double atol = 1e-6;
    double rtol = 1e-6;
    bool strict_dtype = false;

    // Cleaning.
    double older_than = 0;    ///< seconds
    bool is_dry_run = false;  ///< list, remove nothing

    // Upload.
    std::string upload_path;  ///< ORG/NAME, "" if not asked for
    bool is_private = false;
    std::string revision;            ///< the branch that is uploaded to; "": the Hub's default
    std::optional<fs::path> hf_cli;  ///< the client; not given: `hf` on PATH

    // Messages.
    bool shows_steps = false;  ///< inspect: --steps
    bool json = false;
    bool is_whole = false;      ///< inspect: every row
    bool lists_inputs = false;  ///< plan: the files that are read, and nothing else
    std::string trace;          ///< a tensor whose way is told, "" if none
    LogLevel log_level = LogLevel::info;
    std::optional<bool> has_colours;  ///< --color; not given: where a terminal has them
    ProgressStyle progress = ProgressStyle::automatic;
    std::optional<fs::path> log_dir;
    std::optional<fs::path> done;  ///< where the end of the run is told (write_run_end)

    // Mounting.
    bool is_daemon = false;
    bool is_for_all = false;           ///< other users may read it
    std::optional<fs::path> ready;     ///< written when it can be read
    std::optional<Bytes> cache_limit;  ///< bytes of strips; not given: 48 MiB
    std::vector<std::string> program;  ///< run meanwhile, and nothing afterwards
};

/// How much help is printed: all of a command's options, the usual ones, or rows for programs.
enum class HelpForm { whole, brief, json };

/// Texts of options by the names of their rows; "true" for flags.
using GivenTexts = std::map<std::string, std::string, std::less<>>;

/// What one call is asked for, by a command line or by a program.
struct Job {
    Command command = Command::help;
    std::string topic;  ///< recipes: NAME; help: the command it is about; "" if none
    HelpForm help = HelpForm::whole;
    std::vector<std::string> installed;  ///< an installed command's name, and what it is given
    GivenTexts given;                    ///< what was said, whose values the other members are

    /// The checkpoint that is merged, then all that is read beside it (formats::Role).
    std::vector<formats::JobInput> inputs{1};
    std::vector<JobOutput> outputs{{"tmp"}};  ///< one at least; all are made from the same read
    JobModel model;
    JobRun run;

    std::vector<std::string> notes;  ///< options accepted that change nothing, said at debug level
    std::vector<std::string> remarks;    ///< how options were understood, said at info level
    std::vector<std::string> arguments;  ///< the whole command line, as it was given

    /// What all ranks must be given alike: the command and its options, but not which path one
    /// names (node-local disks) nor how much is told.
    std::string shared;

    /// inspect, plan: what a merge of the same is given, as words.
    std::vector<std::string> merge_words;

    /// The options as given that can lead to other outputs, but not their forms: a merge resumes
    /// only with the same.
    std::vector<std::string> output_options;

    [[nodiscard]] bool has(std::string_view option) const { return given.contains(option); }
};

/// The directories of the checkpoints that the factors of an average are for, in their order.
std::vector<fs::path> averaged(const Job& job);

/// Whether another output of the same merge is a GGUF file.
inline bool has_gguf_beside(const Job& job) {
    return std::any_of(job.outputs.begin() + 1, job.outputs.end(),
                       [](auto& also) { return also.ggml().has_value(); });
}
/// Whether another output of the same merge is bound to tensors of its own: a GGUF file, a training
/// checkpoint, or a model beside one.
inline bool is_bound_again(const Job& job) {
    return has_gguf_beside(job) ||
           (job.outputs.size() > 1 && std::ranges::any_of(job.outputs, &JobOutput::is_training));
}

/// Collective. Error(launch) unless all ranks run the same program; `mine` names this rank's
/// version.
void require_same_program(mpi::Comm& comm, const std::string& mine);

/// Collective, before anything else that ranks do together. Error(usage) on all of them unless each
/// gives the same `text` (Job::shared; of a refused command line its error).
void require_same_options(mpi::Comm& comm, const std::string& text);

}  // namespace shardweld::app
