// What a report says of the output it describes, read back, and how an output differs from it.
#pragma once

#include <string>
#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"

#include "file_hashes.hpp"

namespace shardweld::app {

struct ReportedTensor {
    std::string name;
    std::string dtype;  ///< as torch spells it
    std::vector<Index> shape;
    std::string digest;  ///< xxh3-128 in hex
    Bytes block = 0;     ///< that it was made by; 0: 1 MiB
};

/// An input file as it was.
struct ReportedInput {
    std::string name;  ///< relative to the checkpoint
    Bytes bytes = 0;
    Index modified_ns = 0;
};

struct ReportedOutput {
    fs::path directory;                ///< resolved; "" in reports of versions before 0.2
    std::vector<std::string> options;  ///< that the output depends on
    std::string config;                ///< digest of the model's config.json
    fs::path input;                    ///< the checkpoint's directory
    std::vector<ReportedInput> inputs;
    std::vector<std::string> side_files;
    std::vector<FileEntry> files;
    std::vector<ReportedTensor> tensors;
    std::string root;  ///< digest over all tensors
};

/// Error(not_found) when there is no such file, Error(corrupt) when it is no report,
/// Error(unsupported) for another schema, Error(usage) when the run it describes failed or computed
/// no checksums.
ReportedOutput read_reported_output(const fs::path& path);

/// Lines naming each tensor that differs, is missing or is too much, in the order of the report.
/// Empty when `found` is the output that `reported` describes. Pure.
std::vector<std::string> output_differences(const ReportedOutput& reported,
                                            const ReportedOutput& found);

}  // namespace shardweld::app
