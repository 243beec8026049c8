#include "written_form.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>

#include "core/text.hpp"
#include "models/expr.hpp"
#include "shardweld/error.hpp"

namespace shardweld::models {

namespace {

using Type = MetadataField::Type;

/// The first of several places in which config.json may have a number.
std::optional<double> number_of(const Config& config, std::initializer_list<const char*> paths) {
    for (const char* const path : paths) {
        if (const auto found = real_of(config.field(path))) {
            return found;
        }
    }
    return std::nullopt;
}

std::optional<double> real(const KeyRule::Value& value, const Symbols& symbols,
                           const Config& config) {
    if (value.number) {
        return value.number;
    }
    if (value.expr->op == Op::field) {
        return real_of(config.field(value.expr->name));
    }
    const auto whole = symbols.try_expr(value.expr);
    return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

std::optional<Index> integer(const KeyRule& rule, const KeyRule::Value& value,
                             const Symbols& symbols) {
    const auto number = symbols.try_expr(value.expr);
    const Index most = rule.type == Type::boolean ? 1 : std::numeric_limits<std::uint32_t>::max();
    if (number && (*number < 0 || *number > most)) {
        throw Error(ErrorCode::mismatch,
                    value.expr->text + " is " + std::to_string(*number) +
                        " by config.json, which the key " + rule.name + " cannot hold",
                    "correct config.json")
            .set_detail(rule.origin);
    }
    return number;
}

/// Puts the value into the field, if there is one.
bool put_value(const KeyRule& rule, const KeyRule::Value& value, const Symbols& symbols,
               const Config& config, MetadataField& field) {
    if (rule.type == Type::text) {
        const auto text = value.literal ? value.literal : config.text(value.expr->name);
        field.texts.assign(text.has_value() ? 1 : 0, text.value_or(""));
        return text.has_value();
    }
    if (rule.type == Type::f32) {
        const auto number = real(value, symbols, config);
        const double product = number.value_or(0) * value.factor;
        field.reals.assign(number.has_value() ? 1 : 0, static_cast<float>(product));
        return number.has_value();
    }
    const auto number = integer(rule, value, symbols);
    field.integers.assign(number.has_value() ? 1 : 0, number.value_or(0));
    return number.has_value();
}

std::string full_name(const std::string& name, const Dialect& form) {
    const bool is_common = name.starts_with("general.") || name.starts_with("tokenizer.");
    return is_common ? name : form.architecture + "." + name;
}

/// What a rotary frequency is divided by.
float rope_factor(float frequency, float factor, float low, float high, float context) {
    const float wavelength = static_cast<float>(2 * std::numbers::pi) / frequency;
    if (wavelength < context / high) {
        return 1;
    }
    if (wavelength > context / low) {
        return factor;
    }
    const float smooth = (context / wavelength - low) / (high - low);
    return 1 / ((1 - smooth) / factor + smooth);
}

}  // namespace

const Dialect* form_for(const RecipeLibrary& library, const Recipe& recipe,
                        std::string_view format) {
    for (const Dialect* const dialect : library.dialects()) {
        if (dialect->written_format == format && contains(dialect->families, recipe.name)) {
            return dialect;
        }
    }
    return nullptr;
}

std::vector<std::string> families_with_form(const RecipeLibrary& library, std::string_view format) {
    std::set<std::string> families;
    for (const Dialect* const dialect : library.dialects()) {
        if (dialect->written_format == format) {
            families.insert(dialect->families.begin(), dialect->families.end());
        }
    }
    return {families.begin(), families.end()};
}

WrittenForm written_form(const Recipe& recipe, const Dialect& stored, const Dialect& form) {
    WrittenForm made{recipe, stored};
    made.recipe.hub = form.store;
    made.recipe.is_form = true;
    made.recipe.left_out = form.ignore;
    made.dialect.fuse.insert(form.fuse.begin(), form.fuse.end());
    made.dialect.defaults.insert(form.defaults.begin(), form.defaults.end());
    append_all(made.dialect.facts, form.facts);
    return made;
}

Metadata metadata_of(const Dialect& form, const Symbols& symbols, const Config& config) {
    Metadata metadata{MetadataField::text("general.architecture", form.architecture)};
    for (const KeyRule& rule : form.keys) {
        MetadataField field{full_name(rule.name, form), rule.type};
        if (!symbols.holds(rule.condition) ||
            find_item(metadata, field.key, &MetadataField::key) != nullptr) {
            continue;
        }
        if (std::ranges::any_of(rule.values, [&](const KeyRule::Value& value) {
                return put_value(rule, value, symbols, config, field);
            })) {
            metadata.push_back(std::move(field));
        } else if (!rule.optional) {
            const KeyRule::Value& last = rule.values.back();
            throw Error(ErrorCode::mismatch,
                        config.origin() + " has no value for " + field.key + ": " +
                            (last.expr ? last.expr->text : *last.literal),
                        "add the field that the trained model's config.json has")
                .set_detail(rule.origin);
        }
    }
    return metadata;
}

std::vector<float> rope_factors(const Symbols& symbols, const Config& config) {
    constexpr const char* kNew = "rope_parameters.";
    constexpr const char* kOld = "rope_scaling.";
    const auto number = [&](const std::string& name, double missing) {
        return static_cast<float>(
            number_of(config, {(kNew + name).c_str(), (kOld + name).c_str()}).value_or(missing));
    };
    auto type = config.text(kNew + std::string("rope_type"));
    type = type ? type : config.text(kOld + std::string("rope_type"));
    if (type != "llama3") {
        return {};
    }
    const double base =
        number_of(config, {"rope_parameters.rope_theta", "rope_theta"}).value_or(10'000);
    const Index size = symbols.value("d");
    std::vector<float> factors;
    for (Index i = 0; i < size; i += 2) {
        const float exponent = static_cast<float>(i) / static_cast<float>(size);
        const float frequency = 1.0F / std::pow(static_cast<float>(base), exponent);
        factors.push_back(rope_factor(frequency, number("factor", 8), number("low_freq_factor", 1),
                                      number("high_freq_factor", 4),
                                      number("original_max_position_embeddings", 8192)));
    }
    return factors;
}

}  // namespace shardweld::models
