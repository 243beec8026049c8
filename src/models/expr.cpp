#include "expr.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/lists.hpp"
#include "shardweld/error.hpp"

namespace shardweld::models {

namespace {

constexpr std::array<std::pair<std::string_view, Op>, 6> kComparisons = {{
    {"=", Op::equal},
    {"!=", Op::not_equal},
    {"<", Op::less},
    {"<=", Op::less_equal},
    {">", Op::greater},
    {">=", Op::greater_equal},
}};

bool is_keyword(const std::string& name) {
    constexpr std::array<std::string_view, 15> kKeywords = {
        "and", "or",       "not",      "else", "has", "count", "known", "floor",
        "if",  "optional", "together", "keep", "add", "drop",  "repeat"};
    return contains(kKeywords, name);
}

ExprPtr leaf(Op op, std::string name, Index number = 0) {
    Expr expr;
    expr.op = op;
    expr.name = std::move(name);
    expr.number = number;
    return std::make_shared<const Expr>(std::move(expr));
}

class ExprParser {
  public:
    explicit ExprParser(Scanner& in) : in_(in) {}

    ExprPtr either() {
        return grouped(TokenKind::name, {{"or", Op::either}}, [&] {
            return grouped(TokenKind::name, {{"and", Op::both}}, [&] { return negation(); });
        });
    }

    ExprPtr sum() {
        return grouped(TokenKind::mark, {{"+", Op::add}, {"-", Op::subtract}}, [&] {
            return grouped(TokenKind::mark,
                           {{"*", Op::multiply}, {"/", Op::divide}, {"%", Op::remainder}},
                           [&] { return atom(); });
        });
    }

  private:
    /// What `parse` makes one level deeper. Where it throws, the parser is not used again.
    template <typename Parse>
    ExprPtr deeper(const Parse& parse) {
        if (++depth_ > kDeepestExpr) {
            in_.fail(in_.peek().column,
                     "nested deeper than " + std::to_string(kDeepestExpr) + " levels");
        }
        ExprPtr made = parse();
        --depth_;
        return made;
    }

    ExprPtr make(Op op, std::vector<ExprPtr> args) {
        ExprPtr made = make_expr(op, std::move(args));
        if (made->depth > kDeepestExpr) {
            in_.fail(in_.peek().column, "an expression of more than 64 terms in a row");
        }
        return made;
    }

    /// Operands with operators of one level between them, from the left.
    template <typename Operand>
    ExprPtr grouped(TokenKind kind,
                    std::initializer_list<std::pair<std::string_view, Op>> operators,
                    const Operand& operand) {
        ExprPtr left = operand();
        for (;;) {
            const Token next = in_.peek();
            auto* const found =
                find_where(operators, [&](const auto& one) { return next.is(kind, one.first); });
            if (found == nullptr) {
                return left;
            }
            in_.take();
            left = make(found->second, {left, operand()});
        }
    }

    ExprPtr negation() {
        if (!in_.accept_name("not")) {
            return relation();
        }
        return deeper([&] { return make(Op::not_true, {negation()}); });
    }

    ExprPtr relation() {
        if (in_.accept_name("has")) {
            return leaf(Op::has_logical, in_.name("a logical tensor of a layer"));
        }
        ExprPtr left = sum();
        if (in_.accept_name("has")) {
            if (left->op != Op::field) {
                in_.fail(in_.peek().column, "only a list '@field' can be on the left of 'has'");
            }
            return make(Op::has, {left, sum()});
        }
        const Token mark = in_.peek();
        for (const auto& [text, op] : kComparisons) {
            if (mark.is(TokenKind::mark, text)) {
                in_.take();
                // Two returns: GCC 12 destroys a list inside ?: that an exception left unfinished.
                if (in_.peek().kind == TokenKind::text) {
                    return text_relation(std::move(left), op, mark);
                }
                return make(op, {left, sum()});
            }
        }
        return left;
    }

    ExprPtr text_relation(ExprPtr left, Op op, const Token& mark) {
        const bool can_be_text =
            left->op == Op::field || left->op == Op::element || left->op == Op::claim;
        if (!can_be_text || (op != Op::equal && op != Op::not_equal)) {
            in_.fail(mark.column,
                     "only '@field' and '$name' can be compared with a text, by '=' or '!='");
        }
        Expr expr;
        expr.op = op == Op::equal ? Op::is_text : Op::is_not_text;
        expr.args = {std::move(left)};
        do {
            if (in_.peek().kind != TokenKind::text) {
                in_.fail_expected("a text in quotes");
            }
            expr.texts.push_back(in_.take().text);
        } while (in_.accept_mark("|"));
        return std::make_shared<const Expr>(std::move(expr));
    }

    ExprPtr atom() {
        const Token token = in_.peek();
        if (token.is(TokenKind::mark, "(")) {
            return deeper([&] {
                in_.take();
                ExprPtr inner = either();
                in_.expect_mark(")");
                return inner;
            });
        }
        if (token.is(TokenKind::mark, "-")) {
            return deeper([&] {
                in_.take();
                return make(Op::negate, {atom()});
            });
        }
        switch (token.kind) {
            case TokenKind::number:
                in_.take();
                return leaf(Op::number, "", token.number);
            case TokenKind::field:
                in_.take();
                return field(token.text);
            case TokenKind::claim:
                in_.take();
                return leaf(Op::claim, token.text);
            case TokenKind::name:
                return named();
            case TokenKind::end:
            case TokenKind::text:
            case TokenKind::mark:
                break;
        }
        in_.fail_expected("a number, a name, '@field' or '('");
    }

    ExprPtr field(const std::string& path) {
        if (!in_.accept_mark("[")) {
            return leaf(Op::field, path);
        }
        return deeper([&] {
            Expr expr;
            expr.op = Op::element;
            expr.name = path;
            expr.args = {sum()};
            in_.expect_mark("]");
            return std::make_shared<const Expr>(std::move(expr));
        });
    }

    ExprPtr named() {
        if (in_.accept_name("count")) {
            in_.expect_mark("(");
            const std::string path = path_of(TokenKind::field);
            in_.expect_mark(")");
            return leaf(Op::count, path);
        }
        if (in_.accept_name("floor")) {
            return deeper([&] { return floor(); });
        }
        if (in_.accept_name("known")) {
            return in_.peek().kind == TokenKind::claim
                       ? leaf(Op::known_claim, path_of(TokenKind::claim))
                       : leaf(Op::known_field, path_of(TokenKind::field));
        }
        if (is_keyword(in_.peek().text)) {
            in_.fail_expected("a number, a name, '@field' or '('");
        }
        return leaf(Op::name, in_.take().text);
    }

    ExprPtr floor() {
        in_.expect_mark("(");
        std::vector<ExprPtr> args{field(path_of(TokenKind::field))};
        std::vector<Op> steps;
        while (!in_.accept_mark(")")) {
            if (args.size() == kDeepestExpr) {
                in_.fail(in_.peek().column, "an expression of more than 64 terms in a row");
            }
            steps.push_back(in_.accept_mark("*") ? Op::multiply : Op::divide);
            if (steps.back() == Op::divide) {
                in_.expect_mark("/");
            }
            args.push_back(atom());
        }
        Expr expr = *make_expr(Op::floor, std::move(args));
        expr.steps = std::move(steps);
        return std::make_shared<const Expr>(std::move(expr));
    }

    std::string path_of(TokenKind kind) {
        if (in_.peek().kind != kind) {
            in_.fail_expected("'@field'");
        }
        return in_.take().text;
    }

    Scanner& in_;
    int depth_ = 0;
};

}  // namespace

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

namespace {

/// What `parse` makes of the text, with this text and its place.
template <typename Parse>
ExprPtr rooted(Scanner& in, const Parse& parse) {
    const std::size_t begin = in.position();
    const ExprPtr expr = parse();
    return as_root(expr, in.between(begin, in.position()), in.origin());
}

}  // namespace

ExprPtr parse_expr(Scanner& in) {
    return rooted(in, [&] { return ExprParser(in).either(); });
}

std::vector<ExprPtr> parse_alternatives(Scanner& in) {
    std::vector<ExprPtr> alternatives{parse_expr(in)};
    while (in.accept_name("else")) {
        alternatives.push_back(parse_expr(in));
    }
    return alternatives;
}

ExprPtr parse_sum(Scanner& in) {
    return rooted(in, [&] { return ExprParser(in).sum(); });
}

ExprPtr parse_sum_else(Scanner& in) {
    return rooted(in, [&] {
        std::vector<ExprPtr> alternatives;
        do {
            alternatives.push_back(parse_sum(in));
        } while (in.accept_name("else"));
        return make_expr(Op::otherwise, std::move(alternatives));
    });
}

ExprPtr number(Index value) {
    Expr expr;
    expr.number = value;
    expr.text = std::to_string(value);
    return std::make_shared<const Expr>(std::move(expr));
}

ExprPtr name_of(const std::string& name) {
    Expr expr;
    expr.op = Op::name;
    expr.name = name;
    return std::make_shared<const Expr>(std::move(expr));
}

}  // namespace shardweld::models
