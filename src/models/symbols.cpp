#include "symbols.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <unordered_map>
#include <utility>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "exact.hpp"
#include "expr.hpp"

namespace shardweld::models {

namespace {

constexpr std::size_t kDeepestDefinitions = 32;

/// "p = n / g".
std::string definition_text(const std::string& name, const Definition& definition) {
    return name + " = " + joined(definition.alternatives, " else ", [](const ExprPtr& alternative) {
               return alternative->text;
           });
}

}  // namespace

Scope::Scope(const Recipe& family, const Dialect& dialect)
    : recipe(family.name), definitions(family.symbols), givens(family.givens) {
    definitions.insert(dialect.defaults.begin(), dialect.defaults.end());
    for (const auto& [name, definition] : family.symbols) {
        if (definition.is_index) {
            captures.insert(name);
        }
    }
    for (const AliasRule& rule : dialect.aliases) {
        captures.insert(rule.from.captures.begin(), rule.from.captures.end());
    }
    for (const auto* lines : {&dialect.store, &family.hub, &family.module}) {
        for (const Line& line : *lines) {
            captures.insert(line.name.captures.begin(), line.name.captures.end());
        }
    }
}

/// Walks expressions. It keeps the outcome of each symbol and each whole expression that reads no
/// capture, and everything that it has looked up in config.json: planning asks for the same few
/// conditions of every stored tensor.
class Symbols::Evaluator {
  public:
    /// A number, or why there is none (a field is absent, nothing defines a name).
    struct Outcome {
        std::optional<Index> value;
        std::string why = {};
    };

    explicit Evaluator(Scope scope) : scope_(std::move(scope)) {}

    [[nodiscard]] const Scope& scope() const { return scope_; }

    [[nodiscard]] const Definition* definition_of(const std::string& name) const {
        return find_value(scope_.definitions, name);
    }

    Outcome value(const std::string& name, const Captures& captures) {
        begin();
        return symbol(name, captures);
    }

    Outcome value(const ExprPtr& expr, const Captures& captures) {
        begin();
        Root& root = roots_[expr.get()];
        root.expr = root.expr == nullptr ? expr : root.expr;
        return once(root.memo, [&] {
            return placed([&] { return evaluate(*expr, captures); },
                          [&] { return "'" + expr->text + "' (" + expr->origin + ")"; });
        });
    }

    /// Whether the value that was asked for last depends on captures.
    [[nodiscard]] bool varies() const { return varies_; }

  private:
    using Memo = std::optional<Outcome>;
    struct Symbol {
        bool is_capture = false;
        Memo memo;
    };
    /// A field, an element (which may be null) or a claim; or why there is none.
    struct Subject {
        const FieldValue* value = nullptr;
        std::string why = {};
    };

    /// Nothing is under way any more, also where an error ended the last call.
    void begin() {
        under_way_.clear();
        varies_ = false;
    }

    /// The outcome of `work`, kept unless it reads a capture.
    template <typename Work>
    Outcome once(Memo& memo, const Work& work) {
        if (memo) {
            return *memo;
        }
        const bool outer = std::exchange(varies_, false);
        Outcome outcome = work();
        if (!varies_) {
            memo = outcome;
        }
        varies_ = varies_ || outer;
        return outcome;
    }

    /// The outcome of `work`; a fault becomes an error that begins with where it is.
    template <typename Work, typename Label>
    static Outcome placed(const Work& work, const Label& label) {
        try {
            return work();
        } catch (const Fault& fault) {
            throw Error(fault.code(), label() + ": " + fault.what(), fault.hint());
        }
    }

    Outcome symbol(const std::string& name, const Captures& captures) {
        const auto [found, is_new] = symbols_.try_emplace(name);
        Symbol& known = found->second;
        known.is_capture = is_new ? scope_.captures.contains(name) : known.is_capture;
        const auto bound = known.is_capture ? captures.find(name) : captures.end();
        varies_ = varies_ || known.is_capture;
        return bound != captures.end() ? Outcome{bound->second}
                                       : once(known.memo, [&] { return defined(name, captures); });
    }

    Outcome defined(const std::string& name, const Captures& captures) {
        if (const auto known = scope_.known.find(name); known != scope_.known.end()) {
            return {known->second, known->second ? "" : name + " is not known yet"};
        }
        const Definition* const definition = definition_of(name);
        if (definition == nullptr) {
            return {{},
                    scope_.recipe.empty() ? "nothing defines '" + name + "'"
                                          : "a " + scope_.recipe + " model has no '" + name + "'"};
        }
        const bool is_circle = contains(under_way_, name);
        if (is_circle || under_way_.size() == kDeepestDefinitions) {
            throw Error(ErrorCode::usage,
                        definition->origin + ": " + definition_text(name, *definition) +
                            (is_circle ? " is defined by itself"
                                       : " is based on more than 32 other definitions"));
        }
        under_way_.push_back(name);
        Outcome outcome = placed([&] { return first_of(definition->alternatives, captures); },
                                 [&] { return definition_text(name, *definition); });
        under_way_.pop_back();
        return outcome;
    }

    Outcome first_of(const std::vector<ExprPtr>& alternatives, const Captures& captures) {
        std::string all;
        for (const ExprPtr& alternative : alternatives) {
            Outcome outcome = evaluate(*alternative, captures);
            if (outcome.value) {
                return outcome;
            }
            all += (all.empty() || outcome.why.empty() ? "" : "; ") + outcome.why;
        }
        return {{}, all};
    }

    Outcome evaluate(const Expr& expr, const Captures& captures) {
        switch (expr.op) {
            case Op::number:
                return {expr.number};
            case Op::name:
                return symbol(expr.name, captures);
            case Op::field:
            case Op::element:
            case Op::claim:
                return integer(expr, captures);
            case Op::count: {
                const auto count = scope_.config ? scope_.config->count(expr.name) : std::nullopt;
                return count ? Outcome{count} : absent("list " + expr.name);
            }
            case Op::known_field:
                return known_field(expr.name);
            case Op::known_claim:
                return {Index{scope_.claims != nullptr && scope_.claims->contains(expr.name)}};
            case Op::is_text:
            case Op::is_not_text:
                return text_relation(expr, captures);
            case Op::has:
                return has(expr, captures);
            case Op::has_logical:
                return {{}, "'has " + expr.name + "' has a meaning for what is written only"};
            case Op::rebound:
                return rebound(expr, captures);
            case Op::floor:
                return whole_part(expr, captures);
            case Op::not_true:
            case Op::both:
            case Op::either:
                return logic(expr, captures);
            case Op::otherwise:
                return first_of(expr.args, captures);
            default:
                return operation(expr, captures);
        }
    }

    Outcome rebound(const Expr& expr, const Captures& captures) {
        Captures others = captures;
        others.erase(expr.name);
        if (expr.number >= 0) {
            others[expr.name] = expr.number;
        }
        return evaluate(*expr.args[0], others);
    }

    Outcome operation(const Expr& expr, const Captures& captures) {
        Outcome a = evaluate(*expr.args[0], captures);
        if (!a.value) {
            return a;
        }
        Outcome b = expr.args.size() == 1 ? Outcome{0} : evaluate(*expr.args[1], captures);
        return b.value ? Outcome{operated(expr.op, *a.value, *b.value)} : b;
    }

    Outcome logic(const Expr& expr, const Captures& captures) {
        Outcome left = evaluate(*expr.args[0], captures);
        if (!left.value) {
            return left;
        }
        const bool is_true = *left.value != 0;
        if (expr.op == Op::not_true) {
            return {Index{!is_true}};
        }
        if (is_true == (expr.op == Op::either)) {
            return {Index{is_true}};
        }
        Outcome right = evaluate(*expr.args[1], captures);
        return right.value ? Outcome{Index{*right.value != 0}} : right;
    }

    [[nodiscard]] std::string config_name() const {
        return scope_.config ? scope_.config->origin() : "config.json";
    }

    /// "config.json's hidden_size", for messages.
    [[nodiscard]] std::string name_of(const Expr& subject) const {
        return (subject.op == Op::claim ? "the checkpoint's " : config_name() + "'s ") +
               subject.name;
    }

    /// What to do where no number is stated.
    static const char* hint_of(const Expr& subject) {
        return subject.op == Op::claim
                   ? ""
                   : "write a number there, as the trained model's config.json has it";
    }

    [[nodiscard]] Outcome absent(const std::string& what) const {
        return scope_.absent_is_zero ? Outcome{0} : Outcome{{}, config_name() + " has no " + what};
    }

    [[nodiscard]] bool counts_as_zero(const Expr& subject) const {
        return subject.op == Op::claim ? scope_.claims != nullptr : scope_.absent_is_zero;
    }

    [[nodiscard]] Outcome known_field(const std::string& path) const {
        if (!scope_.config) {
            return {{}, "config.json is not known yet"};
        }
        return {Index{scope_.config->count(path) || !is_null(scope_.config->field(path))}};
    }

    /// What config.json or the checkpoint states; null if nothing.
    const FieldValue& stated(const Expr& expr) {
        const auto [known, is_new] = values_.try_emplace(&expr);
        if (is_new && expr.op == Op::field && scope_.config) {
            known->second = scope_.config->field(expr.name);
        } else if (is_new && expr.op == Op::claim && scope_.claims != nullptr &&
                   scope_.claims->contains(expr.name)) {
            known->second = claim_value(scope_.claims->at(expr.name));
        }
        return known->second;
    }

    /// The list that an element or `has` looks into; nullopt where there is none.
    const std::optional<std::vector<FieldValue>>& list_of(const Expr& expr) {
        const auto [known, is_new] = lists_.try_emplace(&expr);
        if (is_new && scope_.config) {
            known->second = expr.op == Op::has ? scope_.config->numbers(expr.args[0]->name)
                                               : scope_.config->list(expr.name);
        }
        return known->second;
    }

    Subject subject(const Expr& expr, const Captures& captures) {
        if (expr.op == Op::element) {
            return element(expr, captures);
        }
        const FieldValue& value = stated(expr);
        if (!is_null(value)) {
            return {&value};
        }
        if (expr.op == Op::claim) {
            return {nullptr, "the checkpoint states no " + expr.name};
        }
        return {nullptr, scope_.config && scope_.config->count(expr.name)
                             ? name_of(expr) + " is a list or an object"
                             : config_name() + " has no " + expr.name};
    }

    Subject element(const Expr& expr, const Captures& captures) {
        const auto& list = list_of(expr);
        if (!list) {
            return {nullptr, config_name() + " has no list " + expr.name};
        }
        const Outcome at = evaluate(*expr.args[0], captures);
        if (!at.value) {
            return {nullptr, at.why};
        }
        if (*at.value < 0 || *at.value >= static_cast<Index>(list->size())) {
            return {nullptr, name_of(expr) + " has no element " + std::to_string(*at.value)};
        }
        return {&(*list)[static_cast<std::size_t>(*at.value)]};
    }

    /// The subject, neither null nor absent where it could count as 0.
    Subject number(const Expr& expr, const Captures& captures) {
        static const FieldValue zero = Index{0};
        Subject found = subject(expr, captures);
        if (found.value == nullptr && counts_as_zero(expr)) {
            return {&zero};
        }
        if (found.value != nullptr && is_null(*found.value)) {
            return {nullptr, name_of(expr) + " has an element that is null"};
        }
        return found;
    }

    Outcome integer(const Expr& expr, const Captures& captures) {
        Subject found = number(expr, captures);
        if (found.value == nullptr) {
            return {{}, std::move(found.why)};
        }
        if (const auto* const whole = std::get_if<Index>(found.value)) {
            return {*whole};
        }
        const char* const of = expr.op == Op::element ? "an element of " : "";
        return {integer_of(*found.value, of + name_of(expr), hint_of(expr))};
    }

    Outcome text_relation(const Expr& expr, const Captures& captures) {
        Subject found = subject(*expr.args[0], captures);
        if (found.value == nullptr && !counts_as_zero(*expr.args[0])) {
            return {{}, std::move(found.why)};
        }
        const auto* const text =
            found.value != nullptr ? std::get_if<std::string>(found.value) : nullptr;
        const bool is_one = text != nullptr && contains(expr.texts, *text);
        return {Index{is_one == (expr.op == Op::is_text)}};
    }

    Outcome has(const Expr& expr, const Captures& captures) {
        const auto& list = list_of(expr);
        if (!list) {
            return absent("list " + expr.args[0]->name);
        }
        Outcome wanted = evaluate(*expr.args[1], captures);
        return wanted.value
                   ? Outcome{Index{std::ranges::binary_search(*list, FieldValue(*wanted.value))}}
                   : wanted;
    }

    /// In doubles and from left to right, as the frameworks' Python computes such sizes.
    Outcome whole_part(const Expr& expr, const Captures& captures) {
        const Expr& field = *expr.args[0];
        Subject found = number(field, captures);
        if (found.value == nullptr) {
            return {{}, std::move(found.why)};
        }
        const auto* const fraction = std::get_if<double>(found.value);
        double real =
            fraction != nullptr
                ? *fraction
                : static_cast<double>(integer_of(*found.value, name_of(field), hint_of(field)));
        for (const std::size_t i : indices(expr.steps)) {
            Outcome factor = evaluate(*expr.args[i + 1], captures);
            if (!factor.value) {
                return factor;
            }
            const auto number = static_cast<double>(*factor.value);
            real = expr.steps[i] == Op::multiply ? real * number : real / number;
        }
        constexpr double kLimit = 9223372036854775808.0;
        if (!(real >= 0 && real < kLimit)) {
            throw Fault(name_of(field) + " makes " + number_text(real) + ", expected a size");
        }
        return {static_cast<Index>(real)};
    }

    struct Root {
        ExprPtr expr;  ///< kept alive: its address, and those of its parts, are keys
        Memo memo;
    };

    Scope scope_;
    std::unordered_map<std::string, Symbol> symbols_;
    std::unordered_map<const Expr*, Root> roots_;
    std::unordered_map<const Expr*, FieldValue> values_;
    std::unordered_map<const Expr*, std::optional<std::vector<FieldValue>>> lists_;
    std::vector<std::string> under_way_;
    bool varies_ = false;  ///< a capture was read
};

Symbols::Symbols(Scope scope) : evaluator_(std::make_shared<Evaluator>(std::move(scope))) {}

Symbols::Symbols(const Recipe& recipe, const Dialect& dialect, const Config& config,
                 const std::map<std::string, Index>& facts,
                 const std::map<std::string, Index>& given) {
    Scope scope(recipe, dialect);
    scope.config = config;
    for (const std::string& fact : dialect.facts) {
        if (const auto found = facts.find(fact); found != facts.end()) {
            scope.known.insert(*found);
        }
    }
    for (const std::string& name : recipe.givens) {
        scope.known[name] = given.contains(name) ? given.at(name) : 0;
    }
    evaluator_ = std::make_shared<Evaluator>(std::move(scope));
}

Index Symbols::value(const std::string& name, const Captures& captures) const {
    try {
        const auto outcome = evaluator_->value(name, captures);
        if (outcome.value) {
            return *outcome.value;
        }
        const Definition* const definition = evaluator_->definition_of(name);
        throw Error(ErrorCode::mismatch,
                    (definition == nullptr ? name : definition_text(name, *definition)) +
                        " has no value: " + outcome.why);
    } catch (Error& error) {
        const Definition* const definition = evaluator_->definition_of(name);
        error.set_detail(definition == nullptr ? "" : definition->origin);
        throw;
    }
}

std::optional<Index> Symbols::try_value(const std::string& name, const Captures& captures) const {
    return evaluator_->value(name, captures).value;
}

bool Symbols::holds(const ExprPtr& condition, const Captures& captures) const {
    if (condition == nullptr) {
        return true;
    }
    const auto outcome = evaluator_->value(condition, captures);
    if (!outcome.value) {
        throw Error(ErrorCode::mismatch,
                    "'" + condition->text + "' cannot be decided: " + outcome.why)
            .set_detail(condition->origin);
    }
    return *outcome.value != 0;
}

std::optional<Index> Symbols::try_expr(const ExprPtr& expr, const Captures& captures) const {
    return evaluator_->value(expr, captures).value;
}

std::optional<Index> Symbols::constant_of(const ExprPtr& expr) const {
    try {
        const auto outcome = evaluator_->value(expr, {});
        return evaluator_->varies() ? std::nullopt : outcome.value;
    } catch (const Error&) {
        return std::nullopt;
    }
}

namespace {

/// Adds the fields and names that an expression rests on, through all definitions.
void find_grounds(const Scope& scope, const ExprPtr& expr, std::set<std::string>& fields,
                  std::set<std::string>& names) {
    constexpr std::array kOfFields = {Op::field, Op::element, Op::count, Op::known_field};
    for_each_node(expr, [&](const Expr& node) {
        if (contains(kOfFields, node.op)) {
            fields.insert(node.name);
        }
        if (node.op != Op::name || !names.insert(node.name).second) {
            return;
        }
        if (auto* const at = find_value(scope.definitions, node.name)) {
            for (const ExprPtr& alternative : at->alternatives) {
                find_grounds(scope, alternative, fields, names);
            }
        }
    });
}

}  // namespace

std::set<std::string> Symbols::deciding_fields(const ExprPtr& condition) const {
    const Scope& scope = evaluator_->scope();
    std::set<std::string> fields;
    std::set<std::string> names;
    find_grounds(scope, condition, fields, names);
    const bool is_given = std::ranges::any_of(
        scope.givens, [&](const std::string& name) { return names.contains(name); });
    return is_given ? std::set<std::string>() : fields;
}

SymbolFields Symbols::fields_of(const std::string& symbol) const {
    SymbolFields found;
    std::set<std::string> seen;
    const std::function<void(const std::string&)> add = [&](const std::string& name) {
        const Definition* const definition = evaluator_->definition_of(name);
        if (definition == nullptr || evaluator_->scope().known.contains(name) ||
            !seen.insert(name).second) {
            return;
        }
        const std::vector<ExprPtr>& all = definition->alternatives;
        const auto in_force =
            std::ranges::find_if(all, [&](const ExprPtr& one) { return is_in_force(one); });
        for (auto passed = all.begin(); passed != in_force; ++passed) {
            if ((*passed)->op == Op::field) {
                found.absent.insert((*passed)->name);
            }
        }
        if (in_force == all.end()) {
            return;
        }
        for_each_node(*in_force, [&](const Expr& node) {
            if (node.op == Op::field) {
                found.stated.insert(node.name);
            } else if (node.op == Op::name) {
                add(node.name);
            }
        });
    };
    add(symbol);
    return found;
}

/// One that has no value because a field is absent leaves it to the next.
bool Symbols::is_in_force(const ExprPtr& alternative) const {
    try {
        return evaluator_->value(alternative, {}).value.has_value();
    } catch (const Error&) {
        return true;  // a quotient that is not whole, say
    }
}

std::optional<Index> Symbols::number_in(const std::string& field) const {
    const Scope& scope = evaluator_->scope();
    return scope.config ? scope.config->integer(field) : std::nullopt;
}

std::string Symbols::stated_in(const std::string& field) const {
    const std::optional<Config>& config = evaluator_->scope().config;
    const FieldValue value = config ? config->field(field) : FieldValue();
    if (const auto* const text = std::get_if<std::string>(&value)) {
        return "is the text \"" + *text + "\"";
    }
    return !is_null(value)                  ? text_of(value)
           : config && config->count(field) ? "is a list or an object"
                                            : "is not there";
}

Symbols Symbols::with_field(const std::string& field, Index number) const {
    Scope scope = evaluator_->scope();
    scope.config->set(field, std::to_string(number));
    return Symbols(std::move(scope));
}

bool Symbols::defines(const std::string& name) const {
    return evaluator_->scope().known.contains(name) || evaluator_->definition_of(name) != nullptr;
}

bool Symbols::is_index(const std::string& name) const {
    const Definition* const definition = evaluator_->definition_of(name);
    return definition != nullptr && definition->is_index;
}

}  // namespace shardweld::models
