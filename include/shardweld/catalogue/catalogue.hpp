// What a checkpoint holds: tensors and where their pieces lie. Made by formats, read by plan.
// Metadata only; knows nothing of models, targets or MPI.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "shardweld/core/dtype.hpp"
#include "shardweld/core/index.hpp"
#include "shardweld/layout/patch.hpp"

namespace shardweld::catalogue {

/// A file that holds tensor data. `path` is relative to the checkpoint directory of the rank that
/// reads it.
struct File {
    std::string path;
    Bytes size = 0;

    static constexpr auto fields = [](auto& self) { return std::tie(self.path, self.size); };
};

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

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.file, self.replica, self.base, self.storage_bytes, self.patch,
                        self.crc32, self.located);
    };
};

/// A stored tensor of known global shape.
struct Tensor {
    std::string name;
    DType dtype = DType::f32;
    std::vector<Index> shape;
    std::vector<Piece> pieces;
    std::string stored_as = {};  ///< its key in the files, where that is not `name`; "" otherwise
    std::string placement = {};  ///< how the saving job spread it, for people; "" if not told

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.name, self.dtype, self.shape, self.pieces, self.stored_as,
                        self.placement);
    };
};

/// A rank-local tensor of a format that leaves joining to the dialect (legacy Megatron): name with
/// global layer number but local expert number, local shape, coordinates. piece.patch is over the
/// local shape.
struct Shard {
    std::string name;
    DType dtype = DType::f32;
    std::vector<Index> shape;
    Coordinates at;
    Piece piece;

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.name, self.dtype, self.shape, self.at, self.piece);
    };
};

/// Things recognised and left aside.
struct Ignored {
    std::string pattern;
    std::string reason;
    Index count = 0;
    Bytes bytes = 0;

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.pattern, self.reason, self.count, self.bytes);
    };
};

/// A configuration value as the checkpoint itself states it (args, transformer_config.json), to be
/// checked against config.json. Key: the framework's name; value: decimal, "true"/"false", or text.
using Claims = std::map<std::string, std::string>;

/// What one place in one file says of the save it belongs to; judged in provenance.hpp.
struct Statement {
    std::string file;    ///< relative, as File::path
    std::string source;  ///< where it stands, for people: "its name", "args", "its device mesh"
    /// Which part of the save the file holds ("tp" -> "1"): two statements of one file agree on
    /// what both say, and no two files say the same of all of it.
    Claims rank;
    /// Which save it is ("iteration" -> "10"): all statements of all files agree on what they say.
    Claims save;
    /// false: a name or a tracker, which anybody changes; true: written by the saving job itself.
    bool is_inner = true;
    /// What the file holds, as far as it tells it from others ("" if not looked at): files of one
    /// likeness that do not state their rank could be exchanged and nothing would show it.
    std::string likeness = {};

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.file, self.source, self.rank, self.save, self.is_inner, self.likeness);
    };
};

struct Catalogue {
    std::string format;              ///< e.g. "megatron torch_dist"
    std::string dialect;             ///< e.g. "megatron_core"
    std::vector<std::string> notes;  ///< what was found, for people ("iteration 10 of ...")
    /// What is doubtful about the checkpoint, by code: "replica_absent" -> "...".
    std::map<std::string, std::string> warnings;
    std::vector<File> files;      ///< sorted naturally by path
    std::vector<Tensor> tensors;  ///< global tensors, sorted by name
    std::vector<Shard> shards;    ///< rank-local tensors still to be joined
    std::vector<Ignored> ignored;
    std::map<std::string, Index> facts;  ///< t, te, tp, pp, vpp, ep, etp, version, iteration...
    Claims claims;
    std::vector<Statement> statements;           ///< of all files, in their order
    std::map<std::string, Index> inert_globals;  ///< pickle globals left inert, with their counts

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.format, self.dialect, self.notes, self.warnings, self.files,
                        self.tensors, self.shards, self.ignored, self.facts, self.claims,
                        self.statements, self.inert_globals);
    };
};

/// Bytes of all elements that are stored: of tensors and shards with their replicas, and of what
/// was left aside.
Bytes stored_bytes(const Catalogue& catalogue);
Bytes stored_bytes(const Tensor& tensor);
Bytes stored_bytes(const Shard& shard);

}  // namespace shardweld::catalogue
