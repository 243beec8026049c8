#include "torch_calls.hpp"

#include <algorithm>
#include <array>

namespace shardweld::formats {

bool is_parameter_call(std::string_view name) {
    constexpr std::array<std::string_view, 4> kNames = {
        "torch._utils _rebuild_parameter", "torch._utils _rebuild_parameter_with_state",
        "torch.nn.parameter Parameter", "torch.nn Parameter"};
    return std::ranges::find(kNames, name) != kNames.end();
}

bool is_subclass_call(std::string_view name) {
    constexpr std::array<std::string_view, 4> kNames = {
        "torch._tensor _rebuild_from_type_v2", "torch._tensor _rebuild_from_type",
        "torch.tensor _rebuild_from_type", "torch _rebuild_from_type_v2"};
    return std::ranges::find(kNames, name) != kNames.end();
}

}  // namespace shardweld::formats
