// Checksums of what tensors leave of files, shared out among the ranks.
#pragma once

#include <string>
#include <vector>

#include "mpi/comm.hpp"
#include "plan/output_range.hpp"

#include "file_hashes.hpp"

namespace shardweld::app {

/// A file, and where tensors lie in it.
struct FileWithTensors {
    std::string name;  ///< relative to the model's directory
    std::vector<plan::OutputRange> tensors;
};

/// Collective. By file, the xxh3-128 of its bytes outside of tensors, in hex; "" of one that is not
/// there. All ranks list the files alike. Error(io), Error(stopped).
std::vector<std::string> rest_digests(mpi::Comm& comm, const std::vector<FileWithTensors>& files,
                                      const Hashing& hashing);

/// What differs between the files whose rest a report has and what was found of the same files, for
/// people. Pure.
std::vector<std::string> rest_differences(const std::vector<FileEntry>& reported,
                                          const std::vector<FileEntry>& found);

}  // namespace shardweld::app
