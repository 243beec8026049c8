#include <algorithm>
#include <utility>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/models/recipe.hpp"
#include "shardweld/models/verification.hpp"
#include "shardweld/models/written_form.hpp"

#include "check.hpp"
#include "expr.hpp"
#include "inherit.hpp"

namespace shardweld::models {

struct FoundDeclaration {
    Declaration declaration;
    RecipeFile source;
    bool is_extra = false;
};

namespace {

using Entries = Declarations;

constexpr std::size_t kDeepestExtends = 8;

void add(Entries& entries, const RecipeFile& source, bool is_extra) {
    Declaration declaration = parse_source(source);
    const std::string name = declaration.name;
    const auto found = entries.find(name);
    if (found != entries.end() && found->second.is_extra == is_extra) {
        throw Error(ErrorCode::usage, declaration.origin + ": '" + name +
                                          "' is declared a second time; the first is " +
                                          found->second.declaration.origin);
    }
    entries.insert_or_assign(name, FoundDeclaration{std::move(declaration), source, is_extra});
}

/// The base, and behind its statements those of the files that the declaration takes `with` it.
FullDeclaration with_parts(const Entries& entries, const Declaration& declaration,
                           FullDeclaration base) {
    for (const std::string& name : declaration.parts) {
        const auto part = entries.find(name);
        if (part == entries.end() || part->second.declaration.is_dialect) {
            throw Error(ErrorCode::usage,
                        declaration.origin + ": there is no recipe '" + name + "' to take with it");
        }
        if (!part->second.declaration.extends.empty() || !part->second.declaration.parts.empty()) {
            throw Error(ErrorCode::usage, declaration.origin + ": the recipe '" + name +
                                              "' is no part: it extends another one");
        }
        base = inherit(base, part->second.declaration);
    }
    return base;
}

/// The declaration with everything it extends.
FullDeclaration resolve(const Entries& entries, const FoundDeclaration& entry,
                        std::vector<std::string> above = {}) {
    const Declaration& declaration = entry.declaration;
    if (std::find(above.begin(), above.end(), declaration.name) != above.end()) {
        throw Error(ErrorCode::usage,
                    declaration.origin + ": '" + declaration.name + "' extends itself");
    }
    if (above.size() > kDeepestExtends) {
        throw Error(ErrorCode::usage, entries.find(above.front())->second.declaration.origin +
                                          ": more than 8 'extends' in a row");
    }
    if (declaration.extends.empty()) {
        FullDeclaration whole = inherit(with_parts(entries, declaration, {}), declaration);
        whole.depth = 0;
        return whole;
    }
    const auto base = entries.find(declaration.extends);
    if (base == entries.end() || base->second.declaration.is_dialect != declaration.is_dialect) {
        throw Error(ErrorCode::usage, declaration.origin + ": there is no " +
                                          (declaration.is_dialect ? "dialect" : "recipe") + " '" +
                                          declaration.extends + "' to extend");
    }
    above.push_back(declaration.name);
    return inherit(
        with_parts(entries, declaration, resolve(entries, base->second, std::move(above))),
        declaration);
}

std::vector<Line> all_lines(const FullDeclaration& whole) {
    std::vector<Line> lines = whole.lines;
    std::vector<Line> placed = expand(whole, whole.blocks);
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
    recipe.linear = std::move(declaration.linear);
    recipe.config = std::move(declaration.config);
    recipe.lets = std::move(declaration.lets);
    recipe.indices = std::move(declaration.indices);
    recipe.flags = std::move(declaration.flags);
    recipe.givens = std::move(declaration.givens);
    recipe.verified = joined(declaration.verified, ", ");
    return recipe;
}

const FoundDeclaration* find_in(const Entries& entries, std::string_view name, bool is_dialect) {
    const auto found = entries.find(name);
    const bool is_there =
        found != entries.end() && found->second.declaration.is_dialect == is_dialect;
    return is_there ? &found->second : nullptr;
}

Recipe recipe_of(const Entries& entries, const FoundDeclaration& entry) {
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

}  // namespace

RecipeLibrary RecipeLibrary::load(const std::vector<RecipeFile>& extra) {
    Entries entries;
    for (const RecipeFile& source : built_in_sources()) {
        if (source.file_name != kVerifiedList) {
            add(entries, source, false);
        }
    }
    for (const RecipeFile& source : extra) {
        add(entries, source, true);
    }
    RecipeLibrary library;
    library.declared_ = std::make_shared<const Entries>(std::move(entries));
    if (!extra.empty()) {
        library.check_stored();
    }
    return library;
}

void RecipeLibrary::check_meetings() const {
    check_stored();
    for (const Recipe* const recipe : recipes()) {
        check_forms(*recipe);
    }
}

void RecipeLibrary::check_stored() const {
    // Frameworks' dialects first: what they find is about fewer lines.
    for (const bool own : {false, true}) {
        for (const Recipe* const recipe : recipes()) {
            for (const Dialect* const dialect : dialects()) {
                if (dialect->has_own_names == own && can_meet(*recipe, *dialect)) {
                    check_meeting(*recipe, own_names(*recipe, *dialect));
                }
            }
        }
    }
}

void RecipeLibrary::check_forms(const Recipe& recipe) const {
    for (const Dialect* const form : dialects()) {
        if (!form->written || std::ranges::count(form->families, recipe.name) == 0) {
            continue;
        }
        for (const Dialect* const stored : dialects()) {
            if (can_meet(recipe, *stored)) {
                const WrittenForm made = written_form(recipe, own_names(recipe, *stored), *form);
                check_meeting(made.recipe, made.dialect);
            }
        }
    }
}

const Recipe* RecipeLibrary::find_recipe(std::string_view name) const {
    const FoundDeclaration* const entry = find_in(*declared_, name, false);
    if (entry == nullptr) {
        return nullptr;
    }
    auto known = recipes_.find(name);
    if (known == recipes_.end()) {
        known = recipes_.emplace(name, recipe_of(*declared_, *entry)).first;
    }
    return &known->second;
}

const Dialect* RecipeLibrary::find_dialect(std::string_view name) const {
    const FoundDeclaration* const entry = find_in(*declared_, name, true);
    if (entry == nullptr) {
        return nullptr;
    }
    auto known = dialects_.find(name);
    if (known == dialects_.end()) {
        known = dialects_.emplace(name, dialect_of(resolve(*declared_, *entry))).first;
    }
    return &known->second;
}

std::vector<FamilyMatch> RecipeLibrary::matches() const {
    std::vector<FamilyMatch> all;
    for (const auto& [name, entry] : *declared_) {
        if (entry.declaration.match != nullptr) {
            all.push_back({name, entry.declaration.match});
        }
    }
    return all;
}

std::vector<const Recipe*> RecipeLibrary::recipes() const {
    std::vector<const Recipe*> all;
    for (const auto& [name, entry] : *declared_) {
        if (!entry.declaration.is_dialect) {
            all.push_back(find_recipe(name));
        }
    }
    return all;
}

std::vector<const Dialect*> RecipeLibrary::dialects() const {
    std::vector<const Dialect*> all;
    for (const auto& [name, entry] : *declared_) {
        if (entry.declaration.is_dialect) {
            all.push_back(find_dialect(name));
        }
    }
    return all;
}

const RecipeFile* RecipeLibrary::source_of(std::string_view name) const {
    const auto found = declared_->find(name);
    return found == declared_->end() ? nullptr : &found->second.source;
}

bool RecipeLibrary::can_meet(const Recipe& recipe, const Dialect& dialect) const {
    if (dialect.has_own_names || dialect.written) {
        return dialect.has_own_names;
    }
    const auto& families = dialect.families;
    if (std::find(families.begin(), families.end(), recipe.name) != families.end()) {
        return true;
    }
    const auto& used = recipe.dialects;
    for (const Dialect* at = &dialect; at != nullptr; at = find_dialect(at->extends)) {
        if (std::find(used.begin(), used.end(), at->name) != used.end()) {
            return true;
        }
    }
    return false;
}

}  // namespace shardweld::models
