#include "claims.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "exact.hpp"
#include "expr.hpp"
#include "symbols.hpp"

namespace shardweld::models {

namespace {

/// nullopt also for what cannot be worked out, e.g. a quotient that is not
/// whole.
std::optional<Index> try_integer(const Symbols& symbols, const ExprPtr& expr) {
    try {
        return symbols.try_expr(expr);
    } catch (const Error&) {
        return std::nullopt;
    }
}

/// What config.json states: a field alone may be a fraction or a text; anything computed is an
/// integer.
FieldValue stated_by(const Config& config, const Symbols& symbols, const ExprPtr& alternative) {
    if (alternative->op == Op::field) {
        return config.field(alternative->name);
    }
    const auto integer = try_integer(symbols, alternative);
    return integer ? FieldValue(*integer) : FieldValue();
}

bool agree(const FieldValue& stated, const FieldValue& claimed, bool at_most) {
    if (stated == claimed) {
        return true;
    }
    const auto a = real_of(stated);
    const auto b = real_of(claimed);
    return a && b && (*a == *b || (at_most && *a < *b));
}

/// The values of a claim: those of a list "[1, 2]", or its only one.
std::vector<FieldValue> claim_values(std::string_view text) {
    const bool is_list = text.size() >= 2 && text.front() == '[' && text.back() == ']';
    std::vector<FieldValue> values;
    for (const std::string_view part :
         split(is_list ? text.substr(1, text.size() - 2) : text, is_list ? ',' : '\0')) {
        values.push_back(claim_value(std::string(trim(part))));
    }
    return values;
}

/// A text where a number is expected says nothing that could be compared; nor
/// does a list that has not the one value, for what each of its values is about
/// is not told.
bool is_comparable(const FieldValue& stated, const std::vector<FieldValue>& claimed) {
    return claimed.size() == 1 &&
           (real_of(stated).has_value() == real_of(claimed.front()).has_value());
}

bool speaks_of(const ExprPtr& expr, const std::set<std::string>& fields) {
    bool found = false;
    for_each_node(expr, [&](const Expr& node) {
        found = found || (node.op == Op::field && fields.contains(node.name));
    });
    return found;
}

/// What the checkpoint states of the names in a condition: "a true, b false".
std::string named_claims(const ExprPtr& condition,
                         const std::map<std::string, std::string>& claims) {
    std::set<std::string> names;
    for_each_node(condition, [&](const Expr& node) {
        if (node.op == Op::claim || node.op == Op::known_claim) {
            names.insert(node.name);
        }
    });
    std::string text;
    for (const std::string& name : names) {
        if (auto* const claim = find_value(claims, name)) {
            text += (text.empty() ? "" : ", ") + name + " " + printable(*claim);
        }
    }
    return text;
}

}  // namespace

ClaimCheck check_claims(const Dialect& dialect, const Config& config,
                        const std::map<std::string, std::string>& claims,
                        const std::set<std::string>& settled) {
    Scope scope;
    scope.config = config;
    const Symbols fields(scope);
    scope.claims = &claims;
    scope.absent_is_zero = true;
    const Symbols conditions(scope);
    ClaimCheck found;
    for (const ClaimRule& rule : dialect.claims) {
        auto* const claim = find_value(claims, rule.name);
        const bool applies =
            claim != nullptr && !speaks_of(rule.field, settled) &&
            (rule.condition == nullptr || try_integer(conditions, rule.condition).value_or(0) != 0);
        auto* const alternative = find_where(rule.field->args, [&](const ExprPtr& one) {
            return applies && !is_null(stated_by(config, fields, one));
        });
        if (alternative == nullptr) {
            continue;
        }
        const FieldValue stated = stated_by(config, fields, *alternative);
        const auto values = claim_values(*claim);
        if (std::ranges::any_of(values, [&](const FieldValue& value) {
                return agree(stated, value, rule.at_most);
            })) {
            continue;
        }
        if (is_comparable(stated, values)) {
            found.contradictions.push_back(
                config.origin() + " says " + replaced((*alternative)->text, "@", "") + " " +
                text_of(stated) + ", the checkpoint's args say " + rule.name + " " +
                (rule.at_most ? "only " : "") + printable(*claim));
        } else {
            found.unread.push_back(rule.name + " is '" + printable(*claim, 60) + "'");
        }
    }
    return found;
}

void require_fit(const Recipe& recipe, const Dialect& dialect, const Config& config,
                 const std::map<std::string, std::string>& claims) {
    Scope scope(recipe, dialect);
    scope.config = config;
    scope.claims = &claims;
    const Symbols symbols(std::move(scope));
    std::string text;
    for (const RefuseRule& rule : dialect.refusals) {
        if (symbols.holds(rule.condition)) {
            text += "\n  its args say " + named_claims(rule.condition, claims) + ": " + rule.reason;
        }
    }
    if (!text.empty()) {
        throw Error(ErrorCode::unsupported,
                    "the recipe " + recipe.name + " does not fit this checkpoint:" + text,
                    "give a recipe for such checkpoints with --recipe "
                    "(docs/using/recipes.md, Refusals)");
    }
}

}  // namespace shardweld::models
