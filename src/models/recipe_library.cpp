#include <algorithm>
#include <utility>

#include "check.hpp"
#include "recipe.hpp"
#include "resolve.hpp"
#include "verification.hpp"
#include "written_form.hpp"

namespace shardweld::models {

namespace {

std::shared_ptr<const Declarations> built_in_declarations() {
    Declarations entries;
    for (const RecipeFile& source : built_in_sources()) {
        if (source.file_name != kVerifiedList) {
            declare(entries, source, false);
        }
    }
    return std::make_shared<const Declarations>(std::move(entries));
}

}  // namespace

RecipeLibrary RecipeLibrary::load(const std::vector<RecipeFile>& extra) {
    static const std::shared_ptr<const Declarations> built_in = built_in_declarations();
    RecipeLibrary library;
    library.declared_ = built_in;
    if (!extra.empty()) {
        Declarations entries = *built_in;
        for (const RecipeFile& source : extra) {
            declare(entries, source, true);
        }
        library.declared_ = std::make_shared<const Declarations>(std::move(entries));
        library.check_stored(false);
    }
    return library;
}

void RecipeLibrary::check_meetings() const {
    check_stored(true);
    for (const Recipe* const recipe : recipes()) {
        check_forms(*recipe);
    }
}

void RecipeLibrary::check_stored(bool all) const {
    std::vector<const Dialect*> changed;
    std::vector<const Dialect*> built_in;
    for (const Dialect* const dialect : dialects()) {
        (all || rests_on_extra(*declared_, dialect->name) ? changed : built_in).push_back(dialect);
    }
    const auto check = [this](const Recipe& recipe, const std::vector<const Dialect*>& dialects,
                              bool own) {
        for (const Dialect* const dialect : dialects) {
            if (dialect->has_own_names == own && can_meet(recipe, *dialect)) {
                check_meeting(recipe, own_names(recipe, *dialect));
            }
        }
    };
    // Frameworks' dialects first: what they find is about fewer lines.
    for (const bool own : {false, true}) {
        for (const auto& [name, entry] : *declared_) {
            const bool is_changed = rests_on_extra(*declared_, name);
            if (entry.is_dialect || (changed.empty() && !is_changed)) {
                continue;
            }
            check(*find_recipe(name), changed, own);
            if (is_changed) {
                check(*find_recipe(name), built_in, own);
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
        known = dialects_.emplace(name, dialect_of(*declared_, *entry)).first;
    }
    return &known->second;
}

std::vector<FamilyMatch> RecipeLibrary::matches() const {
    std::vector<FamilyMatch> all;
    for (const auto& [name, entry] : *declared_) {
        if (entry.match != nullptr) {
            all.push_back({name, entry.match});
        }
    }
    return all;
}

std::vector<const Recipe*> RecipeLibrary::recipes() const {
    std::vector<const Recipe*> all;
    for (const auto& [name, entry] : *declared_) {
        if (!entry.is_dialect) {
            all.push_back(find_recipe(name));
        }
    }
    return all;
}

std::vector<const Dialect*> RecipeLibrary::dialects() const {
    std::vector<const Dialect*> all;
    for (const auto& [name, entry] : *declared_) {
        if (entry.is_dialect) {
            all.push_back(find_dialect(name));
        }
    }
    return all;
}

const RecipeFile* RecipeLibrary::source_of(std::string_view name) const {
    const auto found = declared_->find(name);
    return found == declared_->end() ? nullptr : found->second.source.get();
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
