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

/// One model to write.
struct OutputSpec {
    std::filesystem::path directory = {};  ///< is made; must be new or empty
    std::string dtype = {};     ///< "bf16", "fp16", "fp32"; "": as stored, or as the first output
    std::string quantize = {};  ///< an encoding, such as "fp8-block" or "gguf:q8_0"; "": none
    std::string to = {};  ///< a training checkpoint, such as "legacy:tp=8"; "" or "hf": a model
};

/// What is merged, and how.
struct MergeRequest {
    /// Directories of checkpoints: a step, iteration or shard directory of any framework. Several
    /// become their average, or, with the options delta (the base's directory) and scale, the base
    /// and their differences from it.
    std::vector<std::filesystem::path> checkpoints;
    /// Weights of the average, one for each checkpoint; empty: all count alike.
    std::vector<double> average_weights;
    /// The directory with config.json and the tokenizer; empty: the checkpoint's own.
    std::filesystem::path model_dir;
    /// At least one. The others are made from the same read; they hold safetensors, or GGUF where
    /// their encoding is one of gguf:*, and are not for averages.
    std::vector<OutputSpec> outputs;
    /// A file for the run's report (JSON), which has a checksum of each tensor; empty: none. The
    /// command line's place is shardweld_report.json in the output's directory.
    std::filesystem::path report;
    bool overwrite = false;  ///< replace what is in the outputs' directories
    /// Any other option of `shardweld merge`, by its name without dashes and with the text that it
    /// is given there: {"lora", "fold"}, {"max_shard_size", "2GB"}, {"strict", "true"}. Options of
    /// the command line's messages and of uploads are not among them.
    std::map<std::string, std::string> options;
    /// Asks the merge to stop early. What is done stays for the next merge of the same request.
    std::stop_token stop;
};

/// A warning of a run.
struct Warning {
    std::string code;    ///< a word for programs, as in docs/using/report.md
    std::string tensor;  ///< "" where it is about no single one
    std::string text;
};

/// One model that was written.
struct WrittenOutput {
    std::filesystem::path directory;
    std::vector<std::string> files;  ///< of weights
    std::uint64_t tensors = 0;
    std::uint64_t tensor_bytes = 0;
    std::string
        root;  ///< digest over all tensors; "" unless MergeRequest::report asks for checksums
    std::vector<Warning> warnings;  ///< of the run and of this output
    std::string json;               ///< the report (docs/using/report.md)
};

/// What a merge did. is_complete() is the same on all ranks; the rest is filled on rank 0.
struct MergeReport {
    std::vector<WrittenOutput> outputs;  ///< of this call, in the request's order
    std::string why_stopped;  ///< "" unless MergeRequest::stop ended it early; on all ranks

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
MergeReport merge(const Comm& comm, const MergeRequest& request, Events& events);
MergeReport merge(const Comm& comm, const MergeRequest& request);

}  // namespace shardweld
