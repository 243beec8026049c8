#include "module_names.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/names/wrapper_names.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "directory_listing.hpp"
#include "file_scan.hpp"

namespace shardweld::formats {

namespace {

// sentence-transformers' first module, and the name of transformers' model in it.
constexpr std::string_view kOfSentences = "0.auto_model.";

/// Whether the name is worth the work: false where without_wrappers changes nothing.
bool may_have_wrappers(std::string_view name) {
    return name.starts_with('_') || name.starts_with("0.") || has_part(name, "._") ||
           has_part(name, kOfPeft) || contains(kLeadingWrappers, name.substr(0, name.find('.')));
}

}  // namespace

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
        if (!contains(kWrappers, component) && !(leads && contains(kLeadingWrappers, component))) {
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

namespace {

// Names as they are stored, and as they become.
using NewNames = std::map<std::string, std::string, std::less<>>;

template <typename Visit>
void for_each_item(Catalogue& catalogue, const Visit& visit) {
    catalogue::each_tensor(catalogue, visit);
    catalogue::each_shard(catalogue, visit);
}

// What lies behind the prefix and a dot.
std::optional<std::string> name_below(std::string_view name, std::string_view prefix) {
    const bool is_below =
        name.size() > prefix.size() + 1 && name.starts_with(prefix) && name[prefix.size()] == '.';
    return is_below ? std::optional(std::string(name.substr(prefix.size() + 1))) : std::nullopt;
}

// What a prefix could be: "model (27 tensors), ema (27 tensors)".
std::string contents_of(const std::vector<Catalogue*>& catalogues) {
    std::map<std::string, Index> counts;
    for (Catalogue* const catalogue : catalogues) {
        for_each_item(*catalogue, [&](const auto& item) {
            const std::string_view name = item.name;
            const std::size_t last_key = name.rfind(kKeySeparator);
            ++counts[dotted(
                name.substr(0, last_key == std::string_view::npos ? name.find('.') : last_key))];
        });
    }
    std::vector<std::string> texts;
    texts.reserve(counts.size());
    for (const auto& [name, count] : counts) {
        texts.push_back(name + " (" + std::to_string(count) + " tensors)");
    }
    return texts.empty() ? "nothing" : name_list(texts);
}

template <typename Item>
void keep_below(std::string_view prefix, std::vector<Item>& items, IgnoredRows& ignored) {
    std::erase_if(items, [&](Item& item) {
        const std::string name = dotted(item.name);
        auto rest = name_below(name, prefix);
        rest = rest ? rest : name_below(without_wrappers(name), prefix);
        if (!rest) {
            ignored.add({printable(name.substr(0, name.find('.'))) + "*", "outside --prefix"}, 1,
                        catalogue::stored_bytes(item));
            return true;
        }
        item.name = std::move(*rest);
        return false;
    });
}

// "net." of "net.base_model.model.x"; "" where PEFT's prefix comes first or is not there.
std::string_view before_peft(std::string_view name) {
    const std::size_t at = name.find("." + std::string(kOfPeft));
    return at == std::string_view::npos ? std::string_view() : name.substr(0, at + 1);
}

// A module that holds PEFT's model gives it a name of its own, which no family tells apart.
std::string cut_holder(NewNames& names) {
    auto* const first =
        find_where(names, [](const auto& one) { return !before_peft(one.second).empty(); });
    if (first == nullptr) {
        return "";
    }
    std::string holder(before_peft(first->second));
    for (auto& [stored, name] : names) {
        if (before_peft(name) != holder) {
            throw Error(ErrorCode::mismatch,
                        "tensor " + printable(first->first) + " has " + printable(holder) +
                            " in front of PEFT's " + std::string(kOfPeft) + ", tensor " +
                            printable(stored) + " has not",
                        "--prefix " + printable(holder.substr(0, holder.size() - 1)) +
                            " reads what lies below it and leaves the rest aside");
        }
        name.erase(0, holder.size());
    }
    return holder;
}

void require_distinct(const NewNames& names) {
    std::map<std::string_view, std::string_view> stored_as;
    for (const auto& [stored, name] : names) {
        const auto [at, is_new] = stored_as.emplace(name, stored);
        if (!is_new) {
            throw Error(ErrorCode::mismatch,
                        "keys " + printable(at->second) + " and " + printable(stored) +
                            " both name tensor " + printable(name) + " once wrappers are removed",
                        "save the model without the wrapper that doubles names, or choose one of "
                        "the two with --prefix");
        }
    }
}

}  // namespace

std::string dotted(std::string_view path) {
    std::string text(path);
    std::ranges::replace(text, kKeySeparator, '.');
    return text;
}

void keep_below(std::string_view prefix, const std::vector<Catalogue*>& catalogues) {
    while (prefix.ends_with('.')) {
        prefix.remove_suffix(1);
    }
    const std::string found = contents_of(catalogues);
    bool is_empty = true;
    for (Catalogue* const catalogue : catalogues) {
        IgnoredRows ignored;
        ignored.add(catalogue->ignored);
        catalogue::each_part(*catalogue, [&](auto& tensors, auto& shards) {
            keep_below(prefix, tensors, ignored);
            keep_below(prefix, shards, ignored);
        });
        catalogue->ignored = ignored.rows();
        is_empty = is_empty && catalogue->tensors.empty() && catalogue->shards.empty();
    }
    if (is_empty) {
        throw Error(ErrorCode::not_found, "no tensor lies below --prefix " + printable(prefix),
                    "give one of those that the checkpoint holds: " + found);
    }
}

void remove_wrappers(Catalogue& catalogue) {
    bool may_have_some = false;
    for_each_item(catalogue, [&](const auto& item) {
        may_have_some = may_have_some || may_have_wrappers(item.name);
    });
    if (!may_have_some) {
        return;
    }
    NewNames names;
    for_each_item(catalogue, [&](const auto& item) {
        const auto [at, is_new] = names.try_emplace(item.name);
        if (is_new) {
            at->second = without_wrappers(at->first);
        }
    });
    if (const std::string holder = cut_holder(names); !holder.empty()) {
        catalogue.notes.push_back("all names begin with " + printable(holder) +
                                  ", the name of PEFT's model in the module around it, which is "
                                  "left out");
    }
    require_distinct(names);
    catalogue::each_tensor(catalogue, [&](Tensor& tensor) {
        const std::string& name = names.find(tensor.name)->second;
        if (tensor.stored_as.empty() && name != tensor.name) {
            tensor.stored_as = tensor.name;
        }
        tensor.name = name;
    });
    catalogue::each_shard(
        catalogue, [&](Shard& shard) { shard.name = names.find(shard.name.text())->second; });
    for (ParameterGroup& group : catalogue.optimizer.groups) {
        for (std::string& name : group.parameters) {
            auto* const known = find_value(names, name);
            name = known == nullptr ? without_wrappers(name) : *known;
        }
    }
    catalogue::each_part(catalogue, [](auto& tensors, auto& /*shards*/) {
        std::ranges::sort(tensors, {}, &Tensor::name);
    });
}

}  // namespace shardweld::formats
