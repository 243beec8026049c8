#include "places.hpp"

#include <set>
#include <utility>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "hub_names.hpp"
#include "logical_segments.hpp"
#include "overlaps.hpp"
#include "store_match.hpp"

namespace shardweld::plan {

namespace {

/// The stored tensor as one piece in a file of its own.
catalogue::Tensor in_own_file(const catalogue::Tensor& tensor, std::size_t number) {
    catalogue::Tensor whole;
    whole.name = tensor.name;
    whole.shape = tensor.shape;
    catalogue::Piece piece;
    piece.file = static_cast<std::uint32_t>(number);
    piece.patch = layout::dense_shape(tensor.shape);
    whole.pieces.push_back(std::move(piece));
    return whole;
}

/// A hub tensor's elements, as far as they are filed.
std::vector<Operand> operands_of(const HubName& hub, const layout::BoundLayout& bound,
                                 LogicalSegments& segments) {
    std::vector<layout::SegmentPatch> lowered;
    bound.lower(layout::dense_shape(bound.shape()), lowered);
    Overlaps found;
    for (const layout::SegmentPatch& patch : lowered) {
        const auto number = static_cast<std::size_t>(patch.segment);
        if (segments.plans_of(*hub.line)[number].is_dropped) {
            continue;
        }
        std::vector<Filed> filed;
        segments.file(*hub.line, bound, patch, hub.captures, filed);
        for (const Filed& one : filed) {
            if (const LogicalSegment* const segment = segments.find(one.key)) {
                overlap_into(*segment, one.patch, found);
            }
        }
    }
    return std::move(found.primary);
}

}  // namespace

Places places_of(const std::vector<catalogue::Tensor>& stored, const Model& model) {
    Places places;
    std::set<std::string> logicals;
    const StoreMatcher matcher(*model.dialect, *model.recipe, *model.symbols);
    LogicalSegments segments(model);
    for (std::size_t i = 0; i < stored.size(); ++i) {
        const auto match = matcher.find(stored[i].name, stored[i].shape);
        catalogue::Tensor whole = in_own_file(stored[i], i);
        if (!match) {
            TensorPlaces& one = places.tensors.emplace_back();
            one.name = stored[i].name;
            one.shape = stored[i].shape;
            const layout::Patch all = layout::dense_shape(one.shape);
            one.operands.push_back({static_cast<std::uint32_t>(i), 0, *layout::overlap(all, all)});
            places.stored.push_back({nullptr, all.volume()});
            continue;
        }
        try {
            segments.add(whole, *match->line, match->captures);
        } catch (Error& error) {
            error.add_context("the product of the factors of " + printable(stored[i].name) + " " +
                              shape_text(stored[i].shape));
            throw;
        }
        logicals.insert(match->line->logical);
        places.stored.push_back({match->line, 0});
    }
    models::Recipe recipe = *model.recipe;
    std::erase_if(recipe.hub,
                  [&](const models::Line& line) { return !logicals.contains(line.logical); });
    for_each_hub_name(recipe, model.of_written(), [&](const HubName& hub) {
        const auto bound = layout::BoundLayout::bind(
            hub.line->layout,
            [&](const std::string& axis) { return model.of_written().value(axis, hub.captures); });
        std::vector<Operand> operands = operands_of(hub, bound, segments);
        for (const Operand& operand : operands) {
            places.stored[operand.file].n_placed += operand.copy.volume();
        }
        if (!operands.empty()) {
            places.tensors.push_back({hub.name, bound.shape(), std::move(operands)});
        }
        return true;
    });
    return places;
}

}  // namespace shardweld::plan
