// An expression or condition of a recipe as a tree, and its parser.
//
//   expr  := or {'else' or}            only where the statement says so
//   or    := and {'or' and}            and := not {'and' not}         not := 'not' not | rel
//   rel   := 'has' NAME | sum [('='|'!='|'<'|'<='|'>'|'>=') sum] | sum ('='|'!=') TEXT {'|' TEXT} |
//   @list 'has' sum   := prod {('+'|'-') prod}     prod := atom {('*'|'/'|'%') atom} atom  := INT |
//   '-' atom | NAME | value | $name | 'count' '(' @path ')'
//          | 'floor' '(' value {('*'|'/') atom} ')' | 'known' (@path | $name) | '(' or ')'
//   value := @path | @path '[' sum ']'
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "recipe.hpp"
#include "scanner.hpp"

namespace shardweld::models {

/// The operations of an expression.
enum class Op {
    number,
    name,
    field,
    element,
    count,
    floor,
    claim,
    known_field,
    known_claim,
    negate,
    add,
    subtract,
    multiply,
    divide,
    remainder,
    equal,
    not_equal,
    less,
    less_equal,
    greater,
    greater_equal,
    is_text,
    is_not_text,
    has,
    has_logical,  ///< in rules of what is written: the layer has this logical tensor
    rebound,      ///< args[0] where the capture `name` is `number`, below 0 none; never parsed
    not_true,
    both,
    either,
    otherwise,
};

/// A node of an expression. Never changed once made, so nodes are shared.
struct Expr {
    Op op = Op::number;
    Index number = 0;
    std::string name;                ///< symbol, field path or claim
    std::vector<std::string> texts;  ///< what is_text compares with
    std::vector<ExprPtr> args;
    std::vector<Op> steps;  ///< floor: what each argument behind the first does
    int depth = 1;
    std::string text;    ///< as written; roots only
    std::string origin;  ///< where; roots only
};

/// Parses a condition or expression; Error(usage) naming the column. At most 64 deep.
ExprPtr parse_expr(Scanner& in);
/// A sum without comparison.
ExprPtr parse_sum(Scanner& in);
/// Parses a sum with `else`, as in `claim SUM = NAME`.
ExprPtr parse_sum_else(Scanner& in);
/// `expr {else expr}`, each on its own.
std::vector<ExprPtr> parse_alternatives(Scanner& in);

/// Levels of brackets, and of the tree (1+1+1+... leans to the left: as deep as it is long).
inline constexpr int kDeepestExpr = 64;

/// An operation over `args`.
ExprPtr make_expr(Op op, std::vector<ExprPtr> args);
/// A copy that says how it is written and where.
ExprPtr as_root(const ExprPtr& expr, std::string text, const std::string& origin);
ExprPtr number(Index value);
ExprPtr name_of(const std::string& name);
/// a and b; either may be null.
ExprPtr conjunction_of(const ExprPtr& a, const ExprPtr& b);

/// Calls visit for every node.
void for_each_node(const ExprPtr& expr, const std::function<void(const Expr&)>& visit);

}  // namespace shardweld::models
