#include "module_names.hpp"

#include <algorithm>
#include <span>

#include "core/text.hpp"
#include "core/wrapper_names.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

namespace {

// sentence-transformers' first module, and the name of transformers' model in it.
constexpr std::string_view kOfSentences = "0.auto_model.";

bool is_among(std::span<const std::string_view> names, std::string_view component) {
    return std::ranges::find(names, component) != names.end();
}

}  // namespace

bool may_have_wrappers(std::string_view name) {
    return name.starts_with('_') || name.starts_with("0.") ||
           name.find("._") != std::string_view::npos ||
           name.find(kOfPeft) != std::string_view::npos ||
           is_among(kLeadingWrappers, name.substr(0, name.find('.')));
}

std::string without_wrappers(std::string_view name) {
    if (!may_have_wrappers(name)) {
        return std::string(name);
    }
    std::string bare;
    bare.reserve(name.size());
    for (std::string_view rest = name; rest.data() != nullptr;) {
        const bool leads = bare.empty() || bare == kOfPeft.substr(0, kOfPeft.size() - 1);
        if (leads && !bare.empty() && rest.starts_with(kOfPeft)) {
            rest.remove_prefix(kOfPeft.size());
            continue;
        }
        if (leads && rest.starts_with(kOfSentences)) {
            rest.remove_prefix(kOfSentences.size());
            continue;
        }
        const std::size_t dot = rest.find('.');
        const std::string_view component = rest.substr(0, dot);
        rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
        if (!is_among(kWrappers, component) && !(leads && is_among(kLeadingWrappers, component))) {
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
