// All recipes and dialects, and which recipe a config.json is of.
#include <algorithm>
#include <span>
#include <utility>

#include "core/text.hpp"
#include "models/class_name.hpp"
#include "models/expr.hpp"
#include "models/forms/saved_form.hpp"
#include "models/forms/written_form.hpp"
#include "models/recipe.hpp"
#include "models/symbols.hpp"
#include "shardweld/error.hpp"

#include "declaration.hpp"
#include "generated.hpp"

namespace shardweld::models {

namespace {

std::shared_ptr<const Declarations> built_in_declarations() {
    Declarations entries;
    for (const RecipeFile& source : built_in_sources()) {
        if (!source.file_name.ends_with(kListEnding) && !source.file_name.starts_with(kGenerated)) {
            declare(entries, source, false);
        }
    }
    return std::make_shared<const Declarations>(std::move(entries));
}

void check_own_lines(const Recipe& recipe) {
    check_lines(recipe.hub);
    check_lines(recipe.module);
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
        check_own_lines(*recipe);
        check_forms(*recipe);
    }
    for (const Dialect* const dialect : dialects()) {
        check_lines(dialect->store);
    }
}

void RecipeLibrary::check_stored(bool all) const {
    const auto is_changed = [&](const auto& name) {
        return all || rests_on(*declared_, name, &FoundDeclaration::is_extra);
    };
    std::vector<const Dialect*> ordered = dialects();
    const auto unchanged =
        std::stable_partition(ordered.begin(), ordered.end(),
                              [&](const Dialect* dialect) { return is_changed(dialect->name); });
    const auto check = [&](const Recipe& recipe, std::span<const Dialect* const> with, bool own) {
        for (const Dialect* const dialect : with) {
            if (dialect->has_own_names == own && can_meet(recipe, *dialect)) {
                check_meeting(recipe, own_names(recipe, *dialect));
            }
        }
    };
    // Frameworks' dialects first: what they find is about fewer lines.
    for (const bool own : {false, true}) {
        for (const auto& [name, entry] : *declared_) {
            const auto end = is_changed(name) ? ordered.end() : unchanged;
            if (!entry.is_dialect && end != ordered.begin()) {
                check(*find_recipe(name), {ordered.begin(), end}, own);
            }
        }
    }
}

void RecipeLibrary::check_forms(const Recipe& recipe) const {
    for (const Dialect* const form : dialects()) {
        if (form->written_format.empty() || !contains(form->families, recipe.name)) {
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
        if (rests_on(*declared_, name, &FoundDeclaration::is_extra)) {
            check_own_lines(known->second);
        }
    }
    return &known->second;
}

const Recipe* RecipeLibrary::find_generated(std::string_view model_type) const {
    if (auto* const known = find_value(generated_, model_type)) {
        return known;
    }
    auto source = generated_source(model_type);
    if (!source) {
        return nullptr;
    }
    FoundDeclaration entry;
    entry.source = std::make_shared<const RecipeFile>(*std::move(source));
    return &generated_.emplace(model_type, recipe_of(*declared_, entry)).first->second;
}

const Declaration* RecipeLibrary::find_resolved(std::string_view name) const {
    const FoundDeclaration* const entry = find_in(*declared_, name, true);
    if (entry == nullptr) {
        return nullptr;
    }
    std::shared_ptr<const Declaration>& known = resolved_[std::string(name)];
    if (known == nullptr) {
        known = std::make_shared<const Declaration>(resolved_dialect(*declared_, *entry));
    }
    return known.get();
}

const Dialect* RecipeLibrary::find_rules(std::string_view name) const {
    const Declaration* const whole = find_resolved(name);
    return whole == nullptr ? nullptr : &whole->dialect;
}

const Dialect* RecipeLibrary::find_dialect(std::string_view name) const {
    const Declaration* const whole = find_resolved(name);
    if (whole == nullptr) {
        return nullptr;
    }
    auto known = dialects_.find(name);
    if (known == dialects_.end()) {
        known = dialects_.emplace(name, with_lines(*whole)).first;
        if (rests_on(*declared_, name, &FoundDeclaration::is_extra)) {
            check_lines(known->second.store);
        }
    }
    return &known->second;
}

Dialect RecipeLibrary::dialect_for(const Recipe& recipe, std::string_view name) const {
    const Declaration& found = *find_resolved(name);
    if (found.dialect.has_own_names || rests_on(*declared_, name, &FoundDeclaration::is_extra)) {
        return *find_dialect(name);
    }
    Declaration whole = found;
    keep_lines_for(recipe, whole);
    return with_lines(whole);
}

bool RecipeLibrary::has_own_names(std::string_view dialect) const {
    return rests_on(*declared_, dialect, &FoundDeclaration::has_own_names);
}

std::map<std::string, ExprPtr> RecipeLibrary::matches() const {
    std::map<std::string, ExprPtr> all;
    for (const auto& [name, entry] : *declared_) {
        if (entry.match != nullptr) {
            all.emplace(name, entry.match);
        }
    }
    return all;
}

std::vector<const Recipe*> RecipeLibrary::recipes() const {
    return collect_list(
        *declared_, [this](const auto& declared) { return find_recipe(declared.first); },
        [](const auto& declared) { return !declared.second.is_dialect; });
}

std::vector<const Dialect*> RecipeLibrary::dialects() const {
    return collect_list(
        *declared_, [this](const auto& declared) { return find_dialect(declared.first); },
        [](const auto& declared) { return declared.second.is_dialect; });
}

const RecipeFile* RecipeLibrary::source_of(std::string_view name) const {
    auto* const found = find_value(*declared_, name);
    return found == nullptr ? nullptr : found->source.get();
}

bool RecipeLibrary::can_meet(const Recipe& recipe, const Dialect& dialect) const {
    if (dialect.has_own_names || !dialect.written_format.empty()) {
        return dialect.has_own_names;
    }
    bool is_met = contains(dialect.families, recipe.name);
    for (const Dialect* at = &dialect; at != nullptr && !is_met; at = find_rules(at->extends)) {
        is_met = contains(recipe.dialects, at->name);
    }
    return is_met;
}

namespace {

constexpr const char* kModelType = "model_type";

/// Every model_type that a recipe is for.
std::vector<std::string> known_types(const RecipeLibrary& library) {
    std::vector<std::string> types;
    for (const auto& [name, match] : library.matches()) {
        for_each_node(match, [&](const Expr& node) {
            if (node.op == Op::is_text && node.args[0]->name == kModelType) {
                append_all(types, node.texts);
            }
        });
    }
    return types;
}

/// Error(mismatch) where config.json names a class that a recipe is for, whose model_type it is
/// not; as transformers spells both: Qwen3MoeForCausalLM is qwen3_moe's. `what` begins the message.
void refuse_other_type(const RecipeLibrary& library, const Config& config,
                       const std::string& what) {
    // minimax_m3_vl_text is MiniMaxM3VLForCausalLM's own type, not a slip; nor is a type whose
    // recipe leaves out such models.
    const std::string own = squeezed(config.text(kModelType).value_or(""));
    const std::vector<std::string> types = known_types(library);
    for (const std::string& name : config.architectures()) {
        const std::string family = squeezed(family_of_class(name));
        auto* const type = find_item(types, family, squeezed);
        if (type != nullptr && own != family && own != family + "text") {
            throw Error(ErrorCode::mismatch, what + ", but architectures names " + printable(name),
                        "write the model_type of the model that was trained, as \"" + *type +
                            "\", or give a recipe with --recipe");
        }
    }
}

[[noreturn]] void refuse_family(const RecipeLibrary& library, const Config& config,
                                const std::string& families) {
    const auto type = config.text(kModelType);
    const std::string what =
        config.origin() + (type
                               ? ": model_type is \"" + printable(*type) + "\", which has no recipe"
                               : ": there is no model_type, which chooses the recipe");
    refuse_other_type(library, config, what);
    if (!type) {
        throw Error(ErrorCode::mismatch, what,
                    "is it another file? Put the config.json of the model that was "
                    "trained there, give a "
                    "recipe with --recipe, or keep the tensors as they are stored "
                    "with --names module");
    }
    const std::string why = refusal_of(*type);
    throw Error(
        ErrorCode::unsupported,
        what +
            (why.empty() ? "" : " (none could be made of " + saving_library() + ": " + why + ")"),
        "give a recipe with --recipe; there are recipes for " + families);
}

}  // namespace

const Recipe& recipe_for(const RecipeLibrary& library, const Config& config) {
    Scope scope;
    scope.config = config;
    const Symbols symbols(std::move(scope));
    const Recipe* best = nullptr;
    std::string families;
    for (const auto& [name, match] : library.matches()) {
        families += (families.empty() ? "" : ", ") + name;
        if (symbols.try_expr(match).value_or(0) == 0) {
            continue;
        }
        const Recipe* const recipe = library.find_recipe(name);
        // A recipe given at run time is there to be used; else the most derived one
        // knows best.
        const auto rank = [](const Recipe& r) { return std::pair(r.is_extra, r.depth); };
        if (best != nullptr && rank(*best) == rank(*recipe)) {
            throw Error(
                ErrorCode::usage,
                "both " + best->origin + " and " + recipe->origin + " match " + config.origin(),
                "let one extend the other or change its 'match'");
        }
        if (best == nullptr || rank(*best) < rank(*recipe)) {
            best = recipe;
        }
    }
    if (best == nullptr) {
        best = library.find_generated(config.text(kModelType).value_or(""));
    }
    if (best == nullptr) {
        refuse_family(library, config, families);
    }
    return *best;
}

}  // namespace shardweld::models
