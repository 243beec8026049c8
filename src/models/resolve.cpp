#include "resolve.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "check.hpp"
#include "expr.hpp"

namespace shardweld::models {

namespace {

std::size_t erase_named(std::vector<Line>& lines, const std::string& name) {
    return std::erase_if(lines, [&](const Line& line) { return line.name.text == name; });
}

void guard(std::vector<Line>& lines, const Edit& edit) {
    bool is_met = false;
    for (Line& line : lines) {
        if (line.name.text == edit.name) {
            line.condition = conjunction_of(line.condition, edit.condition);
            is_met = true;
        }
    }
    if (!is_met) {
        throw Error(ErrorCode::usage,
                    edit.origin + ": no inherited line '" + edit.name + "' to guard");
    }
}

/// Applies a file's edits to the lines it inherits; its own lines follow the inherited ones.
std::vector<Line> edited(std::vector<Line> inherited, std::vector<Edit> edits) {
    std::vector<Line> own;
    for (Edit& edit : edits) {
        switch (edit.kind) {
            case Edit::Kind::set:
                erase_named(inherited, edit.name);
                own.push_back(std::move(edit.line));
                break;
            case Edit::Kind::guard:
                guard(inherited, edit);
                break;
            case Edit::Kind::remove:
                if (erase_named(inherited, edit.name) == 0) {
                    throw Error(ErrorCode::usage, edit.origin + ": no inherited line '" +
                                                      edit.name + "' to leave out");
                }
                break;
        }
    }
    std::move(own.begin(), own.end(), std::back_inserter(inherited));
    return inherited;
}

std::map<std::string, std::vector<Line>> edited_blocks(
    std::map<std::string, std::vector<Line>> inherited,
    std::map<std::string, std::vector<Edit>> edits) {
    for (auto& [name, list] : edits) {
        inherited[name] = edited(std::move(inherited[name]), std::move(list));
    }
    return inherited;
}

template <typename T>
void put_before(std::vector<T>& list, const std::vector<T>& inherited) {
    list.insert(list.begin(), inherited.begin(), inherited.end());
}

/// A symbol of the child hides inherited ones of its name, whatever statement defined them.
void inherit_symbols(Declaration& child, const Declaration& base) {
    using List = std::map<std::string, Definition> Declaration::*;
    constexpr std::array<List, 4> kLists = {&Declaration::lets, &Declaration::indices,
                                            &Declaration::flags, &Declaration::defaults};
    std::set<std::string> own;
    for (const List list : kLists) {
        for (const auto& [name, definition] : child.*list) {
            own.insert(name);
        }
    }
    for (const List list : kLists) {
        for (const auto& [name, definition] : base.*list) {
            if (!own.contains(name)) {
                (child.*list).emplace(name, definition);
            }
        }
    }
    for (const auto& [axis, parts] : base.fuse) {
        child.fuse.try_emplace(axis, parts);
    }
}

/// `uses none` drops what the base uses.
void inherit_uses(std::vector<std::string>& own, const std::vector<std::string>& inherited) {
    if (std::erase(own, "none") == 0) {
        put_before(own, inherited);
    }
}

void inherit_ats(Declaration& child, const Declaration& base) {
    std::vector<At> inherited;
    for (const At& at : base.ats) {
        if (std::none_of(child.ats.begin(), child.ats.end(),
                         [&](const At& own) { return own.prefix == at.prefix; })) {
            inherited.push_back(at);
        }
    }
    put_before(child.ats, inherited);
}

/// Keys of the child stand in the place of the inherited ones of their name.
void inherit_keys(std::vector<KeyRule>& own, const std::vector<KeyRule>& inherited) {
    const std::vector<KeyRule> of_child = own;
    std::vector<KeyRule> all;
    for (const KeyRule& key : inherited) {
        const bool is_replaced = std::ranges::count(of_child, key.name, &KeyRule::name) > 0;
        const bool is_first = std::ranges::count(all, key.name, &KeyRule::name) == 0;
        if (!is_replaced) {
            all.push_back(key);
        } else if (is_first) {
            std::ranges::copy_if(of_child, std::back_inserter(all),
                                 [&](const KeyRule& child) { return child.name == key.name; });
        }
    }
    std::erase_if(own, [&](const KeyRule& key) {
        return std::ranges::count(all, key.name, &KeyRule::name) > 0;
    });
    std::ranges::copy(own, std::back_inserter(all));
    own = std::move(all);
}

}  // namespace

FullDeclaration inherit(FullDeclaration base, Declaration child) {
    FullDeclaration whole;
    whole.depth = base.depth + 1;
    whole.blocks = edited_blocks(std::move(base.blocks), std::exchange(child.blocks, {}));
    whole.modules = edited_blocks(std::move(base.modules), std::exchange(child.modules, {}));
    whole.lines = edited(std::move(base.lines), std::exchange(child.lines, {}));
    inherit_symbols(child, base.declaration);
    inherit_ats(child, base.declaration);
    put_before(child.aliases, base.declaration.aliases);
    inherit_uses(child.uses, base.declaration.uses);
    put_before(child.same, base.declaration.same);
    put_before(child.ignore, base.declaration.ignore);
    put_before(child.renames, base.declaration.renames);
    put_before(child.places, base.declaration.places);
    put_before(child.eithers, base.declaration.eithers);
    put_before(child.passes, base.declaration.passes);
    put_before(child.needs, base.declaration.needs);
    put_before(child.linear, base.declaration.linear);
    child.has_own_names = child.has_own_names || base.declaration.has_own_names;
    child.lora = child.lora ? child.lora : base.declaration.lora;
    child.written = child.written ? child.written : base.declaration.written;
    child.rope_factors =
        child.rope_factors.empty() ? base.declaration.rope_factors : child.rope_factors;
    inherit_keys(child.keys, base.declaration.keys);
    put_before(child.config, base.declaration.config);
    put_before(child.claims, base.declaration.claims);
    put_before(child.refusals, base.declaration.refusals);
    put_before(child.facts, base.declaration.facts);
    put_before(child.givens, base.declaration.givens);
    whole.declaration = std::move(child);
    return whole;
}

namespace {

constexpr std::size_t kDeepestExtends = 8;

/// The base, and behind its statements those of the files that the declaration takes `with` it.
FullDeclaration with_parts(const Declarations& entries, const Declaration& declaration,
                           FullDeclaration base) {
    for (const std::string& name : declaration.parts) {
        const auto part = entries.find(name);
        if (part == entries.end() || part->second.is_dialect) {
            throw Error(ErrorCode::usage,
                        declaration.origin + ": there is no recipe '" + name + "' to take with it");
        }
        Declaration taken = part->second.declaration();
        if (!taken.extends.empty() || !taken.parts.empty()) {
            throw Error(ErrorCode::usage, declaration.origin + ": the recipe '" + name +
                                              "' is no part: it extends another one");
        }
        base = inherit(std::move(base), std::move(taken));
    }
    return base;
}

/// The declaration with everything it extends.
FullDeclaration resolve(const Declarations& entries, const FoundDeclaration& entry,
                        std::vector<std::string> above = {}) {
    Declaration declaration = entry.declaration();
    if (std::find(above.begin(), above.end(), declaration.name) != above.end()) {
        throw Error(ErrorCode::usage,
                    declaration.origin + ": '" + declaration.name + "' extends itself");
    }
    if (above.size() > kDeepestExtends) {
        throw Error(ErrorCode::usage, entries.find(above.front())->second.origin +
                                          ": more than 8 'extends' in a row");
    }
    if (declaration.extends.empty()) {
        FullDeclaration whole = with_parts(entries, declaration, {});
        whole = inherit(std::move(whole), std::move(declaration));
        whole.depth = 0;
        return whole;
    }
    const auto base = entries.find(declaration.extends);
    if (base == entries.end() || base->second.is_dialect != declaration.is_dialect) {
        throw Error(ErrorCode::usage, declaration.origin + ": there is no " +
                                          (declaration.is_dialect ? "dialect" : "recipe") + " '" +
                                          declaration.extends + "' to extend");
    }
    above.push_back(declaration.name);
    FullDeclaration whole =
        with_parts(entries, declaration, resolve(entries, base->second, std::move(above)));
    return inherit(std::move(whole), std::move(declaration));
}

/// Those of its blocks besides; its own are used up.
std::vector<Line> all_lines(FullDeclaration& whole) {
    std::vector<Line> lines = std::move(whole.lines);
    std::vector<Line> placed = expand(whole, whole.blocks);
    lines.reserve(lines.size() + placed.size());
    std::move(placed.begin(), placed.end(), std::back_inserter(lines));
    check_lines(lines);
    return lines;
}

/// The name under which a family keeps an inherited one: the longest `place` rule's.
Pattern placed(const Pattern& name, const std::vector<RenameRule>& places) {
    const RenameRule* best = longest_match(places, name.text);
    return best == nullptr ? name : Pattern::parse(best->to + name.text.substr(best->from.size()));
}

std::vector<Line> placed(std::vector<Line> lines, const std::vector<RenameRule>& places) {
    for (Line& line : lines) {
        line.name = at_origin(line.origin, [&] { return placed(line.name, places); });
    }
    return lines;
}

Dialect dialect_of(FullDeclaration whole) {
    Dialect dialect;
    dialect.store = all_lines(whole);
    Declaration& declaration = whole.declaration;
    dialect.name = declaration.name;
    dialect.origin = declaration.origin;
    dialect.extends = declaration.extends;
    dialect.aliases = std::move(declaration.aliases);
    dialect.ignore = std::move(declaration.ignore);
    dialect.claims = std::move(declaration.claims);
    dialect.refusals = std::move(declaration.refusals);
    dialect.defaults = std::move(declaration.defaults);
    dialect.facts = std::move(declaration.facts);
    dialect.fuse = std::move(declaration.fuse);
    dialect.families = std::move(declaration.families);
    dialect.has_own_names = declaration.has_own_names;
    dialect.lora = std::move(declaration.lora);
    dialect.written = std::move(declaration.written);
    dialect.keys = std::move(declaration.keys);
    dialect.rope_factors = std::move(declaration.rope_factors);
    return dialect;
}

Recipe recipe_of(FullDeclaration whole) {
    Recipe recipe;
    recipe.hub = placed(all_lines(whole), whole.declaration.places);
    recipe.module = placed(expand(whole, whole.modules), whole.declaration.places);
    check_lines(recipe.module);
    Declaration& declaration = whole.declaration;
    recipe.name = declaration.name;
    recipe.origin = declaration.origin;
    recipe.extends = declaration.extends;
    recipe.depth = whole.depth;
    recipe.dialects = std::move(declaration.uses);
    recipe.match = declaration.match;
    recipe.same = std::move(declaration.same);
    recipe.ignore = std::move(declaration.ignore);
    recipe.renames = std::move(declaration.renames);
    recipe.eithers = std::move(declaration.eithers);
    recipe.passes = std::move(declaration.passes);
    recipe.needs = std::move(declaration.needs);
    recipe.linear = std::move(declaration.linear);
    recipe.config = std::move(declaration.config);
    recipe.lets = std::move(declaration.lets);
    recipe.indices = std::move(declaration.indices);
    recipe.flags = std::move(declaration.flags);
    recipe.givens = std::move(declaration.givens);
    recipe.verified = joined(declaration.verified, ", ");
    return recipe;
}

}  // namespace

void declare(Declarations& entries, const RecipeFile& source, bool is_extra) {
    // A unit test parses the built-in ones whole.
    const Declaration declaration = is_extra ? parse_source(source) : parse_head(source);
    const auto found = entries.find(declaration.name);
    if (found != entries.end() && found->second.is_extra == is_extra) {
        throw Error(ErrorCode::usage, declaration.origin + ": '" + declaration.name +
                                          "' is declared a second time; the first is " +
                                          found->second.origin);
    }
    std::vector<std::string> bases = declaration.parts;
    bases.push_back(declaration.extends);
    auto kept = is_extra ? std::make_shared<const RecipeFile>(source)
                         : std::shared_ptr<const RecipeFile>(std::shared_ptr<void>(), &source);
    entries.insert_or_assign(
        declaration.name,
        FoundDeclaration{declaration.is_dialect, declaration.origin, declaration.match,
                         std::move(kept), is_extra, std::move(bases)});
}

bool rests_on_extra(const Declarations& entries, std::string_view name) {
    std::set<std::string_view> seen;
    std::vector<std::string_view> open{name};
    while (!open.empty()) {
        const auto entry = entries.find(open.back());
        open.pop_back();
        if (entry == entries.end() || !seen.insert(entry->first).second) {
            continue;
        }
        if (entry->second.is_extra) {
            return true;
        }
        open.insert(open.end(), entry->second.bases.begin(), entry->second.bases.end());
    }
    return false;
}

const FoundDeclaration* find_in(const Declarations& entries, std::string_view name,
                                bool is_dialect) {
    const auto found = entries.find(name);
    const bool is_there = found != entries.end() && found->second.is_dialect == is_dialect;
    return is_there ? &found->second : nullptr;
}

Recipe recipe_of(const Declarations& entries, const FoundDeclaration& entry) {
    Recipe recipe = recipe_of(resolve(entries, entry));
    recipe.is_extra = entry.is_extra;
    for (const std::string& used : recipe.dialects) {
        if (find_in(entries, used, true) == nullptr) {
            throw Error(ErrorCode::usage,
                        recipe.origin + ": there is no dialect '" + used + "' to use");
        }
    }
    return recipe;
}

Dialect dialect_of(const Declarations& entries, const FoundDeclaration& entry) {
    return dialect_of(resolve(entries, entry));
}

}  // namespace shardweld::models
