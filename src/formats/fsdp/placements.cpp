#include "placements.hpp"

#include <algorithm>
#include <cstddef>

#include "core/text.hpp"
#include "formats/containers/torch_storage.hpp"
#include "shardweld/error.hpp"

#include "short_list.hpp"

namespace shardweld::formats::fsdp {

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
                  std::to_string(n) + " dimension(s)");
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
                          std::find(read.order.begin(), read.order.end(), d) == read.order.end();
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
    for (std::size_t d = 0; d < read.on.size(); ++d) {
        const bool is_new = std::find(read.order.begin(), read.order.end(), d) == read.order.end();
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
    std::vector<std::size_t> dims;
    for (const std::size_t d : placements.order) {
        dims.push_back(placements.on[d].dim);
    }
    std::sort(dims.begin(), dims.end());
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
