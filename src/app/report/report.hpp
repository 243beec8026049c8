// The report of a run: what was found, planned and done, and the time that it took. Values come
// from the parts that know them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "app/messages/warnings.hpp"
#include "app/runtime/memory.hpp"
#include "app/settings/job.hpp"
#include "catalogue/file.hpp"
#include "catalogue/provenance.hpp"
#include "core/index.hpp"
#include "core/path.hpp"
#include "execute/record_check.hpp"
#include "execute/run.hpp"
#include "models/verification.hpp"
#include "numeric/census.hpp"
#include "plan/binding.hpp"
#include "publish/run_facts.hpp"
#include "shardweld/error.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::plan {
struct Plan;
}  // namespace shardweld::plan

namespace shardweld::app {

/// One part of the run. Times stand here only, so that everything else of
/// two equal runs is equal.
struct Phase {
    std::string name;  ///< "survey", "plan", "execute", "publish", ...
    double wall_s = 0;
    double cpu_s = 0;
    Bytes bytes_read = 0;
    Bytes bytes_written = 0;
    Bytes bytes_sent = 0;

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.name, self.wall_s, self.cpu_s, self.bytes_read, self.bytes_written,
                        self.bytes_sent);
    };
};

/// Times phases one after another and keeps what they took.
class Stopwatch {
  public:
    Stopwatch();
    /// From now on every phase is told at its end.
    void on_lap(std::function<void(const Phase&)> on_lap) { on_lap_ = std::move(on_lap); }
    /// Ends the current phase under this name; the next one begins.
    Phase& lap(const std::string& name);
    [[nodiscard]] const std::vector<Phase>& phases() const { return phases_; }

  private:
    double wall_;
    double cpu_;
    std::vector<Phase> phases_;
    std::function<void(const Phase&)> on_lap_;
};

/// One tensor worth a look.
struct OddTensor {
    std::string name;
    Index n_nan = 0;
    Index n_inf = 0;
    bool is_zero = false;         ///< all elements are 0
    bool is_constant = false;     ///< all have one value that is not 0
    bool is_mostly_zero = false;  ///< more than half are 0, of an adapter's factor
    std::string zeros = {};       ///< how much of it is 0: "48 of 64 rows"
};

/// What is odd about the census of some targets. NaNs and infinities are odd everywhere. All zeros
/// and one value are odd where two extents at least are larger than one: norms of ones, biases of
/// zeros and scalars are normal. So are norms of zeros, where models store their distance from one
/// (Gemma, Qwen3-Next), and exponents (f8_e8m0) that are all alike. All zeros are odd everywhere
/// among the names in `changed`: the model that was trained had something there. Trained factors of
/// an adapter hold hardly a zero: where most are, the rows of some ranks were lost. In the order of
/// the targets.
std::vector<OddTensor> judge_census(const plan::WrittenTensors& tensors,
                                    const std::map<std::uint32_t, numeric::Census>& census,
                                    const std::set<std::string>& changed = {});

/// One warning or, of zeros, two for each kind of oddity (`nan_values`, `inf_values`, `all_zero`,
/// `constant`, `mostly_zero`), which names the first tensors that have it.
Warnings sanity_warnings(const std::vector<OddTensor>& all,
                         const std::string& noun = "written tensor");

/// Warnings about factors that are folded, and so are in no output: zeros only.
Warnings factor_warnings(const plan::WrittenTensors& tensors,
                         const std::map<std::uint32_t, numeric::Census>& census);

/// How a run was started, so that it can be started again.
struct Circumstances {
    std::string command;    ///< as it can be typed in a shell
    std::string launcher;   ///< the command line of mpirun or srun; "" where none is seen
    std::string unseen;     ///< what is known of a launcher that is not seen; "" if there is none
    std::string directory;  ///< the working directory
    std::string started;    ///< UTC: "2026-02-28T23:59:59Z"
    std::map<std::string, std::string> variables;
};

/// How this process was started. `arguments`: the whole command line; none: a program of its own
/// called the library, and nothing but the time is looked at.
Circumstances circumstances_of(const std::vector<std::string>& arguments);

/// Whether a variable may change a run, and holds no secret: Slurm's, MPI's, OpenMP's and the
/// program's own, without addresses of the launcher's daemons.
bool is_telling(const std::string& variable);

/// What a comparison with the base tells, for the report.
struct BaseSummary {
    std::string directory;
    std::size_t n_compared = 0;        ///< tensors of one shape on both sides
    std::size_t n_equal = 0;           ///< of these, bit for bit, rounded to one dtype
    double max_absolute = 0;           ///< |result - base|, over all elements
    std::string max_tensor;            ///< where it is; "" when nothing differs
    std::vector<std::string> extra;    ///< names only the result has
    std::vector<std::string> missing;  ///< names only the base has
    std::vector<std::string> shapes;   ///< names whose shapes differ
    std::vector<std::string> changed;  ///< names whose values differ
};

/// One output tensor and where it lies.
struct TensorEntry {
    std::string name;
    DType dtype = DType::f32;
    std::vector<Index> shape;
    std::string file;
    Bytes offset = 0;  ///< from the start of the file
    Bytes bytes = 0;
    std::string digest;                ///< xxh3-128, "" when not computed
    std::vector<std::string> sources;  ///< files its elements come from, without repeats
    Bytes block = 0;                   ///< under one checksum, where that is not 1 MiB
    std::string encoding = {};         ///< of codes, with how near they are to the weight
    std::optional<numeric::Quality> quality = {};
    std::vector<std::string> factors = {};  ///< of an adapter that are folded into it
};

/// A file of a model.
struct FileEntry {
    std::string name;  ///< relative to the model's directory
    Bytes bytes = 0;
    std::string sha256;     ///< in hex; "" when not computed
    std::string rest = {};  ///< of what is no tensor in it, as rest_digests has it; "" likewise
};

/// A checkpoint that was read.
struct InputReport {
    std::string directory;
    std::string format;
    std::map<std::string, Index> facts;
    std::vector<std::string> notes;  ///< what was found, and what of it was taken
    std::size_t n_files = 0;
    Bytes bytes = 0;
    catalogue::Provenance provenance;
};
InputReport input_report(const fs::path& directory, const catalogue::Catalogue& catalogue,
                         const catalogue::Provenance& provenance);

/// One of several checkpoints that became one model.
struct MixedInput {
    InputReport input;
    bool is_base = false;  ///< of --task_arithmetic: the others' differences from it are added
    float weight = 1;
    plan::Ledger ledger = {};
};

/// What was taken over of an earlier run.
struct Resumed {
    Index blocks_reused = 0;
    Bytes bytes_reused = 0;
    Bytes bytes_seen = 0;    ///< of these, not read back by this run but by an earlier one
    Bytes bytes_redone = 0;  ///< in the journal, but not on the disk as it says
};

/// What the output depends on and where it lies: by it a later run knows that it is complete.
struct MadeOf {
    std::string target;                ///< its directory, resolved
    std::string config;                ///< xxh3-128 of the text of the model's config.json, in hex
    std::vector<std::string> options;  ///< RunFacts::options
    std::vector<publish::InputFact> inputs;
};

/// How large a model is, whatever it is written as.
struct ModelSize {
    Index parameters = 0;       ///< of the model; scales of codes are none
    Index adapter = 0;          ///< of an adapter that is written beside it
    std::size_t states = 0;     ///< tensors of an optimizer that are written beside it
    std::size_t n_encoded = 0;  ///< weights that are written as codes
    std::string encoding;       ///< of these, "" for none
    std::vector<DType> dtypes;  ///< of all others, that of most bytes first

    /// "155,584 parameters, bfloat16".
    [[nodiscard]] std::string text() const;
};

/// What concerns one output.
struct OutputReport {
    JobOutput asked;
    std::string target;       ///< its directory, as it was given; "" if nothing is written
    std::string format;       ///< of its files: "safetensors", ...
    std::string model_class;  ///< as config.json names it; "" if unknown
    ModelSize size;
    std::string plan_hash;
    Bytes metadata_bytes = 0;  ///< that the plan holds on each rank
    /// Whose quotas were looked at; empty: they are unknown.
    std::optional<std::vector<std::string>> quotas;
    std::optional<Resumed> resumed;  ///< with --resume
    std::optional<MadeOf> made_of;   ///< when the output was begun
    std::vector<execute::RankResult> ranks;
    plan::Ledger ledger;
    std::vector<std::string> supplement;  ///< names of tensors that --supplement gave
    std::vector<FileEntry> files;         ///< of weights; all, with their checksums, under --sha256
    std::vector<std::string> side_files;  ///< what else was written, by name
    std::vector<TensorEntry> tensors;
    std::optional<std::vector<OddTensor>> odd;  ///< of tensors; nullopt: nobody has looked
    std::optional<BaseSummary> base;  ///< of the first output, when it was compared with --base
    Warnings own_warnings;            ///< about this output, where it is not the first
    std::string root;                 ///< digest over all tensors, "" when not computed
    bool is_published = false;        ///< the model has its name
};

/// What all outputs of a run have in common. Filled in as the run gets on, so that a failed run
/// reports as far as it came.
struct RunReport {
    std::string command;
    ErrorCode code = ErrorCode::ok;
    Error failure{ErrorCode::ok, ""};
    std::string mpi;  ///< library and version; "none" for one process without MPI
    std::vector<std::string> hosts;
    int n_ranks = 1;
    Circumstances circumstances;
    InputReport input;
    std::vector<FileEntry> input_sums;    ///< of files that were found as the save lists them
    std::optional<bool> is_planned_once;  ///< ranks of a node hold the plan once; where they could
    Index metadata_reads = 0;       ///< calls that read the checkpoint's metadata, of all ranks
    std::vector<MixedInput> mixed;  ///< in the order in which they are added; empty: there was one
    std::string recipe;             ///< "" before it is known
    models::Verification verification;  ///< of the recipe in the checkpoint's format
    std::string strategy;
    std::string why;
    Index rounds = 0;
    std::vector<Phase> phases;
    std::vector<std::vector<Phase>> rank_phases;  ///< by rank; empty after a failure
    bool is_left_alone = false;  ///< the output was complete: the report that says so stays
    std::optional<execute::RecordCounts> crc;  ///< when checksums were looked at
    std::vector<RankMemory> memory;            ///< by rank; may be empty
    Warnings warnings;                         ///< about the run, and about its first output
    std::vector<OutputReport> outputs;         ///< the first one's first
};

/// What is told of a run and one of its outputs.
struct Report : RunReport, OutputReport {};

/// The run's warnings, and behind them the output's own.
Warnings all_warnings(const RunReport& run, const OutputReport& output);

/// What tells of a plan's tensor, by its number in the order of the targets, where it lies, with
/// the checksums of a run. `factors`: the plan of those that are folded; null: there are none.
std::function<TensorEntry(std::size_t)> entries_of(const plan::Plan& plan,
                                                   const std::vector<catalogue::File>& files,
                                                   const execute::Result& result,
                                                   const plan::Plan* factors = nullptr);
/// All of these.
std::vector<TensorEntry> tensor_entries(const plan::Plan& plan,
                                        const std::vector<catalogue::File>& files,
                                        const execute::Result& result,
                                        const plan::Plan* factors = nullptr);

/// Put into a report how the plan of the first output goes about it, and what the plan of an output
/// makes.
void describe_strategy(RunReport& report, const plan::Plan& plan);
void describe_plan(OutputReport& report, const plan::Plan& plan,
                   const std::vector<catalogue::File>& files, const plan::Plan* factors = nullptr);

}  // namespace shardweld::app
