#include "quantise.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "core/text.hpp"
#include "models/pattern.hpp"
#include "models/spellings.hpp"
#include "shardweld/error.hpp"

#include "hub_names.hpp"
#include "transposed.hpp"

namespace shardweld::plan {

namespace {

/// What a recipe says of a weight.
struct LinearWeight {
    std::string fused;   ///< what servers read as one tensor: "layer.0.qkv"
    std::string served;  ///< what has one encoding: the same, or all experts of a layer
};

/// The list of the recipe's `linear` that holds a logical name's last part; nullopt: none does.
std::optional<std::string> linear_group(const models::Recipe& recipe, const std::string& part) {
    for (const auto& group : recipe.linear) {
        if (std::ranges::count(group, part) > 0) {
            return joined(group, "+");
        }
    }
    return std::nullopt;
}

std::map<std::string, LinearWeight> linear_weights(const Model& model) {
    std::map<std::string, LinearWeight> weights;
    for_each_hub_name(*model.recipe, *model.symbols, [&](const HubName& hub) {
        const std::string& logical = hub.line->logical;
        const auto dot = logical.rfind('.');
        const std::string prefix = dot == std::string::npos ? "" : logical.substr(0, dot + 1);
        // Towers of other inputs use the same words.
        const bool is_text = prefix.starts_with("layer.") || prefix.starts_with("mtp.");
        const auto group = linear_group(*model.recipe, logical.substr(prefix.size()));
        if (group && is_text) {
            const std::string layer = models::filled(prefix, hub.captures);
            auto* const expert = find_value(hub.captures, "e");
            const bool is_expert = expert != nullptr;
            weights[hub.name] = {layer + *group + (is_expert ? " " + std::to_string(*expert) : ""),
                                 layer + (is_expert ? "experts" : *group)};
        }
        return true;
    });
    return weights;
}

/// A weight as matrices.
struct Matrices {
    Index n = 1;
    Index rows = 0;
    Index columns = 0;
};

class WeightQuantiser {
  public:
    WeightQuantiser(std::vector<Target>& targets, const Model& model, Encoding encoding)
        : targets_(targets),
          model_(model),
          facts_(facts_of(encoding)),
          weights_(linear_weights(model)) {
        result_.encoding = encoding;
    }

    Quantisation run(const std::function<bool(const std::string&)>& is_ignored) {
        if (model_.recipe->linear.empty()) {
            throw Error(ErrorCode::unsupported,
                        "the recipe " + model_.recipe->name +
                            " does not say which weights are those of linear layers",
                        "name them in a recipe with 'linear' and give it with --recipe");
        }
        find_refused(is_ignored);
        for (Target& target : targets_) {
            if (const LinearWeight* weight = taken(target)) {
                encode(target, *weight);
            } else {
                keep(target);
            }
        }
        if (result_.n_quantised == 0) {
            throw Error(ErrorCode::unsupported,
                        "no weight of this model can be written as " + std::string(facts_.name) +
                            (result_.notes.empty() ? "" : ": " + result_.notes.front()),
                        "choose another encoding; shardweld help merge has a table of them");
        }
        spell_kept();
        std::ranges::sort(result_.kept);
        result_.kept.erase(std::unique(result_.kept.begin(), result_.kept.end()),
                           result_.kept.end());
        return std::move(result_);
    }

  private:
    [[nodiscard]] const LinearWeight* linear(const Target& target) const {
        auto* const found = find_value(weights_, target.name);
        return found == nullptr || !target.file.empty() ? nullptr : found;
    }

    [[nodiscard]] const LinearWeight* taken(const Target& target) const {
        const LinearWeight* weight = linear(target);
        return weight != nullptr && !refused_.contains(weight->served) ? weight : nullptr;
    }

    [[nodiscard]] bool is_turned() const { return facts_.by_columns; }

    [[nodiscard]] Matrices matrices_of(const Target& target) const {
        const auto& shape = target.shape;
        if (shape.size() == 2) {
            return {1, shape[0], shape[1]};
        }
        return is_turned() ? Matrices{shape[0], shape[2], shape[1]}
                           : Matrices{shape[0], shape[1], shape[2]};
    }

    /// Why a weight stays as it is; "" if it need not.
    [[nodiscard]] std::string refusal(const Target& target) const {
        if (target.mix) {
            return "made of several checkpoints";
        }
        if (!is_trained_in(target.dtype)) {
            return "of type " + safetensors_name(target.dtype);
        }
        if (target.shape.size() != 2 && target.shape.size() != 3) {
            return "no matrices";
        }
        if (is_turned() != (target.shape.size() == 3) && (is_turned() || !facts_.format.empty())) {
            return is_turned() ? "no experts in one tensor" : "experts in one tensor";
        }
        const Matrices matrices = matrices_of(target);
        if (target.volume() == 0) {
            return "empty";
        }
        return facts_.refusal(matrices.rows, matrices.columns);
    }

    /// Servers read with one encoding what they fuse.
    void find_refused(const std::function<bool(const std::string&)>& is_ignored) {
        std::map<std::string, std::vector<std::string>> because;
        for (const Target& target : targets_) {
            const LinearWeight* weight = linear(target);
            if (weight == nullptr) {
                continue;
            }
            const std::string why =
                is_ignored(target.name) ? "in --quantize_ignore" : refusal(target);
            if (!why.empty() && refused_.try_emplace(weight->served, why).second) {
                because[why].push_back(target.name);
            }
        }
        for (const auto& [why, names] : because) {
            result_.notes.push_back(
                counted(names.size(), "weight") +
                (names.size() == 1 ? " stays as it is (" : " stay as they are (") + why +
                "): " + listed(names));
        }
    }

    /// Notes a matrix that stays as it is: servers have to be told.
    void keep(const Target& target) {
        const std::string name = target.name;
        const bool is_matrix = target.shape.size() >= 2 && name.ends_with(".weight");
        if (target.file.empty() && (is_matrix || linear(target) != nullptr)) {
            result_.kept.push_back(name.substr(0, name.rfind('.')));
        }
    }

    /// Loaders look for the names that their own modules have.
    void spell_kept() {
        const models::Spellings spellings(*model_.recipe);
        for (std::size_t i = 0, n = result_.kept.size(); i < n; ++i) {
            for (std::string& other : spellings.others(result_.kept[i] + ".")) {
                other.pop_back();
                result_.kept.push_back(std::move(other));
            }
        }
    }

    /// The weight's target becomes that of its codes, with the other tensors beside it.
    void encode(Target& target, const LinearWeight& weight) {
        const Matrices matrices = matrices_of(target);
        const std::string name = target.name;
        Encode how;
        how.encoding = facts_.encoding;
        how.n_rows = checked_mul(matrices.n, matrices.rows, name);
        how.n_columns = matrices.columns;
        how.strip_rows = strip_rows_of(facts_.tile_rows, matrices.columns);
        how.weight = target.dtype;
        how.share = share_of(target, weight);
        WrittenTensor scales{
            name + std::string(facts_.scales_ending),
            facts_.scale_type(target.dtype),
            {facts_.scale_rows(matrices.rows), facts_.scale_columns(matrices.columns)}};
        if (is_turned()) {
            Transposed(target.shape).transpose(target);
        }
        target.name = name + std::string(facts_.codes_ending);
        target.shape = {matrices.rows, facts_.code_columns(matrices.columns)};
        if (is_turned()) {
            target.shape = {matrices.rows, matrices.columns / facts_.tile_columns,
                            facts_.code_columns(facts_.tile_columns)};
        }
        if (matrices.n > 1 || is_turned()) {
            for (auto* const shape : {&target.shape, &scales.shape}) {
                shape->change([&](std::vector<Index>& of) { of.insert(of.begin(), matrices.n); });
            }
        }
        target.dtype = facts_.codes;
        target.encode = how;
        target.beside.push_back(std::move(scales));
        if (facts_.has_shape) {
            const std::array<Index, 2> shape{matrices.rows, matrices.columns};
            target.beside.push_back(
                constant(name + "_shape", DType::i64, 2, std::as_bytes(std::span(shape))));
        }
        if (facts_.divisor != nullptr) {
            const std::array<float, 1> global{1};  // until it is known
            target.beside.push_back(
                constant(name + "_global_scale", DType::f32, 1, std::as_bytes(std::span(global))));
        }
        ++result_.n_quantised;
    }

    /// Weights of one divisor have one number, from 0 on.
    std::uint32_t share_of(const Target& target, const LinearWeight& weight) {
        if (facts_.divisor == nullptr) {
            return 0;
        }
        const auto number =
            share_numbers_.try_emplace(weight.fused, share_numbers_.size()).first->second;
        result_.measured.push_back(target);
        result_.measured.back().file = {};
        result_.shares.push_back(static_cast<std::uint32_t>(number));
        return static_cast<std::uint32_t>(number);
    }

    std::vector<Target>& targets_;
    const Model& model_;
    const EncodingFacts& facts_;
    std::map<std::string, LinearWeight> weights_;
    std::map<std::string, std::string> refused_;  ///< by LinearWeight::served: why
    std::map<std::string, std::size_t> share_numbers_;
    Quantisation result_;
};

}  // namespace

WrittenTensor constant(std::string name, DType dtype, Index n, ByteView bytes) {
    return {name, dtype, {n}, std::vector<std::byte>(bytes.begin(), bytes.end())};
}

Target literal_target(std::string name, DType dtype, Index n, ByteView bytes) {
    Target target{constant(std::move(name), dtype, n, bytes)};
    target.stored = dtype;
    return target;
}

Quantisation quantise(std::vector<Target>& targets, const Model& model, Encoding encoding,
                      const std::function<bool(const std::string&)>& is_ignored) {
    return WeightQuantiser(targets, model, encoding).run(is_ignored);
}

}  // namespace shardweld::plan
