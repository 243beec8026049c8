#include "rank_parameters.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "core/text.hpp"
#include "formats/shared/hints.hpp"
#include "layout/patch.hpp"
#include "shardweld/error.hpp"

#include "args.hpp"
#include "parameter_order.hpp"

namespace shardweld::formats::megatron {

namespace {

using layout::Box;

constexpr std::string_view kDecoderLayers = "decoder.layers.";
constexpr std::string_view kStackedExperts = "mlp.experts.experts.";
constexpr std::string_view kWordEmbedding = "embedding.word_embeddings.weight";
constexpr std::string_view kOutputLayer = "output_layer.weight";
constexpr Index kLayerLimit = 4096;

Index volume_of_boxes(const std::vector<Box>& boxes) {
    Index volume = 0;
    for (const Box& box : boxes) {
        volume += layout::dense(box).volume();
    }
    return volume;
}

bool is_less(const Box& a, const Box& b) {
    return std::ranges::lexicographical_compare(
        a, b, {}, [](const layout::Range& range) { return range.lo; },
        [](const layout::Range& range) { return range.lo; });
}

[[noreturn]] void refuse_order(const std::string& name) {
    throw Error(ErrorCode::unsupported,
                "the optimizer's state does not name its parameters, and where " + printable(name) +
                    " stands among them is not known",
                kWeightsOnly);
}

/// A rank's boxes among those of all ranks.
RankPart part_of(const Tensor& tensor, const std::vector<Box>& boxes, Among among) {
    const auto n_boxes = std::ssize(boxes);
    const auto at = [&](Index i) { return boxes[static_cast<std::size_t>(i)]; };
    if (n_boxes == among.ranks) {
        return {&tensor, {at(among.rank)}};
    }
    if (n_boxes == 2 * among.ranks) {
        return {&tensor, {at(among.rank), at(among.ranks + among.rank)}};
    }
    if (n_boxes == 1) {
        return {&tensor, {at(0)}, static_cast<std::uint32_t>(among.rank)};
    }
    throw Error(ErrorCode::unsupported,
                printable(tensor.name) + " has " + std::to_string(n_boxes) + " chunks, which " +
                    std::to_string(among.ranks) + " tensor-parallel ranks do not make",
                kWeightsOnly);
}

void add_part(std::string name, RankPart part, RankParameters& out) {
    out.parameters.push_back({std::move(name), volume_of_boxes(part.boxes)});
    out.parts.push_back(std::move(part));
}

std::string in_layer(const Tensor& tensor, Index layer) {
    return "layer " + std::to_string(layer) + "'s " + tensor.name;
}

}  // namespace

ModelParameters::ModelParameters(const Catalogue& model) {
    has_grouped_experts_ = !is_claimed(model.claims, "moe_grouped_gemm", "false");
    if (is_claimed(model.claims, "mla_down_proj_fusion", "true")) {
        refuse_order("self_attention.linear_qkv_down_proj");
    }
    stored_.reserve(model.tensors.size());  // layers point into it
    for (const Tensor& tensor : model.tensors) {
        if (!is_buffer(tensor.name)) {
            add(tensor);
        }
    }
    const auto by_place = [](Layer& layer) {
        std::ranges::sort(layer, {}, &StoredParameter::place);
    };
    std::ranges::for_each(layers_, by_place);
    by_place(around_);
}

ModelParameters::Boxes ModelParameters::boxes_of(const StoredParameter& stored) {
    const std::size_t n_leading = (stored.is_stacked ? 1U : 0U) + (stored.is_expert ? 1U : 0U);
    Boxes all;
    for (const Piece& piece : stored.tensor->pieces) {
        const Box box = layout::box_of(piece.patch);
        const auto is_one = [](const layout::Range& range) { return range.extent == 1; };
        if (box.size() < n_leading || !std::all_of(box.begin(), box.begin() + n_leading, is_one)) {
            refuse_order(stored.tensor->name);
        }
        all[{stored.is_stacked ? box[0].lo : -1, stored.is_expert ? box[n_leading - 1].lo : -1}]
            .push_back(box);
    }
    for (auto& [at, boxes] : all) {
        std::ranges::sort(boxes, is_less);
    }
    return all;
}

void ModelParameters::add(const Tensor& tensor) {
    std::string_view name = tensor.name;
    StoredParameter kept{&tensor};
    std::optional<Index> place;  // parameter_order.hpp
    std::optional<Index> layer;
    if (name.starts_with(kDecoderLayers)) {
        name.remove_prefix(kDecoderLayers.size());
        const std::size_t dot = name.find('.');
        layer = parse_index(name.substr(0, dot));
        kept.is_stacked = !layer;
        name.remove_prefix(layer && dot != std::string_view::npos ? dot + 1 : 0);
        place = place_in_layer(name);
        kept.is_expert = name.starts_with(kStackedExperts);
    } else {
        place = place_around_layers(name);
    }
    if (!place || (layer && *layer >= kLayerLimit) ||
        (kept.is_stacked && (tensor.shape.empty() || tensor.shape.front() >= kLayerLimit))) {
        refuse_order(tensor.name);
    }
    kept.place = *place;
    kept.boxes = boxes_of(kept);
    const StoredParameter& stored = stored_.emplace_back(std::move(kept));
    if (layer) {
        add_to(stored, *layer);
    } else if (!stored.is_stacked) {
        around_.push_back(&stored);
    }
    for (Index l = 0; stored.is_stacked && l < tensor.shape.front(); ++l) {
        add_to(stored, l);
    }
}

void ModelParameters::add_to(const StoredParameter& stored, Index layer) {
    const auto at = static_cast<std::size_t>(layer);
    layers_.resize(std::max(layers_.size(), at + 1));
    layers_[at].push_back(&stored);
}

const ModelParameters::StoredParameter* ModelParameters::around(std::string_view name) const {
    auto* const at = find_item(
        around_, name, [](const StoredParameter* one) { return one->tensor->name.c_str(); });
    return at == nullptr ? nullptr : *at;
}

Index ModelParameters::n_tensor_ranks() const {
    const StoredParameter* const embedding = around(kWordEmbedding);
    if (embedding == nullptr) {
        refuse_order(std::string(kWordEmbedding));
    }
    return std::ssize(embedding->boxes.begin()->second);
}

Index ModelParameters::n_expert_tensor_ranks() const {
    for (const StoredParameter& stored : stored_) {
        // The second matrix is never [gate; up].
        if (stored.is_expert && stored.tensor->name.ends_with("linear_fc2.weight")) {
            return std::ssize(stored.boxes.begin()->second);
        }
    }
    return 0;
}

RankParameters ModelParameters::dense(const StageLayers& stage, Among tensor,
                                      bool with_experts) const {
    RankParameters out;
    const auto add = [&](const StoredParameter& one) {
        add_part(one.tensor->name, part_of(*one.tensor, one.boxes.at({-1, -1}), tensor), out);
    };
    for (const StoredParameter* const one : around_) {
        if (stage.has_embedding && one->place < 0) {
            add(*one);
        }
    }
    add_layers(stage, tensor, with_experts, out);
    for (const StoredParameter* const one : around_) {
        if (stage.has_head && one->place >= 0) {
            add(*one);
        }
    }
    // The last stage has a copy of a tied embedding of its own.
    if (stage.has_head && !stage.has_embedding && around(kOutputLayer) == nullptr) {
        add(*around(kWordEmbedding));
        ++out.parts.back().replica;
    }
    return out;
}

void ModelParameters::add_layers(const StageLayers& stage, Among tensor, bool with_experts,
                                 RankParameters& out) const {
    for (Index l = stage.first; l < stage.first + stage.count; ++l) {
        const Layer& layer = layers_[static_cast<std::size_t>(l)];
        bool had_experts = !with_experts;
        for (const StoredParameter* const one : layer) {
            if (one->is_expert && !had_experts) {
                add_experts(layer, l, {}, tensor, out);
            }
            had_experts = had_experts || one->is_expert;
            if (one->is_expert) {
                continue;
            }
            auto* const boxes = find_value(one->boxes, {one->is_stacked ? l : -1, -1});
            if (boxes == nullptr) {
                refuse_order(in_layer(*one->tensor, l));
            }
            add_part(in_layer(*one->tensor, l), part_of(*one->tensor, *boxes, tensor), out);
        }
    }
}

RankParameters ModelParameters::experts(const StageLayers& stage, Among expert,
                                        Among tensor) const {
    RankParameters out;
    for (Index l = stage.first; l < stage.first + stage.count; ++l) {
        add_experts(layers_[static_cast<std::size_t>(l)], l, expert, tensor, out);
    }
    return out;
}

void ModelParameters::add_experts(const Layer& layer, Index number, Among expert, Among tensor,
                                  RankParameters& out) const {
    std::vector<std::pair<std::pair<Index, Index>, const StoredParameter*>> order;
    for (const StoredParameter* const one : layer) {
        if (!one->is_expert) {
            continue;
        }
        const Index all = one->tensor->shape[one->is_stacked ? 1 : 0];
        if (all % expert.ranks != 0 || all > std::ssize(one->boxes)) {
            refuse_order(in_layer(*one->tensor, number));
        }
        const Index n_experts = all / expert.ranks;
        for (Index e = expert.rank * n_experts; e < (expert.rank + 1) * n_experts; ++e) {
            order.emplace_back(
                has_grouped_experts_ ? std::pair(one->place, e) : std::pair(e, one->place), one);
        }
    }
    std::ranges::sort(order, {}, [](const auto& one) { return one.first; });
    for (const auto& [key, one] : order) {
        const Index e = has_grouped_experts_ ? key.second : key.first;
        auto* const boxes = find_value(one->boxes, {one->is_stacked ? number : -1, e});
        if (boxes == nullptr) {
            refuse_order(in_layer(*one->tensor, number));
        }
        add_part(in_layer(*one->tensor, number) + " of expert " + std::to_string(e),
                 part_of(*one->tensor, *boxes, tensor), out);
    }
}

}  // namespace shardweld::formats::megatron
