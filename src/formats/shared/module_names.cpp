#include "module_names.hpp"

#include <algorithm>
#include <array>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"

namespace shardweld::formats {

namespace {

constexpr std::array<std::string_view, 4> kWrappers = {"_orig_mod", "_checkpoint_wrapped_module",
                                                       "_fsdp_wrapped_module", "_forward_module"};

bool is_wrapper(std::string_view component) {
    return std::find(kWrappers.begin(), kWrappers.end(), component) != kWrappers.end();
}

}  // namespace

std::string without_wrappers(std::string_view name) {
    const bool may_have_some = name.starts_with('_') || name.find("._") != std::string_view::npos ||
                               name.starts_with("module") || name.starts_with("pretrained_model");
    if (!may_have_some) {
        return std::string(name);
    }
    std::string bare;
    bare.reserve(name.size());
    for (std::string_view rest = name; rest.data() != nullptr;) {
        const std::size_t dot = rest.find('.');
        const std::string_view component = rest.substr(0, dot);
        rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
        const bool leads =
            bare.empty() && (component == "module" || component == "pretrained_model");
        if (!leads && !is_wrapper(component)) {
            bare.append(bare.empty() ? "" : ".").append(component);
        }
    }
    return bare.empty() ? std::string(name) : bare;
}

std::string pattern_of(std::string_view name) {
    std::string pattern;
    for (const std::string_view part : split(name, '.')) {
        pattern += (pattern.empty() ? "" : ".");
        pattern += parse_index(part) ? std::string("*") : std::string(part);
    }
    return pattern;
}

bool is_flat_parameter(std::string_view name) {
    const std::string_view last = name.substr(name.rfind('.') + 1);
    return last == "flat_param" || last == "_flat_param";
}

void refuse_flat_parameter(const std::string& what, const std::string& hint) {
    throw Error(ErrorCode::unsupported,
                what + ": a flat parameter does not say which weights it is made of", hint);
}

bool is_extra_state(std::string_view name) {
    return name == "_extra_state" || name.ends_with("._extra_state");
}

}  // namespace shardweld::formats
