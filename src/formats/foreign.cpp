#include "foreign.hpp"

#include <algorithm>

namespace shardweld::formats {

namespace {

bool any_file(const Listing& listing, std::string_view prefix, std::string_view suffix) {
    return std::any_of(listing.files.begin(), listing.files.end(), [&](const std::string& name) {
        return name.starts_with(prefix) && name.ends_with(suffix);
    });
}

}  // namespace

bool is_hf_model(const Listing& listing) {
    return any_file(listing, "model", ".safetensors") || any_file(listing, "pytorch_model", ".bin");
}

std::optional<std::string> foreign_layout(const Listing& listing) {
    if (any_file(listing, "", "_model_states.pt") || any_file(listing, "", "_optim_states.pt") ||
        listing.has_file("zero_to_fp32.py")) {
        return "a DeepSpeed checkpoint";
    }
    if (listing.has_file(".metadata")) {
        return "a torch distributed checkpoint that does not hold a Megatron model";
    }
    return std::nullopt;
}

}  // namespace shardweld::formats
