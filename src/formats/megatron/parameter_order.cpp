#include "parameter_order.hpp"

#include <algorithm>
#include <vector>

#include "core/names/name_rules.hpp"

namespace shardweld::formats::megatron {

namespace {

/// In lists of tensor_rules.txt: attention builds its output projection before what goes into it,
/// and Transformer Engine's linear layers begin with the norm in front of them.
using NameList = std::vector<std::string_view>;
constexpr const char* kBefore = "module before the layers of Megatron";
constexpr const char* kLeaves = "parameter of a module of Megatron";

std::optional<Index> index_in(const NameList& all, std::string_view one) {
    const auto at = std::ranges::find(all, one);
    return at == all.end() ? std::nullopt : std::optional(static_cast<Index>(at - all.begin()));
}

Index size_of_list(const char* what) {
    return static_cast<Index>(known_words(what).size());
}

/// The place of a name in a list of modules.
std::optional<Index> place_in(const NameList& modules, std::string_view name) {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string_view::npos) {
        return std::nullopt;
    }
    const auto module = index_in(modules, name.substr(0, dot));
    const auto leaf = index_in(known_words(kLeaves), name.substr(dot + 1));
    return module && leaf ? std::optional(*module * size_of_list(kLeaves) + *leaf) : std::nullopt;
}

}  // namespace

std::optional<Index> place_in_layer(std::string_view name) {
    return place_in(known_words("module in a layer of Megatron"), name);
}

std::optional<Index> place_around_layers(std::string_view name) {
    if (const auto before = place_in(known_words(kBefore), name)) {
        return *before - size_of_list(kBefore) * size_of_list(kLeaves);
    }
    return place_in(known_words("module behind the layers of Megatron"), name);
}

bool is_buffer(std::string_view name) {
    return is_known_as(name.substr(name.rfind('.') + 1), "buffer of Megatron");
}

}  // namespace shardweld::formats::megatron
