// Reads a checkpoint's metadata with many ranks: each file is parsed once, by one rank that sees
// it, then shared; files that take milliseconds each are read by threads in turns. Surveys of
// several checkpoints are joined. Whether the files that become part of a model are the
// checkpoint's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "catalogue/provenance.hpp"
#include "core/index.hpp"
#include "core/path.hpp"
#include "formats/format.hpp"
#include "io/stamp.hpp"
#include "mpi/comm.hpp"
#include "mpi/free_run.hpp"
#include "plan/visibility.hpp"
#include "publish/assets.hpp"

#include "file_visibility.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::io {
class InputFile;
}  // namespace shardweld::io

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
    fs::path given;                  ///< as InputRequest::directory
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
    fs::path given;              ///< as InputRequest::directory
    formats::Location location;  ///< with this rank's own directories
    int home = 0;                ///< as Survey::home
    FileVisibility visibility;
    std::vector<std::string> files;  ///< whose metadata are to be read: Format::scan_list
    /// Of these; where all ranks have one view only whether they seem to be there, until they are
    /// opened: 0.
    SizesByGroup sizes;

    /// Local. As FileVisibility::leave_to.
    void leave_to(mpi::Comm& leaders);
};

/// Collective. Ranks with the same view of the directory (host, mounts, directory) form a group
/// whose lowest rank looks for all. Error(not_found) names every file that no rank sees;
/// Error(mismatch) when two groups see different checkpoints or sizes; Error(not_found) when
/// an earlier version has left holes in it.
FoundCheckpoint find_checkpoint(mpi::Comm& comm, const formats::InputRequest& request);

/// Collective. Error(not_found) and Error(mismatch) as above, of what the metadata name, and when
/// files contradict each other. `on_scan` is told of files.
Survey survey(mpi::Comm& comm, FoundCheckpoint found, const mpi::OnShare& on_scan = {});

/// Puts the files of `more`, and who sees them as what, behind those of `first`, under absolute
/// names. Both catalogues have the list of all, and the pieces of `more` name their files there.
void put_files_behind(Survey& first, Survey& more);

/// Error(corrupt) when the file, by links, is none below `root`. Local.
void require_own(const fs::path& file, const fs::path& root);

/// For files of `hf_directory`, which came with the checkpoint in `given`: config.json, the
/// tokenizer and others that are copied may not be links that lead out of it, for who made the
/// checkpoint would choose a file of this machine that becomes part of the model. Whoever names a
/// directory with --hf_config trusts its links.
publish::Opener own_opener(const fs::path& hf_directory, const fs::path& given);

/// How many threads read so many files on each of so many ranks of a node. They mostly wait for a
/// file system far away, so cores do not limit them, but what its servers bear.
std::size_t reading_threads(Index ranks_on_node, std::size_t n_files);

/// Which thread has the turn: only the caller's may tell others of it.
enum class Turn { own, other };

/// Calls `work` for each of 0 to n - 1 once, and begins them in this order. Up to `n_threads` take
/// turns, the caller's among them, where there is memory for them. Throws what the first that fails
/// throws; later ones may be left out then.
void in_turns(std::size_t n, std::size_t n_threads,
              const std::function<void(std::size_t at, Turn turn)>& work);

}  // namespace shardweld::app
