// Reads a checkpoint's metadata with many ranks: each file is parsed once, by one rank that sees
// it, then shared. Surveys of several checkpoints are joined.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "catalogue/provenance.hpp"
#include "formats/format.hpp"
#include "io/stamp.hpp"
#include "mpi/comm.hpp"
#include "mpi/free_run.hpp"
#include "plan/visibility.hpp"

#include "file_visibility.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

/// What the metadata of a file say, in one number: a file of the same size and time that holds
/// something else is known by it.
struct InputDigest {
    /// FNV-1a over names, types, shapes, places and CRC-32 of the tensors in the file: against
    /// accidents, not against intent.
    std::uint64_t value = 0;
    bool has_all_checksums = true;  ///< every storage in it has a CRC-32
    friend bool operator==(const InputDigest&, const InputDigest&) = default;
};

/// By the catalogue's files; all pieces must be located. Linear in the pieces.
std::vector<InputDigest> digests_of(const catalogue::Catalogue& catalogue);

struct Survey {
    formats::Location location;      ///< with this rank's own directories
    catalogue::Catalogue catalogue;  ///< the same on all ranks; its statements are judged already
    catalogue::Provenance provenance;
    plan::Visibility visibility;
    std::vector<io::FileStamp>
        stamps;  ///< of the catalogue's files, for this rank: FileStatus::stamp
    std::vector<InputDigest> digests;  ///< of the catalogue's files, on the first rank
    Index n_reads = 0;                 ///< calls that read the metadata, of all ranks
    int home = 0;  ///< found the checkpoint and its config, if any did: reads the side files
};

/// A checkpoint as names and sizes tell it, before any shard file is opened.
struct FoundCheckpoint {
    formats::Location location;  ///< with this rank's own directories
    int home = 0;                ///< as Survey::home
    FileVisibility visibility;
    std::vector<std::string> files;  ///< whose metadata are to be read: Format::scan_list
    SizesByGroup sizes;              ///< of these

    /// Local. As FileVisibility::leave_to.
    void leave_to(mpi::Comm& leaders);
};

/// Collective. Ranks with the same view of the directory (host, mounts, directory) form a group
/// whose lowest rank looks for all. Error(not_found) names every file that no rank sees;
/// Error(mismatch) when two groups see different checkpoints or sizes.
FoundCheckpoint find_checkpoint(mpi::Comm& comm, const formats::InputRequest& request);

/// Collective. Error(not_found) and Error(mismatch) as above, of what the metadata name, and when
/// files contradict each other. `on_scan` is told of files.
Survey survey(mpi::Comm& comm, FoundCheckpoint found, const mpi::OnShare& on_scan = {});

/// Puts the files of `more`, and who sees them as what, behind those of `first`, under absolute
/// names. Both catalogues have the list of all, and the pieces of `more` name their files there.
void put_files_behind(Survey& first, Survey& more);

}  // namespace shardweld::app
