// A stored tensor and where its pieces lie.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/dtype.hpp"
#include "core/index.hpp"
#include "core/shared_text.hpp"
#include "layout/patch.hpp"

namespace shardweld::catalogue {

/// Where one shard sits in the parallel grid of the saving job. -1: the format has no such
/// coordinate.
struct Coordinates {
    int tp = 0;
    int pp = 0;
    int vpp = 0;
    int ep = 0;
    int etp = 0;
    int fsdp = 0;  ///< data-parallel rank among which a plain tensor may be sharded
    friend auto operator<=>(const Coordinates&, const Coordinates&) = default;

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.tp, self.pp, self.vpp, self.ep, self.etp, self.fsdp);
    };
};

/// Part of a tensor in one file: element address a of `patch` is at file byte base + a *
/// size_of(dtype).
struct Piece {
    std::uint32_t file = 0;     ///< index into Catalogue::files
    std::uint32_t replica = 0;  ///< 0: primary; others hold the same elements again
    Bytes base = 0;             ///< file offset of the storage's first byte
    Bytes storage_bytes = 0;    ///< size of the storage; every address of patch lies inside
    layout::Patch patch;        ///< over the stored tensor's axes
    std::uint32_t crc32 = 0;    ///< of the whole storage, 0 where the format records none
    /// false: base and storage_bytes bound a container (a DCP blob) that is still to be opened;
    /// strides are those of a dense tensor until then.
    bool located = true;
};

/// A stored tensor of known global shape.
struct Tensor {
    std::string name;
    DType dtype = DType::f32;
    std::vector<Index> shape;
    std::vector<Piece> pieces;
    std::string stored_as = {};  ///< its key in the files, where that is not `name`; "" otherwise
    std::string placement = {};  ///< how the saving job spread it, for people; "" if not told
    /// Its dtype in the model, where that is not `dtype`: it is cast, unless --dtype says more.
    std::optional<DType> written_as = {};
};

/// A rank-local tensor of a format that leaves joining to the dialect (legacy Megatron): name with
/// global layer number but local expert number, local shape, coordinates. piece.patch is over the
/// local shape.
struct Shard {
    SharedText name;
    DType dtype = DType::f32;
    std::vector<Index> shape;
    Coordinates at;
    Piece piece;
};

}  // namespace shardweld::catalogue
