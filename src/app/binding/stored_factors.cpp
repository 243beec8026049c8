#include "stored_factors.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "formats/recognise.hpp"
#include "layout/expression.hpp"
#include "plan/bind/store_match.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

using catalogue::Catalogue;

namespace {

constexpr const char* kHalfMissing = "half of the adapter is missing: copy all files of its save";

/// Rows of rank 0 of all segments, then those of rank 1, as the rows of all ranks segment by
/// segment. `ends`: where the rows of each segment end.
void undo_rank_order(catalogue::Tensor& tensor, Index n_ranks, const std::vector<Index>& ends) {
    const std::size_t rows = tensor.shape.size() - 2;
    const Index of_rank = tensor.shape[rows] / n_ranks;
    const bool is_even = std::ranges::all_of(ends, [&](Index end) { return end % n_ranks == 0; });
    std::vector<catalogue::Piece> pieces;
    for (const catalogue::Piece& piece : tensor.pieces) {
        const Index rank = piece.patch.axes[rows].lo / of_rank;
        if (!is_even || piece.patch.axes[rows].extent != of_rank ||
            piece.patch.axes[rows].lo != rank * of_rank) {
            throw Error(ErrorCode::unsupported,
                        "the pieces of " + printable(tensor.name) + " are not the rows of " +
                            std::to_string(n_ranks) +
                            " tensor-parallel ranks: their order is not known",
                        kMergeThere);
        }
        Index begin = 0;
        for (const Index end : ends) {
            catalogue::Piece& own = pieces.emplace_back(piece);
            layout::Axis& axis = own.patch.axes[rows];
            own.patch.offset += begin / n_ranks * axis.stride;
            axis.extent = (end - begin) / n_ranks;
            axis.lo = begin + rank * axis.extent;
            begin = end;
        }
    }
    tensor.pieces = std::move(pieces);
}

/// Whether tensor-parallel ranks each have rows of all segments: "(t [z: .. | x: ..])".
bool is_cut_in_segments(const models::Line& weight) {
    const layout::Dim& rows = weight.layout.dims[weight.layout.dims.size() - 2];
    return rows.size() > 1 && rows.front().name == "t" && !rows.back().segments.empty();
}

using SegmentEnds = std::vector<std::pair<std::string, Index>>;

/// Labels of the weight's segments and where their rows end.
SegmentEnds rows_by_segment(const plan::StoreMatch& weight, const models::Symbols& symbols) {
    const auto bound = layout::BoundLayout::bind(
        weight.line->layout,
        [&](const std::string& symbol) { return symbols.value(symbol, weight.captures); });
    const std::vector<Index>& shape = bound.shape();
    std::vector<layout::SegmentPatch> patches;
    bound.lower(layout::dense_shape(shape), patches);
    std::map<Index, std::string> begins;
    for (const layout::SegmentPatch& one : patches) {
        begins.emplace(one.patch.offset / shape.back() % shape[shape.size() - 2],
                       bound.segments()[as_size(one.segment)].label);
    }
    SegmentEnds found;
    for (auto at = begins.begin(); at != begins.end(); ++at) {
        const auto next = std::next(at);
        found.emplace_back(at->second,
                           next == begins.end() ? shape[shape.size() - 2] : next->first);
    }
    return found;
}

/// One tensor of its segments' rows, by their labels.
catalogue::Tensor join_one(const std::string& name, std::map<std::string, catalogue::Tensor> parts,
                           const SegmentEnds& segments) {
    const std::size_t rows = parts.begin()->second.shape.size() - 2;
    catalogue::Tensor whole = parts.begin()->second;
    whole.name = name;
    whole.pieces.clear();
    Index begin = 0;
    for (const auto& [label, end] : segments) {
        const auto part = parts.extract(label);
        if (!part || part.mapped().shape[rows] != end - begin) {
            throw Error(ErrorCode::mismatch,
                        printable(name) + " is stored in segments, and " + label + " has not " +
                            std::to_string(end - begin) + " rows",
                        kHalfMissing);
        }
        for (catalogue::Piece& piece : part.mapped().pieces) {
            piece.patch.axes[rows].lo += begin;
            whole.pieces.push_back(std::move(piece));
        }
        begin = end;
    }
    if (!parts.empty()) {
        throw Error(ErrorCode::mismatch,
                    printable(name) + " is stored in segments, and its weight has none called " +
                        parts.begin()->first,
                    kMergeThere);
    }
    whole.shape[rows] = begin;
    return whole;
}

}  // namespace

void refuse_half(const std::string& factor) {
    throw Error(ErrorCode::mismatch,
                printable(factor) + " is stored, but the other factor of its pair is not",
                kHalfMissing);
}

Bytes spread_shared(Catalogue& factors, const models::LoraNames& names) {
    Bytes copied = 0;
    std::map<std::string, std::vector<Index>> shapes;
    for (const catalogue::Tensor& tensor : factors.tensors) {
        shapes.emplace(tensor.name, tensor.shape);
    }
    for (catalogue::Tensor& tensor : factors.tensors) {
        const bool is_up = tensor.name.ends_with(names.up);
        const std::size_t rank = tensor.shape.size();
        if ((!is_up && !tensor.name.ends_with(names.down)) || rank < 2 ||
            !has_part(tensor.name, kExperts)) {
            continue;
        }
        const std::string& end = is_up ? names.up : names.down;
        auto* const other =
            find_value(shapes, tensor.name.substr(0, tensor.name.size() - end.size()) +
                                   (is_up ? names.down : names.up));
        if (other == nullptr || other->size() != rank + 1) {
            continue;
        }
        const std::size_t axis = rank - 2;
        copied -= catalogue::stored_bytes(tensor);
        std::vector<catalogue::Piece> pieces;
        for (const catalogue::Piece& piece : tensor.pieces) {
            for (Index expert = 0; expert < (*other)[axis]; ++expert) {
                pieces.emplace_back(piece).patch = layout::embed(piece.patch, axis, expert);
            }
        }
        tensor.shape.insert(tensor.shape.begin() + static_cast<std::ptrdiff_t>(axis),
                            (*other)[axis]);
        tensor.pieces = std::move(pieces);
        copied += catalogue::stored_bytes(tensor);
    }
    return copied;
}

std::set<std::string> join_segments(Catalogue& factors, const HeldModel& framework) {
    const std::string& up = framework.dialect->lora->up;
    const plan::StoreMatcher weights(*framework.dialect, *framework.recipe, *framework.symbols);
    const auto weight_of = [&](const std::string& factor, const std::string& part,
                               std::size_t n_dims) {
        return weights.find(factor.substr(0, factor.size() - up.size()) + ".weight" + part, n_dims);
    };
    std::map<std::string, std::map<std::string, catalogue::Tensor>> parts;
    std::erase_if(factors.tensors, [&](catalogue::Tensor& tensor) {
        const std::size_t dot = tensor.name.rfind('.');
        const std::string whole = tensor.name.substr(0, dot);
        const auto weight = whole.ends_with(up)
                                ? weight_of(whole, tensor.name.substr(dot), tensor.shape.size())
                                : std::nullopt;
        if (weight) {
            parts[whole].emplace(weight->line->layout.label, std::move(tensor));
        }
        return weight.has_value();
    });
    std::set<std::string> names;
    for (auto& [name, segments] : parts) {
        const auto weight = weight_of(name, "", segments.begin()->second.shape.size());
        factors.tensors.push_back(
            join_one(name, std::move(segments),
                     weight ? rows_by_segment(*weight, *framework.symbols) : SegmentEnds()));
        names.insert(name);
    }
    std::ranges::sort(factors.tensors, {}, &catalogue::Tensor::name);
    return names;
}

void undo_rank_orders(const models::LoraForm& form, const models::LoraNames& names,
                      const models::Symbols& symbols, Catalogue& factors) {
    auto* const n_ranks = find_value(factors.facts, formats::kLoraRowsByRank);
    if (n_ranks == nullptr) {
        return;
    }
    for (catalogue::Tensor& tensor : factors.tensors) {
        if (!tensor.name.ends_with(names.up)) {
            continue;
        }
        std::string down = tensor.name;
        down.replace(down.size() - names.up.size(), names.up.size(), names.down);
        for (const models::LoraForm::SharedFactor& shared : form.shared) {
            if (shared.labels == std::vector<std::string>{"gate", "up"} &&
                shared.name.match(down, [&](const std::string& s) { return symbols.value(s); })) {
                const Index n_rows = tensor.shape[tensor.shape.size() - 2];
                undo_rank_order(tensor, *n_ranks, {n_rows / 2, n_rows});
                break;
            }
        }
    }
}

void order_segments(Catalogue& factors, const HeldModel& framework,
                    const std::set<std::string>& joined) {
    const models::LoraNames& names = *framework.dialect->lora;
    const plan::StoreMatcher weights(*framework.dialect, *framework.recipe, *framework.symbols);
    const auto stated = factors.facts.find("tp");
    for (catalogue::Tensor& tensor : factors.tensors) {
        if (!tensor.name.ends_with(names.up) || tensor.shape.size() < 2 ||
            joined.contains(tensor.name)) {
            continue;
        }
        const std::string stem = tensor.name.substr(0, tensor.name.size() - names.up.size());
        const auto weight = weights.find(stem + ".weight", tensor.shape.size());
        const std::size_t rows = tensor.shape.size() - 2;
        const bool is_whole =
            std::ranges::all_of(tensor.pieces, [&](const catalogue::Piece& piece) {
                return piece.patch.axes[rows].extent == tensor.shape[rows];
            });
        if (!weight || is_whole || !is_cut_in_segments(*weight->line) ||
            models::labels_of(*weight->line) == std::vector<std::string>{"gate", "up"}) {
            continue;
        }
        const SegmentEnds segments = rows_by_segment(*weight, *framework.symbols);
        if (stated == factors.facts.end() || segments.back().second != tensor.shape[rows]) {
            throw Error(ErrorCode::unsupported,
                        printable(tensor.name) +
                            " is stored in the pieces of several tensor-parallel ranks, each with "
                            "rows of all parts of the weight, and nothing says of how many",
                        kMergeThere);
        }
        undo_rank_order(tensor, stated->second,
                        collect_list(segments, [](const auto& one) { return one.second; }));
    }
}

}  // namespace shardweld::app
