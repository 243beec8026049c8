// SHA-256 of files, shared out among the ranks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/index.hpp"
#include "io/input_file.hpp"
#include "io/throttle.hpp"
#include "mpi/free_run.hpp"

namespace shardweld::app {

struct FileEntry {
    std::string name;  ///< relative to the model's directory
    Bytes bytes = 0;
    std::string sha256;  ///< in hex; "" when not computed

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.name, self.bytes, self.sha256);
    };
};

/// Opens a file of a model; nullopt where it may be absent, and is.
using OpenFile = std::function<std::optional<io::InputFile>(const std::string& name)>;

/// Collective. Files that all ranks list alike, each read by the rank that `readers` says, no
/// faster than its `throttle` (may be null) lets it. One that is not there has no checksum.
/// Error(io), Error(stopped).
void hash_files(mpi::Comm& comm, std::vector<FileEntry>& files, const std::vector<int>& readers,
                const OpenFile& open, io::Throttle* throttle, const mpi::WhyStop& why_stop,
                const mpi::OnShare& on_hashed = {});

/// Collective. Hashes the files that rank `home` names of a model that all ranks see, the largest
/// shared out first; sorted by name.
std::vector<FileEntry> hash_files(mpi::Comm& comm, const OpenFile& open, int home,
                                  const std::function<std::vector<std::string>()>& names,
                                  io::Throttle* throttle, const mpi::WhyStop& why_stop,
                                  const mpi::OnShare& on_hashed = {});

/// What differs between the files a report names and what was found of the same files, for people.
/// Pure.
std::vector<std::string> file_differences(const std::vector<FileEntry>& reported,
                                          const std::vector<FileEntry>& found);

}  // namespace shardweld::app
