// An existing training checkpoint that a written one is to be like (--like): what it calls tensors,
// in which type, and where in which files it has them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "core/path.hpp"
#include "formats/format.hpp"
#include "io/stamp.hpp"
#include "publish/assets.hpp"

namespace shardweld::app {

/// As it was found and surveyed.
struct CheckpointTemplate {
    fs::path root;                   ///< as the command line has it
    formats::Location location;      ///< with this rank's own directories
    catalogue::Catalogue catalogue;  ///< with all files of the run, its own behind the others
    std::uint32_t first_file = 0;    ///< of its own
    bool keeps_others = true;        ///< what only it has is copied, not refused
    std::vector<io::FileStamp> stamps = {};   ///< of its own files, as this rank saw them
    std::vector<publish::Asset> assets = {};  ///< its files without tensors; on one rank alone

    /// What a file of its is called below the root, and in what is written.
    [[nodiscard]] std::string name_of(const fs::path& file) const;
    /// Its directory, absolute.
    [[nodiscard]] fs::path directory() const;
};

/// Error(unsupported) where it is no template: of a format that is not written. Pure.
void require_template(const CheckpointTemplate& like);

/// Error(mismatch) where files of its directory may hold more weights of its model than those that
/// were read: they would lie beside the written ones, and are others. Pure.
void require_no_other_weights(const CheckpointTemplate& like, const catalogue::Catalogue& read);

/// The files that are copied whole, as they are: all of the checkpoint but those of tensors,
/// HuggingFace's, and a list of sums. Local. Error(io).
std::vector<publish::Asset> assets_of(const CheckpointTemplate& like);

}  // namespace shardweld::app
