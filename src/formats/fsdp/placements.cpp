#include "placements.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/containers/torch_storage.hpp"
#include "shardweld/error.hpp"

#include "mesh.hpp"

namespace shardweld::formats::fsdp {

namespace {

using layout::Range;

Index piece_length(Index length, Index pieces) {
    return length / pieces + (length % pieces == 0 ? 0 : 1);
}

// Piece `at` of [0, length); lengths come from shapes whose volume fits an Index.
Range piece(Index length, Index pieces, Index at) {
    const Index step = piece_length(length, pieces);
    const Index last = step == 0 ? 0 : length / step;  // begins at or before the end
    const Index begin = at > last ? length : std::min(at * step, length);
    return {begin, std::min(step, length - begin)};
}

// The positions that a cut takes of a list of `length` elements.
Runs positions(const DimCut& cut, Index length) {
    const Index step = piece_length(length, cut.groups);
    const Index n_groups = step == 0 ? 0 : piece_length(length, step);
    if (n_groups > static_cast<Index>(kMostRuns)) {
        throw Error(ErrorCode::unsupported, "a strided shard divides one dimension into " +
                                                std::to_string(n_groups) + " parts, more than " +
                                                std::to_string(kMostRuns));
    }
    Runs taken;
    for (Index group = 0; group < n_groups; ++group) {
        const Index begin = group * step;
        const Range part = piece(std::min(step, length - begin), cut.pieces, cut.coordinate);
        if (part.extent > 0) {
            taken.push_back({begin + part.lo, part.extent});
        }
    }
    return taken;
}

void append(Runs& runs, Range more) {
    if (!runs.empty() && runs.back().end() == more.lo) {
        runs.back().extent += more.extent;
        return;
    }
    if (runs.size() == kMostRuns) {
        throw Error(ErrorCode::unsupported, "a rank's part of one dimension falls into more than " +
                                                std::to_string(kMostRuns) + " ranges");
    }
    runs.push_back(more);
}

// The elements of `runs` at ascending `taken` positions; one pass over both.
Runs select(const Runs& runs, const Runs& taken) {
    Runs selected;
    std::size_t at = 0;
    Index before = 0;  // elements in runs before `at`
    for (Range wanted : taken) {
        while (wanted.extent > 0) {
            while (before + runs[at].extent <= wanted.lo) {
                before += runs[at++].extent;
            }
            const Index skipped = wanted.lo - before;
            const Index count = std::min(wanted.extent, runs[at].extent - skipped);
            append(selected, {runs[at].lo + skipped, count});
            wanted = {wanted.lo + count, wanted.extent - count};
        }
    }
    return selected;
}

}  // namespace

Index length_of(const Runs& runs) {
    return add_up(runs, &Range::extent);
}

std::vector<Runs> owned(std::span<const Index> shape, std::span<const DimCut> cuts) {
    std::vector<Runs> left = collect_list(shape, [](const Index extent) {
        return extent > 0 ? Runs{{0, extent}} : Runs{};
    });
    for (const DimCut& cut : cuts) {
        Runs& runs = left.at(cut.dim);
        runs = select(runs, positions(cut, length_of(runs)));
    }
    return left;
}

namespace {

Piece empty_piece(const StoredTensor& tensor) {
    Piece piece;
    piece.base = tensor.storage_offset;
    piece.storage_bytes = tensor.storage_bytes;
    piece.crc32 = tensor.crc32;
    piece.patch.offset = tensor.element_offset;
    return piece;
}

std::size_t number_of_boxes(const std::vector<Runs>& runs) {
    std::size_t number = 1;
    for (const Runs& of_dim : runs) {
        number *= of_dim.size();
        if (number > kMostPieces) {
            throw Error(ErrorCode::unsupported, "a rank's part of it falls into more than " +
                                                    std::to_string(kMostPieces) + " boxes");
        }
    }
    return number;
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): a loop for each level, and no more
std::vector<Piece> pieces_of(const StoredTensor& local, const std::vector<Runs>& runs) {
    std::vector<Piece> pieces(number_of_boxes(runs), empty_piece(local));
    std::size_t inner = pieces.size();  // boxes that share a run of this dimension in a row
    for (std::size_t k = 0; k < runs.size() && !pieces.empty(); ++k) {
        inner /= runs[k].size();
        for (std::size_t i = 0; i < pieces.size();) {
            Index before = 0;  // elements of earlier runs
            for (const layout::Range& run : runs[k]) {
                for (const std::size_t end = i + inner; i < end; ++i) {
                    pieces[i].patch.offset += before * local.strides[k];
                    pieces[i].patch.axes.push_back({run.lo, run.extent, local.strides[k]});
                }
                before += run.extent;
            }
        }
    }
    return pieces;
}

namespace {

[[noreturn]] void fail_spec(const std::string& message) {
    throw Error(ErrorCode::corrupt, "its DTensorSpec " + message);
}

// `dim` counts from the end when negative.
std::size_t read_dim(const PickleValue* value, std::size_t n_dims) {
    if (value == nullptr || value->kind != PickleKind::integer) {
        fail_spec("has a shard without a dimension");
    }
    const auto n = static_cast<Index>(n_dims);
    const Index dim = value->integer;
    if (dim >= n || dim < -n) {
        fail_spec("shards dimension " + std::to_string(dim) + " of a tensor with " +
                  counted(n, "dimension"));
    }
    return static_cast<std::size_t>(dim < 0 ? dim + n : dim);
}

// A field, or the constructor's argument where the class is pickled by its call.
const PickleValue* field(const PickleValue& placement, std::string_view name, std::size_t at) {
    const PickleValue* const value = placement.attribute(name);
    const auto arguments = placement.arguments();
    return value == nullptr && at < arguments.size() ? arguments[at] : value;
}

MeshPlacement read_placement(const PickleValue& value, std::size_t n_dims) {
    const std::string_view name = distributed_class(value);
    MeshPlacement placement;
    if (name == "Replicate") {
        return placement;
    }
    if (name == "Partial" || name == "_Partial" || name == "_MaskPartial") {
        throw Error(ErrorCode::unsupported,
                    "it is placed as " + std::string(name) +
                        ": each rank holds a part of a sum that was never formed",
                    "redistribute it to Shard or Replicate before saving");
    }
    placement.is_strided = name == "_StridedShard";
    if (name != "Shard" && !placement.is_strided) {
        throw Error(ErrorCode::unsupported,
                    "it has the placement " + describe(value) + ", which is not read",
                    "redistribute it to Shard or Replicate before saving");
    }
    placement.is_shard = true;
    placement.dim = read_dim(field(value, "dim", 0), n_dims);
    if (placement.is_strided) {
        const PickleValue* const factor = field(value, "split_factor", 1);
        placement.split_factor = factor == nullptr ? 0 : read_count(*factor, "a split factor");
        if (placement.split_factor == 0) {
            fail_spec("has a strided shard without a split factor");
        }
    }
    return placement;
}

// ShardOrderEntry: (tensor dimension, mesh dimensions in the order in which they cut it).
void add_entry(const PickleValue& entry, std::size_t n_dims, Placements& read) {
    const auto parts = entry.arguments().empty() ? entry.elements() : entry.arguments();
    if (parts.size() != 2) {
        fail_spec("has an entry of shard_order that is not a pair");
    }
    const std::size_t dim = read_dim(parts[0], n_dims);
    for (const PickleValue* const number : short_list(*parts[1], "shard_order")) {
        const auto d = static_cast<std::size_t>(read_count(*number, "a mesh dimension"));
        const bool fits = d < read.on.size() && read.on[d].is_shard && read.on[d].dim == dim &&
                          !contains(read.order, d);
        if (!fits) {
            fail_spec("has a shard_order that contradicts its placements " + placements_text(read));
        }
        read.order.push_back(d);
    }
}

// The mesh dimensions that cut `dim`, in the order that the split factors tell: a factor is the
// product of the extents that cut before. FSDP2 over tensor parallelism, (_StridedShard(0, tp),
// Shard(0)), cuts for tp first and then what each tp rank holds, which differs from taking a piece
// of each group where sizes are uneven. Empty without factors, or when no order has them.
std::vector<std::size_t> order_by_factors(const Placements& placements, const RankMesh& mesh,
                                          std::size_t dim) {
    std::vector<std::size_t> order;
    bool is_strided = false;
    for (std::size_t d = placements.on.size(); d-- > 0;) {
        const MeshPlacement& placement = placements.on[d];
        if (!placement.is_shard || placement.dim != dim) {
            continue;
        }
        is_strided = is_strided || placement.is_strided;
        std::size_t at = 0;
        Index before = 1;
        while (before != placement.split_factor) {
            if (at == order.size() || mesh.extents[order[at]] > placement.split_factor / before) {
                return {};
            }
            before *= mesh.extents[order[at++]];
        }
        order.insert(order.begin() + static_cast<std::ptrdiff_t>(at), d);
    }
    return is_strided ? order : std::vector<std::size_t>();
}

}  // namespace

std::string_view distributed_class(const PickleValue& value) {
    const std::string_view name = value.class_name();
    return name.starts_with("torch.distributed.") ? name.substr(name.rfind(' ') + 1)
                                                  : std::string_view();
}

void read_placements(const PickleValue& spec, std::size_t n_dims, Placements& read) {
    const PickleValue* const list = spec.attribute("placements");
    if (list == nullptr) {
        fail_spec("has no placements");
    }
    read.on.clear();
    read.order.clear();
    bool is_strided = false;
    for (const PickleValue* const value : short_list(*list, "placements")) {
        read.on.push_back(read_placement(*value, n_dims));
        is_strided = is_strided || read.on.back().is_strided;
    }
    // A strided shard says the order by itself.
    const PickleValue* const order = spec.attribute("shard_order");
    if (order != nullptr && order->kind != PickleKind::none && !is_strided) {
        for (const PickleValue* const entry : short_list(*order, "shard_order")) {
            add_entry(*entry, n_dims, read);
        }
    }
    const bool is_ordered = !read.order.empty();
    for (const std::size_t d : indices(read.on)) {
        const bool is_new = !contains(read.order, d);
        if (read.on[d].is_shard && is_new) {
            if (is_ordered) {
                fail_spec("has a shard_order that contradicts its placements " +
                          placements_text(read));
            }
            read.order.push_back(d);
        }
    }
}

std::vector<DimCut> cuts_of(const Placements& placements, const RankMesh& mesh) {
    std::vector<std::size_t> dims =
        collect_list(placements.order, [&](const std::size_t d) { return placements.on[d].dim; });
    std::ranges::sort(dims);
    dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
    std::vector<DimCut> cuts;
    for (const std::size_t dim : dims) {
        const auto inner_first = order_by_factors(placements, mesh, dim);
        for (const std::size_t d : inner_first.empty() ? placements.order : inner_first) {
            const MeshPlacement& placement = placements.on[d];
            if (placement.dim == dim) {
                const Index groups = inner_first.empty() ? placement.split_factor : 1;
                cuts.push_back({dim, mesh.extents[d], mesh.coordinate[d], groups});
            }
        }
    }
    return cuts;
}

std::string placements_text(const Placements& placements) {
    std::string text;
    for (const MeshPlacement& placement : placements.on) {
        text += text.empty() ? "(" : ", ";
        const std::string dim = std::to_string(placement.dim);
        text += !placement.is_shard ? "Replicate"
                : placement.is_strided
                    ? "_StridedShard(" + dim + ", " + std::to_string(placement.split_factor) + ")"
                    : "Shard(" + dim + ")";
    }
    return (text.empty() ? "(" : text) + ")";
}

}  // namespace shardweld::formats::fsdp
