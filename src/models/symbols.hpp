// Values of a recipe's symbols and expressions for one model: from config.json, the reader's facts,
// the command line and what the checkpoint states.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config.hpp"
#include "recipe.hpp"

namespace shardweld::models {

/// What the names, fields and claims in expressions stand for.
struct Scope {
    Scope() = default;
    /// The definitions of a recipe with a dialect, and the names that captures bind.
    Scope(const Recipe& family, const Dialect& dialect);

    std::string recipe;                             ///< its name, for messages; "": there is none
    std::map<std::string, Definition> definitions;  ///< the recipe's, and the dialect's defaults
    std::set<std::string> captures;                 ///< names that a call may bind
    std::vector<std::string> givens;                ///< those that the command line has a say in
    /// Facts and givens; nullopt: the value is not known yet.
    std::map<std::string, std::optional<Index>> known;
    std::optional<Config> config;  ///< nullopt: every field is unknown
    /// What the checkpoint states, or nullptr; what it does not state counts as 0.
    const std::map<std::string, std::string>* claims = nullptr;
    bool absent_is_zero = false;  ///< of fields: for the conditions of claims
};

/// The fields of config.json that give a symbol its value.
struct SymbolFields {
    std::set<std::string> stated;
    std::set<std::string> absent;  ///< each of which would give it, if it were there
};

/// Evaluates expressions. Errors: Error(mismatch) naming the symbol, its text and origin, and the
/// config field that is absent or does not divide exactly; every overflow likewise; Error(usage)
/// for a cyclic definition. What reads no capture is worked out once. Not thread-safe.
class Symbols {
  public:
    explicit Symbols(Scope scope);
    /// `facts`: values by the reader (t, te, version, ...); `given`: by the command line (value). A
    /// fact the dialect lists but the reader does not give is absent (defaults apply).
    Symbols(const Recipe& recipe, const Dialect& dialect, const Config& config,
            const std::map<std::string, Index>& facts, const std::map<std::string, Index>& given);

    /// Value of a symbol (fact, given, let, index, default, capture).
    [[nodiscard]] Index value(const std::string& name, const Captures& captures = {}) const;
    /// nullopt when the symbol cannot be evaluated because a config field is absent.
    [[nodiscard]] std::optional<Index> try_value(const std::string& name,
                                                 const Captures& captures = {}) const;
    /// Whether a condition holds (null: true).
    [[nodiscard]] bool holds(const ExprPtr& condition, const Captures& captures = {}) const;
    /// Value of an expression; nullopt when a config field it needs is absent.
    [[nodiscard]] std::optional<Index> try_expr(const ExprPtr& expr,
                                                const Captures& captures = {}) const;
    /// The value if the expression has one, whatever its captures are.
    [[nodiscard]] std::optional<Index> constant_of(const ExprPtr& expr) const;
    /// The fields of config.json that a condition rests on; none where the command line has a say.
    [[nodiscard]] std::set<std::string> deciding_fields(const ExprPtr& condition) const;
    /// What a symbol's value rests on, as far as those are numbers on their own.
    [[nodiscard]] SymbolFields fields_of(const std::string& symbol) const;
    /// The number in a field; nullopt where config.json has none.
    [[nodiscard]] std::optional<Index> number_in(const std::string& field) const;
    /// What config.json states there, for messages: "4", "is the text \"4\"", "is not there".
    [[nodiscard]] std::string stated_in(const std::string& field) const;
    /// The symbols of a config.json that has this number in the field, and else the same.
    [[nodiscard]] Symbols with_field(const std::string& field, Index number) const;
    /// Whether anything defines the name.
    [[nodiscard]] bool defines(const std::string& name) const;
    /// Whether `name` is declared by `index`.
    [[nodiscard]] bool is_index(const std::string& name) const;

  private:
    [[nodiscard]] bool is_in_force(const ExprPtr& alternative) const;

    class Evaluator;
    std::shared_ptr<Evaluator> evaluator_;
};

/// The recipe whose `match` holds for the config (most derived one wins). When none does:
/// Error(mismatch) where `architectures` names a class of a known family, else Error(unsupported)
/// listing the known families. Error(usage) when two match.
const Recipe& recipe_for(const RecipeLibrary& library, const Config& config);

}  // namespace shardweld::models
