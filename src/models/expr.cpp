#include "expr.hpp"

#include <algorithm>
#include <utility>

#include "shardweld/error.hpp"

namespace shardweld::models {

ExprPtr make_expr(Op op, std::vector<ExprPtr> args) {
    Expr expr;
    expr.op = op;
    expr.args = std::move(args);
    for (const ExprPtr& arg : expr.args) {
        expr.depth = std::max(expr.depth, arg->depth + 1);
    }
    return std::make_shared<const Expr>(std::move(expr));
}

ExprPtr as_root(const ExprPtr& expr, std::string text, const std::string& origin) {
    Expr root = *expr;
    root.text = std::move(text);
    root.origin = origin;
    return std::make_shared<const Expr>(std::move(root));
}

ExprPtr conjunction_of(const ExprPtr& a, const ExprPtr& b) {
    if (a == nullptr || b == nullptr) {
        return a == nullptr ? b : a;
    }
    const ExprPtr joined = make_expr(Op::both, {a, b});
    if (joined->depth > kDeepestExpr) {
        throw Error(ErrorCode::usage, b->origin + ": too many guards on one line");
    }
    return as_root(joined, "(" + a->text + ") and (" + b->text + ")", b->origin);
}

void for_each_node(const ExprPtr& expr, const std::function<void(const Expr&)>& visit) {
    if (expr != nullptr) {
        visit(*expr);
        for (const ExprPtr& arg : expr->args) {
            for_each_node(arg, visit);
        }
    }
}

}  // namespace shardweld::models
