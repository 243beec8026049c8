// Expressions with everything known put in: what is left depends on captures alone.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "shardweld/error.hpp"

#include "config.hpp"
#include "expr.hpp"
#include "recipe.hpp"

namespace shardweld::models {

/// Why an expression has no value, once it is certain that it never will (not exact, overflow,
/// a text where a number is needed, a symbol defined by itself).
struct EvaluationFailure {
    ErrorCode code = ErrorCode::mismatch;
    std::string what;
    bool is_placed = false;  ///< what names a symbol or condition and its place already
};

/// A folded expression: a constant, or an operation that still depends on captures.
struct Node;
using NodePtr = std::shared_ptr<const Node>;

/// What names stand for. Lists that are null hold nothing.
struct Scope {
    const Recipe* recipe = nullptr;
    const Dialect* dialect = nullptr;
    std::optional<Config> config;        ///< nullopt: every field is unknown
    std::map<std::string, Index> known;  ///< facts and givens with their values
    std::set<std::string> unknown;   ///< facts and givens that are declared, value not known yet
    std::set<std::string> captures;  ///< names that a call may bind
    const std::map<std::string, std::string>* claims = nullptr;  ///< those absent count as 0
    bool absent_is_zero = false;  ///< of fields: for the conditions of claims
};

/// The value, or nullopt with `*why` set when a field is absent or nothing defines a name. Throws
/// EvaluationFailure.
std::optional<Index> evaluate(const Node& node, const Captures& captures, std::string* why);
/// The value if it is one for all captures.
std::optional<Index> constant_of(const Node& node);

/// "p = n / g (llama.recipe:8)".
std::string definition_text(const std::string& name, const Definition& definition);
/// Names that a line's name may bind: all indices, and all captures of the lines.
std::set<std::string> names_bound_by_captures(const Recipe& recipe, const Dialect& dialect);

/// Folds expressions and symbols of one scope; keeps what it folded. Not thread-safe.
class Folder {
  public:
    explicit Folder(Scope scope) : scope_(std::move(scope)) {}

    [[nodiscard]] const Scope& scope() const { return scope_; }
    const NodePtr& symbol(const std::string& name);
    const NodePtr& expression(const ExprPtr& expr);
    /// Whether anything defines the name.
    [[nodiscard]] bool defines(const std::string& name) const;
    /// The `let`, `index`, `flag` or `default` of the name, or nullptr.
    [[nodiscard]] const Definition* definition_of(const std::string& name) const;

  private:
    NodePtr fold(const Expr& expr);
    NodePtr fold_operation(const Expr& expr);
    NodePtr fold_field(const Expr& expr) const;
    NodePtr fold_count(const Expr& expr) const;
    NodePtr fold_claim(const Expr& expr) const;
    NodePtr fold_element(const Expr& expr);
    NodePtr fold_value(const Expr& expr);
    NodePtr fold_text(const Expr& expr);
    NodePtr fold_has(const Expr& expr);
    NodePtr fold_floor(const Expr& expr);
    NodePtr make_symbol(const std::string& name);
    NodePtr define(const std::string& name, const Definition& definition);
    [[nodiscard]] NodePtr absent(const std::string& reason) const;
    [[nodiscard]] std::string config_name() const;

    struct Kept {
        ExprPtr expr;  ///< kept alive: its address is the key
        NodePtr node;
    };
    Scope scope_;
    std::unordered_map<std::string, NodePtr> symbols_;
    std::unordered_map<const Expr*, Kept> expressions_;
    std::vector<std::string> under_way_;
};

}  // namespace shardweld::models
