#include "model_names.hpp"

#include <algorithm>
#include <array>

#include "catalogue/tensor.hpp"
#include "core/by_name.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "adapter.hpp"

namespace shardweld::formats::megatron {

namespace {

constexpr std::string_view kWrapped = ".to_wrap.";

std::string_view without_wrappers_in_front(std::string_view key) {
    for (bool again = true; again;) {
        again = false;
        for (const std::string_view wrapper : {"model.", "module."}) {
            if (key.starts_with(wrapper)) {
                key.remove_prefix(wrapper.size());
                again = true;
            }
        }
    }
    return key;
}

/// "decoder.layers.3.mlp.linear_fc1" or "decoder.layers.mlp.linear_fc1": vision towers of other
/// frameworks have "blocks.3.mlp.linear_fc1".
bool holds_feed_forward(std::string_view text) {
    constexpr std::string_view kName = ".mlp.linear_fc";
    for (auto at = text.find(kName); at != std::string_view::npos; at = text.find(kName, at + 1)) {
        std::string_view before = text.substr(0, at);
        while (!before.empty() && (is_digit(before.back()) || before.back() == '.')) {
            before.remove_suffix(1);
        }
        if (before.ends_with("decoder.layers")) {
            return true;
        }
    }
    return false;
}

}  // namespace

std::string model_name(std::string_view key) {
    std::string name = without_peft(std::string(without_wrappers_in_front(key)));
    for (auto at = name.find(kWrapped); at != std::string::npos; at = name.find(kWrapped, at)) {
        name.erase(at, kWrapped.size() - 1);
    }
    return name;
}

bool holds_megatron_name(std::string_view text) {
    constexpr std::array<std::string_view, 3> kNames = {
        "embedding.word_embeddings.", "self_attention.linear_", "decoder.final_layernorm."};
    return std::ranges::any_of(
               kNames,
               [&](std::string_view name) { return text.find(name) != std::string_view::npos; }) ||
           holds_feed_forward(text);
}

void sort_tensors(std::vector<catalogue::Tensor>& tensors) {
    if (const catalogue::Tensor* const twice = sort_by_name(tensors)) {
        throw Error(ErrorCode::corrupt,
                    "two keys name tensor " + printable(twice->name) +
                        " when wrappers (model., module., to_wrap.) are removed");
    }
}

}  // namespace shardweld::formats::megatron
