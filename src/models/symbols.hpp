// Values of a recipe's symbols for one model: from config.json, the reader's facts and the command
// line.
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

/// Evaluates expressions. Errors: Error(mismatch) naming the symbol, its text and origin, and the
/// config field that is absent or does not divide exactly; every overflow likewise; Error(usage)
/// for a cyclic definition.
class Symbols {
  public:
    /// `facts`: values by the reader (t, te, version, ...); `given`: by the command line (value). A
    /// fact the dialect lists but the reader does not give is absent (defaults apply).
    Symbols(const Recipe& recipe, const Dialect& dialect, const Config& config,
            std::map<std::string, Index> facts, std::map<std::string, Index> given);

    /// Value of a symbol (fact, given, let, index, default, capture); cached when it does not
    /// depend on captures.
    [[nodiscard]] Index value(const std::string& name, const Captures& captures = {}) const;
    /// nullopt when the symbol cannot be evaluated because a config field is absent.
    [[nodiscard]] std::optional<Index> try_value(const std::string& name,
                                                 const Captures& captures = {}) const;
    /// Whether a condition holds (null: true).
    [[nodiscard]] bool holds(const ExprPtr& condition, const Captures& captures = {}) const;
    /// Value of an expression; nullopt when a config field it needs is absent.
    [[nodiscard]] std::optional<Index> try_expr(const ExprPtr& expr,
                                                const Captures& captures = {}) const;
    /// The fields of config.json that a condition rests on; none where the command line has a say.
    [[nodiscard]] std::set<std::string> deciding_fields(const ExprPtr& condition) const;
    /// Whether `name` is declared by `index`.
    [[nodiscard]] bool is_index(const std::string& name) const;

  private:
    struct State;
    std::shared_ptr<State> state_;
};

/// The recipe whose `match` holds for the config (most derived one wins). When none does:
/// Error(mismatch) where `architectures` names a class of a known family, else Error(unsupported)
/// listing the known families. Error(usage) when two match.
const Recipe& recipe_for(const RecipeLibrary& library, const Config& config);

}  // namespace shardweld::models
