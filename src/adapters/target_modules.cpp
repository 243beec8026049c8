#include "target_modules.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "core/regex.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::adapters {

namespace {

// No module's name needs more; an expression is compiled for every module it is held against.
constexpr std::size_t kLongestPattern = 500;

/// A plain pattern is by far the commonest; its dots stand for any character.
bool ends_with_plain(const std::string& pattern, const std::string& path) {
    if (pattern.size() > path.size()) {
        return false;
    }
    const std::size_t begin = path.size() - pattern.size();
    const bool is_cut = begin == 0 || path[begin - 1] == '.';
    return is_cut && std::equal(pattern.begin(), pattern.end(),
                                path.begin() + static_cast<std::ptrdiff_t>(begin),
                                [](char p, char c) { return p == '.' || p == c; });
}

/// Whether an expression matches the whole path. Error(unsupported) for one that cannot be read or
/// is longer than any that makes sense.
bool matches(const std::string& expression, const std::string& path) {
    if (expression.size() > kLongestPattern) {
        throw Error(ErrorCode::unsupported,
                    "the adapter's pattern " + printable(expression) + " for the module " +
                        printable(path) + " is too long",
                    "write it as a module name");
    }
    try {
        return Regex(expression).matches(path);
    } catch (const Error& error) {
        throw Error(ErrorCode::unsupported,
                    "cannot read the adapter's pattern " + printable(expression) + " (" +
                        printable(error.what()) + "; look-around and back-references are not read)",
                    "write it as a module name");
    }
}

}  // namespace

bool is_plain(const std::string& pattern) {
    return std::ranges::all_of(pattern, [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
    });
}

bool matches_end(const std::string& pattern, const std::string& path) {
    return is_plain(pattern) ? ends_with_plain(pattern, path)
                             : matches("(.*\\.)?(" + pattern + ")", path);
}

namespace {

using nlohmann::ordered_json;

std::string last_component(const std::string& path) {
    return path.substr(path.rfind('.') + 1);
}

/// The path without the numbers of its components, and the first of these; -1: there is none.
std::pair<std::string, Index> place_of(const std::string& path) {
    std::string pattern;
    Index layer = -1;
    for (const std::string_view part : split(path, '.')) {
        const auto number = parse_index(part);
        layer = number && layer < 0 ? *number : layer;
        pattern += number ? ".#" : "." + std::string(part);
    }
    return {pattern, layer};
}

/// Names of which, as far as the layers tell, not every module is wrapped.
std::set<std::string> partial_by_layers(std::span<const Module> modules,
                                        std::optional<Index> n_layers) {
    std::map<std::string, std::set<Index>> layers;
    std::map<std::string, std::string> name_of;
    for (const Module& module : modules) {
        const auto [pattern, layer] = place_of(module.path);
        if (n_layers && layer >= *n_layers) {
            throw Error(
                ErrorCode::mismatch,
                "the adapter holds factors of " + printable(module.path) +
                    ", but config.json says num_hidden_layers " + std::to_string(*n_layers),
                "give the config.json of the model that it was trained on with --hf_config DIR");
        }
        layers[pattern].insert(layer);
        name_of[pattern] = last_component(module.path);
    }
    std::set<std::string> partial;
    for (const auto& [pattern, seen] : layers) {
        const bool is_single = seen.size() == 1 && seen.contains(-1);
        if (!is_single && (!n_layers || std::ssize(seen) != *n_layers)) {
            partial.insert(name_of[pattern]);
        }
    }
    return partial;
}

/// Names that modules of the base bear which are not wrapped.
std::set<std::string> partial_by_base(std::span<const Module> modules,
                                      const std::set<std::string>& base_modules) {
    std::set<std::string> wrapped = collect_set(modules, &Module::path);
    return collect_set(base_modules, last_component,
                       [&](const std::string& path) { return !wrapped.contains(path); });
}

}  // namespace

std::vector<std::string> texts_in(const ordered_json& list) {
    return collect_list<std::string>(
        list.is_array() ? list : ordered_json::array(),
        [](const ordered_json& entry) { return entry.get<std::string>(); },
        &ordered_json::is_string);
}

Index layer_of(const std::string& path) {
    return place_of(path).second;
}

bool names_it(const std::string& entry, const std::string& path) {
    return path == entry || path.ends_with("." + entry);
}

bool covers(const ordered_json& declared, std::span<const Module> modules) {
    if (declared.is_string()) {
        const auto expression = declared.get<std::string>();
        try {
            return expression == "all-linear" ||
                   std::ranges::all_of(modules, [&](const Module& module) {
                       return matches(expression, module.path);
                   });
        } catch (const Error&) {
            return false;  // Python's printed set, or beyond what is read: the list says the same
        }
    }
    std::vector<std::string> paths = collect_list(modules, &Module::path);
    return names_all(declared, paths);
}

bool names_all(const ordered_json& declared, std::span<const std::string> paths) {
    const std::vector<std::string> texts = texts_in(declared);
    const std::set<std::string_view> entries(texts.begin(), texts.end());
    // Every end of a path from a dot on is looked up: no product of two long lists.
    return std::ranges::all_of(paths, [&](const std::string& path) {
        for (std::size_t at = 0; at != std::string::npos;) {
            if (entries.contains(std::string_view(path).substr(at))) {
                return true;
            }
            at = path.find('.', at);
            at += at == std::string::npos ? 0 : 1;
        }
        return false;
    });
}

std::vector<std::string> target_modules(std::span<const Module> modules,
                                        const KnownModules& surroundings) {
    const std::set<std::string> partial = surroundings.base_modules.empty()
                                              ? partial_by_layers(modules, surroundings.n_layers)
                                              : partial_by_base(modules, surroundings.base_modules);
    std::set<std::string> names;
    for (const Module& module : modules) {
        const std::string last = last_component(module.path);
        names.insert(partial.contains(last) ? module.path : last);
    }
    return {names.begin(), names.end()};
}

std::vector<std::string> last_components(std::span<const std::string> paths) {
    const std::set<std::string> names = collect_set(paths, last_component);
    return {names.begin(), names.end()};
}

}  // namespace shardweld::adapters
