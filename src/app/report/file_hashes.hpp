// SHA-256 of files, shared out among the ranks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/index.hpp"
#include "io/input_file.hpp"
#include "io/throttle.hpp"
#include "mpi/free_run.hpp"

namespace shardweld::app {

struct FileEntry {
    std::string name;  ///< relative to the model's directory
    Bytes bytes = 0;
    std::string sha256;     ///< in hex; "" when not computed
    std::string rest = {};  ///< of what is no tensor in it, as rest_digests has it; "" likewise
};

/// Opens a file of a model; nullopt where it may be absent, and is.
using OpenFile = std::function<std::optional<io::InputFile>(const std::string& name)>;

/// How files are hashed.
struct Hashing {
    OpenFile open;
    io::Throttle* throttle = nullptr;  ///< files are read no faster than it lets them
    mpi::WhyStop why_stop;
    mpi::OnShare on_hashed;
};

/// Collective. Files that all ranks list alike, each read by the rank that `readers` says. One that
/// is not there has no checksum. Error(io), Error(stopped).
void hash_files(mpi::Comm& comm, std::vector<FileEntry>& files, const std::vector<int>& readers,
                const Hashing& hashing);

/// Collective. Hashes the files that rank `home` names of a model that all ranks see, the largest
/// shared out first; sorted by name.
std::vector<FileEntry> hash_files(mpi::Comm& comm, int home,
                                  const std::function<std::vector<std::string>()>& names,
                                  const Hashing& hashing);

/// What differs between the files a report names and what was found of the same files, for people.
/// Pure.
std::vector<std::string> file_differences(const std::vector<FileEntry>& reported,
                                          const std::vector<FileEntry>& found);

}  // namespace shardweld::app
