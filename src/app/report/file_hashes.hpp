// SHA-256 of files, shared out among the ranks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/input_file.hpp"
#include "mpi/free_run.hpp"

#include "run.hpp"

namespace shardweld::app {

/// Opens a file of a model; nullopt where it may be absent, and is.
using OpenFile = std::function<std::optional<io::InputFile>(const std::string& name)>;

/// Collective, shown as a phase of that name. Files that all ranks list alike, each read by the
/// rank that `readers` says. One that is not there has no checksum. Error(io), Error(stopped).
void hash_files(const Run& run, const std::string& phase, std::vector<FileEntry>& files,
                const std::vector<int>& readers, const OpenFile& open,
                const mpi::WhyStop& why_stop);

/// Collective. Hashes the files that rank `home` names of a model that all ranks see, the largest
/// shared out first; sorted by name.
std::vector<FileEntry> hash_files(const Run& run, int home,
                                  const std::function<std::vector<std::string>()>& names,
                                  const OpenFile& open, const mpi::WhyStop& why_stop);

/// What differs between the files a report names and what was found of the same files, for people.
/// Pure.
std::vector<std::string> file_differences(const std::vector<FileEntry>& reported,
                                          const std::vector<FileEntry>& found);

}  // namespace shardweld::app
