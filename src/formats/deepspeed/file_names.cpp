#include "file_names.hpp"

#include <algorithm>

#include "core/text.hpp"

namespace shardweld::formats::deepspeed {

namespace {

constexpr std::string_view kModel = "_model_states.pt";
constexpr std::string_view kLayer = "-model_states.pt";
constexpr std::string_view kOptimizer = "_optim_states.pt";
// Far above any job; bounds the lists of missing files.
constexpr Index kLargestNumber = 1 << 20;

/// What is left of a name.
class Rest {
  public:
    explicit Rest(std::string_view text) : text_(text) {}

    bool take(std::string_view word) {
        const bool is_there = text_.starts_with(word);
        text_.remove_prefix(is_there ? word.size() : 0);
        return is_there;
    }

    bool take(std::string_view word, Index& number) {
        if (!text_.starts_with(word)) {
            return false;
        }
        const auto digits = text_.substr(word.size());
        const auto* const end = std::find_if_not(digits.begin(), digits.end(), is_digit);
        const auto n_digits = static_cast<std::size_t>(end - digits.begin());
        const auto value = parse_index(digits.substr(0, n_digits));
        if (!value || *value > kLargestNumber) {
            return false;
        }
        number = *value;
        text_.remove_prefix(word.size() + n_digits);
        return true;
    }

    [[nodiscard]] bool is(std::string_view text) const { return text_ == text; }

  private:
    std::string_view text_;
};

std::string padded(Index number) {
    return zero_filled(std::to_string(number), 2);
}

std::optional<FileName> parse_layer(Rest rest) {
    FileName name;
    name.kind = FileKind::layer;
    if (!rest.take("layer_", name.number)) {
        return std::nullopt;
    }
    rest.take("-model_", name.mp);
    return rest.is(kLayer) ? std::optional(name) : std::nullopt;
}

// Before DeepSpeed 0.5 an expert's name had no layer.
std::optional<FileName> parse_expert(Rest rest) {
    FileName name;
    name.kind = FileKind::expert;
    if (rest.take("layer_", name.layer) && !rest.take("_")) {
        return std::nullopt;
    }
    const bool is_expert =
        rest.take("expert_", name.number) && rest.take("_mp_rank_", name.mp) && rest.is(kModel);
    return is_expert ? std::optional(name) : std::nullopt;
}

std::optional<FileName> parse_rank(Rest rest) {
    FileName name;
    for (const std::string_view prefix : {"bf16_", "fp16_"}) {
        if (rest.take(prefix)) {
            name.prefix = prefix;
        }
    }
    const bool has_dp = rest.take("zero_pp_rank_", name.dp);
    const bool is_expert = !has_dp && rest.take("expp_rank_", name.dp);
    if (!rest.take(has_dp || is_expert ? "_mp_rank_" : "mp_rank_", name.mp)) {
        return std::nullopt;
    }
    if (rest.is(kModel) && !is_expert) {
        name.kind = has_dp ? FileKind::model_part : FileKind::model;
        return name;
    }
    if (rest.is(kOptimizer) && (has_dp || is_expert)) {
        name.kind = has_dp ? FileKind::partition : FileKind::expert_optimizer;
        return name;
    }
    return std::nullopt;
}

}  // namespace

std::optional<FileName> parse_file_name(std::string_view name) {
    for (const auto parse : {parse_rank, parse_layer, parse_expert}) {
        if (auto file = parse(Rest(name))) {
            return file;
        }
    }
    return std::nullopt;
}

std::string partition_name(const FileName& like, Index dp) {
    return like.prefix + "zero_pp_rank_" + std::to_string(dp) + "_mp_rank_" + padded(like.mp) +
           std::string(kOptimizer);
}

std::string states_name(Index mp, Index dp) {
    return "zero_pp_rank_" + std::to_string(dp) + "_mp_rank_" + padded(mp) + std::string(kModel);
}

}  // namespace shardweld::formats::deepspeed
