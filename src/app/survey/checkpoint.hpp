// A checkpoint: found by names and sizes, then read. Each file's metadata are parsed once, by one
// rank that sees it, then shared.
#pragma once

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

/// A checkpoint that find_checkpoint makes and read_checkpoint completes.
struct Checkpoint {
    formats::Role role = formats::Role::weights;
    fs::path given;              ///< as JobInput::directory
    formats::Location location;  ///< with this rank's own directories
    int home = 0;  ///< found the checkpoint and its config, if any did: reads the side files

    // As names and sizes tell it, before any shard file is opened; dropped when it is read.
    FileVisibility visibility = {};
    std::vector<std::string> files = {};  ///< whose metadata are to be read: Format::scan_list
    /// The sizes of these files. Where all ranks have one view they are 0 until the files are
    /// opened: only whether a file seems to be there is known.
    SizesByGroup sizes = {};

    // When it is read.
    catalogue::Catalogue catalogue = {};     ///< the same on all ranks; its statements are judged
    catalogue::Provenance provenance = {};   ///< what they say
    plan::Visibility seen = {};              ///< who sees the catalogue's files
    std::vector<io::FileStamp> stamps = {};  ///< of these, for this rank: FileStatus::stamp
    std::vector<InputDigest> digests = {};   ///< of these, on the first rank
    Index n_reads = 0;                       ///< calls that read the metadata, of all ranks
    std::uint32_t first_file = 0;            ///< its own, where others' files stand before them

    // What a template has beside that.
    fs::path root = {};                       ///< as the command line has it
    bool keeps_others = true;                 ///< what only it has is copied, not refused
    std::vector<publish::Asset> assets = {};  ///< its files without tensors; on one rank alone

    /// Its role behind the name of what is done with it: " of the base"; "" for the first.
    [[nodiscard]] std::string of_role() const;
    /// Local. As FileVisibility::leave_to.
    void leave_to(mpi::Comm& leaders);
};

/// Collective. Ranks with the same view of the directory (host, mounts, directory) form a group
/// whose lowest rank looks for all. Error(not_found) names every file that no rank sees;
/// Error(mismatch) when two groups see different checkpoints or sizes; Error(not_found) when
/// an earlier version has left holes in it.
Checkpoint find_checkpoint(mpi::Comm& comm, const formats::JobInput& request);

/// Collective. Reads the metadata. Error(not_found) and Error(mismatch) as above, of what they
/// name, and when files contradict each other. `on_scan` is told of files.
void read_checkpoint(mpi::Comm& comm, Checkpoint& found, const mpi::OnShare& on_scan = {});

/// Collective; `directory` is where the checkpoint that `request` names lies. Does a step that
/// agrees on its errors; to one of them the first rank, which says it, adds an older save that it
/// finds.
void telling_of_older_save(const mpi::Comm& comm, const formats::JobInput& request,
                           const fs::path& directory, const std::function<void()>& step);

/// Puts the files of `more`, and who sees them as what, behind those of `first`, under absolute
/// names. Both catalogues have the list of all, and the pieces of `more` name their files there.
void put_files_behind(Checkpoint& first, Checkpoint& more);

}  // namespace shardweld::app
