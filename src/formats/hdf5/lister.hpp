// Lists HDF5 files: runs the program that does so, because the library is not trusted with files
// from others, and reads what it prints. Checks everything: a hostile file may have taken that
// process over.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"
#include "hdf5/listing.hpp"

namespace shardweld::formats::hdf5 {

using shardweld::hdf5::DatasetLayout;

/// Where a piece lies in its tensor.
struct PiecePlace {
    std::vector<Index> global_shape;
    std::vector<Index> offsets;
};

struct Dataset {
    std::string name;
    std::string storage;  ///< safetensors name of the stored type, "" for others
    DatasetLayout layout = DatasetLayout::unknown;
    std::uint64_t n_filters = 0;
    std::optional<Bytes> offset;  ///< nullopt: it has no bytes
    std::vector<Index> shape;     ///< extents may be anything
    bool is_null = false;
    std::string dtype;                ///< as the attribute says, "" if none
    std::optional<PiecePlace> place;  ///< nullopt: a whole tensor
    std::string fault;                ///< of the attributes, "" if none
};

/// The datasets at the root. Error(corrupt) when the library cannot read the file or the listing is
/// malformed; Error(unsupported) for links to elsewhere, groups and other objects.
std::vector<Dataset> parse_listing(ByteView bytes);

struct ListerLimits {
    int seconds = 120;                ///< of wall time
    Bytes bytes = Bytes{256} << 20U;  ///< that it prints
};

/// What `program` prints when it is given `file`. Error(corrupt) when it dies, fails, prints too
/// much or takes too long: that is the file's doing. Error(io) when it cannot be started.
std::vector<std::byte> run_lister(const fs::path& program, const fs::path& file,
                                  const ListerLimits& limits = {});

}  // namespace shardweld::formats::hdf5
