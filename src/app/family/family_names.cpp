// Stored names against those of a family: what stands in front of them, and what is left out of it.
#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/separate.hpp"
#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "models/name_changes.hpp"
#include "shardweld/error.hpp"

#include "stored_evidence.hpp"

namespace shardweld::app {

namespace {

using Names = std::set<std::string, std::less<>>;

constexpr std::string_view kPeft = "base_model.model.";
constexpr std::string_view kLogicalEmbedding = "embed";
// Prefixes of the language model in models of several parts.
constexpr std::array<std::string_view, 2> kTextParts = {"language_model.", "thinker."};

std::string_view without_peft(std::string_view name) {
    return name.starts_with(kPeft) ? name.substr(kPeft.size()) : name;
}

Names module_names_in(const catalogue::Catalogue& catalogue) {
    Names names;
    catalogue::each_name(catalogue,
                         [&](const std::string& name) { names.emplace(without_peft(name)); });
    return names;
}

/// A weight's name where LoRA wraps its module, or that of the weight which a factor changes.
std::string without_lora(std::string name) {
    constexpr std::string_view kWrapped = ".base_layer.";
    const std::size_t factor = name.find(".lora_");
    if (factor != std::string::npos) {
        return name.substr(0, factor) + ".weight";
    }
    const std::size_t wrapped = name.rfind(kWrapped);
    return wrapped == std::string::npos ? name : name.erase(wrapped, kWrapped.size() - 1);
}

/// The names that a family has.
class Family {
  public:
    explicit Family(const models::Recipe& recipe, bool has_adapter_alone = false)
        : recipe_(recipe), has_adapter_alone_(has_adapter_alone) {
        auto* const at = find_item(recipe.hub, kLogicalEmbedding, &models::Line::logical);
        embedding_ = at;
    }

    /// Null where the family has none.
    [[nodiscard]] const models::Line* embedding() const { return embedding_; }

    [[nodiscard]] std::string renamed(std::string_view name) const {
        return without_lora(models::renamed_by(recipe_.renames, name));
    }

    [[nodiscard]] bool is_embedding(std::string_view name) const {
        return embedding_ != nullptr && renamed(name) == embedding_->name.text;
    }

    /// Whether one name tells the family's: that of the embedding, which an adapter need not have.
    [[nodiscard]] bool has_telling_name() const {
        return embedding_ != nullptr && !has_adapter_alone_;
    }
    [[nodiscard]] bool is_telling(std::string_view name) const {
        return has_telling_name() ? is_embedding(name) : holds(name);
    }

    /// Whether the family has such a name, by a line or the beginning of a part.
    [[nodiscard]] bool holds(std::string_view stored) const {
        const std::string name = renamed(stored);
        const auto is_line = [&](const models::Line& line) {
            return line.name.match(name, [](const std::string&) { return Index{0}; }).has_value();
        };
        const auto begins = [&](const models::RenameRule& rule) {
            return name.starts_with(rule.from) || name.starts_with(rule.to);
        };
        return std::ranges::any_of(recipe_.hub, is_line) ||
               std::ranges::any_of(recipe_.module, is_line) ||
               std::ranges::any_of(recipe_.renames, begins) ||
               std::ranges::any_of(recipe_.eithers, begins) ||
               std::ranges::any_of(recipe_.passes, [&](const std::string& glob) {
                   return glob != "*" && glob_matches(glob, name);
               });
    }

  private:
    const models::Recipe& recipe_;
    bool has_adapter_alone_;
    const models::Line* embedding_ = nullptr;
};

/// What stands before the embedding's own name in the checkpoint: of one model, or of several.
std::vector<std::string> stored_beginnings(const Names& names, const std::string& own) {
    std::vector<std::string> beginnings;
    for (const std::string& name : names) {
        const std::string bare = without_lora(name);
        if (bare == own || bare.ends_with("." + own)) {
            beginnings.push_back(bare.substr(0, bare.size() - own.size()));
        }
    }
    return beginnings;
}

/// The part of a larger model that a beginning names; "" for the model itself.
std::string_view text_side(std::string_view beginning) {
    auto* const at =
        find_where(kTextParts, [&](std::string_view part) { return has_part(beginning, part); });
    return at == nullptr ? std::string_view() : *at;
}

/// "a.b." of names that all begin with it.
std::string common_beginning(const Names& names) {
    const std::string& first = *names.begin();
    const std::string& last = *names.rbegin();
    const auto differ = std::ranges::mismatch(first, last).in1;
    const std::string same(first.begin(), differ);
    return same.substr(0, same.rfind('.') + 1);
}

/// What all names begin with and a family's do not; "" where there is no such thing.
std::string holder_of(const Family& family, const Names& names) {
    const std::string common = common_beginning(names);
    for (std::size_t dot = common.find('.'); dot != std::string::npos;
         dot = common.find('.', dot + 1)) {
        const auto is_known = [&](const std::string& name) {
            return family.is_telling(name.substr(dot + 1));
        };
        if (family.has_telling_name() ? std::ranges::any_of(names, is_known)
                                      : std::ranges::all_of(names, is_known)) {
            return common.substr(0, dot + 1);
        }
    }
    return "";
}

/// How the names of a language model begin, and how those of the family do.
std::optional<BasePrefix> text_beginning(const Family& family, const Names& names) {
    if (family.embedding() == nullptr) {
        return std::nullopt;
    }
    const auto [of_family, own] = split_name(family.embedding()->name.text);
    const auto stored = stored_beginnings(names, own);
    const bool lacks_part =
        stored.size() == 1 && !text_side(of_family).empty() && text_side(stored.front()).empty();
    return lacks_part ? std::optional(BasePrefix{of_family, stored.front()}) : std::nullopt;
}

std::string renamed(std::string_view name, const BasePrefix& beginning) {
    return name.starts_with(beginning.stored)
               ? beginning.of_recipe + std::string(name.substr(beginning.stored.size()))
               : std::string(name);
}

/// Whether a name is one of another part than the language model and what belongs to it.
bool is_of_other_part(const Family& family, std::string_view name, const BasePrefix& beginning) {
    return family.holds(name) && !family.renamed(name).starts_with(beginning.of_recipe) &&
           !name.starts_with("lm_head.") && !name.starts_with("mtp.");
}

/// Whether all names are the family's once the language model's are renamed, each one's own, and
/// there are some of other parts.
bool is_certain(const Family& family, const Names& names, const BasePrefix& beginning) {
    if (beginning.stored.empty()) {
        return false;  // a class of its own
    }
    Names all;
    bool has_others = false;
    for (const std::string& name : names) {
        const bool is_other = is_of_other_part(family, name, beginning);
        const std::string own = is_other ? name : renamed(name, beginning);
        has_others = has_others || is_other;
        if (!family.holds(own) || !all.insert(own).second) {
            return false;
        }
    }
    return has_others;
}

template <typename NewName>
void rename_all(catalogue::Catalogue& catalogue, const NewName& new_name) {
    catalogue::each_item(catalogue, [&](auto& item) {
        const std::string stored = item.name;
        const std::string_view bare = without_peft(stored);
        item.name = stored.substr(0, stored.size() - bare.size()) + new_name(bare);
    });
    std::ranges::sort(catalogue.tensors, {}, &catalogue::Tensor::name);
}

bool has_family_names(const Family& family, const Names& names) {
    const auto is_known = [&](const std::string& name) { return family.is_telling(name); };
    return names.empty() || std::ranges::any_of(names, is_known);
}

constexpr const char* kPassTextConfig =
    "pass the config.json of the language model alone with --hf_config, or keep the stored names "
    "with --names module";

/// What to leave out of names that begin so.
std::string prefix_hint(const std::vector<std::string>& stored, const std::string& of_family) {
    std::vector<std::string> prefixes = collect_list(
        stored,
        [&](const std::string& beginning) {
            return "--prefix " +
                   printable(beginning.substr(0, beginning.size() - of_family.size() - 1));
        },
        [&](const std::string& beginning) { return beginning.ends_with("." + of_family); });
    const std::string keep = "--names module keeps all names as they are stored";
    return prefixes.empty() ? keep
                            : joined(prefixes, " or ", [](const std::string& one) { return one; }) +
                                  " takes what lies below it and leaves the rest aside; " + keep;
}

}  // namespace

std::vector<std::string> take_family_names(const models::Recipe& recipe,
                                           catalogue::Catalogue& catalogue) {
    const Family family(recipe, adapters::holds_adapter_only(catalogue));
    const Names names = module_names_in(catalogue);
    if (has_family_names(family, names)) {
        return {};
    }
    if (const std::string holder = holder_of(family, names); !holder.empty()) {
        rename_all(catalogue,
                   [&](std::string_view name) { return std::string(name.substr(holder.size())); });
        return {"all names begin with " + printable(holder) +
                ", the name of the model in the module around it, which is left out"};
    }
    const auto beginning = text_beginning(family, names);
    if (!beginning || !is_certain(family, names, *beginning)) {
        return {};
    }
    rename_all(catalogue, [&](std::string_view name) {
        return is_of_other_part(family, name, *beginning) ? std::string(name)
                                                          : renamed(name, *beginning);
    });
    return {"names that begin with " + printable(beginning->stored) +
            " are written as the family's, which begin with " + printable(beginning->of_recipe)};
}

bool is_text_part(const models::Recipe& recipe, const catalogue::Catalogue& catalogue) {
    const Family family(recipe);
    const Names names = module_names_in(catalogue);
    const auto beginning = text_beginning(family, names);
    return beginning && std::ranges::none_of(names, [&](const std::string& name) {
               return is_of_other_part(family, name, *beginning);
           });
}

void require_family_names(const models::Recipe& recipe, const models::Symbols& symbols,
                          const models::Config& config, const catalogue::Catalogue& catalogue) {
    const Family family(recipe);
    const models::Line* const embedding = family.embedding();
    const Names names = module_names_in(catalogue);
    if (embedding == nullptr || embedding->optional || !symbols.holds(embedding->condition) ||
        has_family_names(family, names)) {
        return;
    }
    const auto [of_family, own] = split_name(embedding->name.text);
    const auto stored = stored_beginnings(names, own);
    const auto n_below = [&](const std::string& beginning) {
        return std::ranges::count_if(
            names, [&](const std::string& name) { return name.starts_with(beginning); });
    };
    const bool is_missing = stored.empty() || n_below(stored.front()) <= n_below(of_family);
    if (is_missing) {
        return;
    }
    throw Error(ErrorCode::mismatch,
                "the checkpoint's names have another prefix than the family's (" + recipe.name +
                    "): it holds " + printable(stored.front() + own) + ", where " +
                    printable(config.origin()) + " means " + embedding->name.text,
                text_beginning(family, names) ? kPassTextConfig : prefix_hint(stored, of_family));
}

}  // namespace shardweld::app
