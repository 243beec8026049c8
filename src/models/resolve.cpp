#include "resolve.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "check.hpp"
#include "expr.hpp"
#include "inherit.hpp"

namespace shardweld::models {

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
