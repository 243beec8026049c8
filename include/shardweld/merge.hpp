// Merging a distributed checkpoint into one HuggingFace model, as a call.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "shardweld/comm.hpp"
#include "shardweld/error.hpp"
#include "shardweld/events.hpp"

namespace shardweld {

/// Options by their names without dashes, with the texts that the command line takes: {"lora",
/// "fold"}, {"max_shard_size", "2GB"}; a flag is {"strict", "true"}.
using OptionTexts = std::map<std::string, std::string>;

/// What is asked for.
struct Request {
    /// Directories of checkpoints: a step, iteration or shard directory of any framework. Several
    /// become their average, or, with the options task_arithmetic (the base's directory) and scale,
    /// the base and their differences from it.
    std::vector<std::filesystem::path> inputs = {};
    /// Any option of the command but the input's directory, messages and uploads. Without `report`
    /// no report is written, unless `keeps_report`.
    OptionTexts options = {};
    /// Further outputs of the same read: of each its target_dir, and dtype, quantize or to where it
    /// has its own. They hold safetensors, or GGUF where their encoding is one of gguf:*, and are
    /// not for averages.
    std::vector<OptionTexts> also = {};
    /// Whether each output keeps its report as shardweld_report.json, as the command line has it,
    /// unless the option report names another place or "none".
    bool keeps_report = false;
    /// Asks the merge to stop early. What is done stays for the next merge of the same request.
    std::stop_token stop = {};
};

/// One model that was written.
struct WrittenOutput {
    std::filesystem::path directory;
    std::vector<std::string> files;  ///< of weights
    std::uint64_t tensors = 0;
    std::uint64_t tensor_bytes = 0;
    std::string root;  ///< digest over all tensors; "" unless the option report asks for checksums
    std::vector<Warning> warnings;  ///< of the run and of this output
    std::string json;               ///< the report (docs/using/report.md)
};

/// What a merge did. is_complete() is the same on all ranks; the rest is filled on rank 0.
struct MergeReport {
    std::vector<WrittenOutput> outputs;  ///< of this call, the first one's first
    std::string why_stopped;             ///< "" unless Request::stop ended it early; on all ranks

    /// Whether every output is there.
    [[nodiscard]] bool is_complete() const { return why_stopped.empty(); }
};

/// Collective. Writes the outputs of `request`: the same bytes at any number of ranks, and those of
/// `shardweld merge`. A directory has its name only when it is whole. Writes nothing to standard
/// output and standard error, reads no environment variables, and leaves signals as they are; a
/// program on a cluster gives options such as stop_at and memory_limit itself.
///
/// Throws Error, the same on all ranks: Error(usage) for a request that makes no sense, and the
/// others of docs/using/errors.md. A failure of one rank that the others cannot be told of, such as
/// memory that runs out in the middle, ends all ranks (MPI_Abort) where there are several.
MergeReport merge(const RankGroup& comm, const Request& request, Events& events);
MergeReport merge(const RankGroup& comm, const Request& request);

}  // namespace shardweld
