#include "symbols.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/text.hpp"

#include "evaluator.hpp"

namespace shardweld::models {

struct Symbols::State {
    // Copies: the folder's scope points at them, and a Symbols outlives what it was made from.
    Recipe recipe;
    Dialect dialect;
    std::optional<Folder> folder;
};

namespace {

constexpr const char* kModelType = "model_type";

Error as_error(const EvaluationFailure& failure) {
    return {failure.code, failure.what};
}

std::optional<Index> value_of(const NodePtr& node, const Captures& captures, std::string* why) {
    try {
        return evaluate(*node, captures, why);
    } catch (const EvaluationFailure& failure) {
        throw as_error(failure);
    }
}

/// Letters and digits alone, in small letters.
std::string squeezed(std::string_view name) {
    std::string text;
    for (const char c : name) {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
            text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        }
    }
    return text;
}

/// "Qwen3Moe" of "Qwen3MoeForCausalLM", the same for other classes of a family.
std::string_view family_of_class(std::string_view name) {
    std::size_t end = name.size();
    for (const std::string_view what : {"For", "LMHead", "Model"}) {
        end = std::min(end, name.find(what));
    }
    return name.substr(0, end);
}

/// The class that config.json names and the model_type of the recipe that is for it; as
/// transformers spells both: Qwen3MoeForCausalLM is qwen3_moe's.
struct KnownClass {
    std::string name;
    std::string model_type;
};

/// The model_type, of those that recipes are for, that is spelled like this family.
std::optional<std::string> type_of(const RecipeLibrary& library, const std::string& family) {
    std::optional<std::string> found;
    for (const FamilyMatch& one : library.matches()) {
        for_each_node(one.match, [&](const Expr& node) {
            if (found || node.op != Op::is_text || node.args[0]->name != kModelType) {
                return;
            }
            const auto type = std::ranges::find(node.texts, family, squeezed);
            found = type == node.texts.end() ? found : *type;
        });
    }
    return found;
}

std::optional<KnownClass> known_class(const RecipeLibrary& library, const Config& config) {
    // minimax_m3_vl_text is MiniMaxM3VLForCausalLM's own type, not a slip; nor is a type whose
    // recipe leaves out such models.
    const std::string own = squeezed(config.text(kModelType).value_or(""));
    for (const std::string& name : config.architectures()) {
        const std::string family = squeezed(family_of_class(name));
        const auto type = family.empty() || own == family || own == family + "text"
                              ? std::nullopt
                              : type_of(library, family);
        if (type) {
            return KnownClass{name, *type};
        }
    }
    return std::nullopt;
}

[[noreturn]] void refuse_family(const RecipeLibrary& library, const Config& config,
                                const std::string& families) {
    const auto type = config.text(kModelType);
    const std::string what =
        config.origin() + (type
                               ? ": model_type is \"" + printable(*type) + "\", which has no recipe"
                               : ": there is no model_type, which chooses the recipe");
    if (const auto known = known_class(library, config)) {
        throw Error(ErrorCode::mismatch,
                    what + ", but architectures names " + printable(known->name),
                    "write the model_type of the model that was trained, as \"" +
                        known->model_type + "\", or give a recipe with --recipe");
    }
    if (!type) {
        throw Error(
            ErrorCode::mismatch, what,
            "is it another file? Put the config.json of the model that was trained there, give a "
            "recipe with --recipe, or keep the tensors as they are stored with --names module");
    }
    throw Error(ErrorCode::unsupported, what,
                "give a recipe with --recipe; there are recipes for " + families);
}

/// What an expression rests on, through all definitions.
struct Grounds {
    std::set<std::string> fields = {};
    std::set<std::string> names = {};
    bool is_given = false;  ///< by the command line, in part
};

void find_grounds(const Folder& folder, const Recipe& recipe, const ExprPtr& expr, Grounds& found) {
    for_each_node(expr, [&](const Expr& node) {
        switch (node.op) {
            case Op::field:
            case Op::element:
            case Op::count:
            case Op::known_field:
            case Op::has:
                found.fields.insert(node.name);
                return;
            case Op::name:
                break;
            default:
                return;
        }
        found.is_given = found.is_given || std::ranges::count(recipe.givens, node.name) > 0;
        const Definition* const definition = folder.definition_of(node.name);
        if (definition != nullptr && found.names.insert(node.name).second) {
            for (const ExprPtr& alternative : definition->alternatives) {
                find_grounds(folder, recipe, alternative, found);
            }
        }
    });
}

Scope scope_of(const Recipe& recipe, const Dialect& dialect) {
    Scope scope;
    scope.recipe = &recipe;
    scope.dialect = &dialect;
    scope.captures = names_bound_by_captures(recipe, dialect);
    return scope;
}

}  // namespace

Symbols::Symbols(const Recipe& recipe, const Dialect& dialect, const Config& config,
                 std::map<std::string, Index> facts, std::map<std::string, Index> given)
    : state_(std::make_shared<State>()) {
    state_->recipe = recipe;
    state_->dialect = dialect;
    Scope scope = scope_of(state_->recipe, state_->dialect);
    scope.config = config;
    for (const std::string& fact : dialect.facts) {
        if (const auto found = facts.find(fact); found != facts.end()) {
            scope.known.insert(*found);
        }
    }
    for (const std::string& name : recipe.givens) {
        const auto found = given.find(name);
        scope.known[name] = found == given.end() ? 0 : found->second;
    }
    state_->folder.emplace(std::move(scope));
}

Index Symbols::value(const std::string& name, const Captures& captures) const {
    const Definition* const definition = state_->folder->definition_of(name);
    try {
        std::string why;
        if (const auto found = value_of(state_->folder->symbol(name), captures, &why)) {
            return *found;
        }
        throw Error(ErrorCode::mismatch,
                    (definition == nullptr ? name : definition_text(name, *definition)) +
                        " has no value: " + why);
    } catch (Error& error) {
        error.set_detail(definition == nullptr ? "" : definition->origin);
        throw;
    }
}
std::optional<Index> Symbols::try_value(const std::string& name, const Captures& captures) const {
    std::string why;
    return value_of(state_->folder->symbol(name), captures, &why);
}

bool Symbols::holds(const ExprPtr& condition, const Captures& captures) const {
    if (condition == nullptr) {
        return true;
    }
    std::string why;
    const auto found = value_of(state_->folder->expression(condition), captures, &why);
    if (!found) {
        throw Error(ErrorCode::mismatch, "'" + condition->text + "' cannot be decided: " + why)
            .set_detail(condition->origin);
    }
    return *found != 0;
}

std::optional<Index> Symbols::try_expr(const ExprPtr& expr, const Captures& captures) const {
    std::string why;
    return value_of(state_->folder->expression(expr), captures, &why);
}

std::set<std::string> Symbols::deciding_fields(const ExprPtr& condition) const {
    Grounds found;
    find_grounds(*state_->folder, state_->recipe, condition, found);
    return found.is_given ? std::set<std::string>() : found.fields;
}

bool Symbols::is_index(const std::string& name) const {
    return state_->recipe.indices.contains(name);
}

const Recipe& recipe_for(const RecipeLibrary& library, const Config& config) {
    Scope scope;
    scope.config = config;
    Folder folder(scope);
    const Recipe* best = nullptr;
    std::string families;
    for (const FamilyMatch& one : library.matches()) {
        families += (families.empty() ? "" : ", ") + one.name;
        std::string why;
        const auto matches = value_of(folder.expression(one.match), {}, &why);
        if (matches.value_or(0) == 0) {
            continue;
        }
        const Recipe* const recipe = library.find_recipe(one.name);
        // A recipe given at run time is there to be used; else the most derived one knows best.
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
        refuse_family(library, config, families);
    }
    return *best;
}

}  // namespace shardweld::models
