#include "config.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>

#include "core/json.hpp"
#include "core/names/config_fields.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::models {

namespace {

/// A real number that is whole as an integer (10000.0 is 10000), others
/// unchanged.
FieldValue integral(double value) {
    // Exactly the doubles below 2^63 in size fit; beyond 2^53 they are whole
    // anyway.
    constexpr double kLimit = 9223372036854775808.0;
    if (value >= -kLimit && value < kLimit &&
        static_cast<double>(static_cast<Index>(value)) == value) {
        return static_cast<Index>(value);
    }
    return value;
}

}  // namespace

FieldValue claim_value(const std::string& text) {
    if (text == "true" || text == "false") {
        return Index{text == "true"};
    }
    if (const auto whole = parsed_number<Index>(text)) {
        return *whole;
    }
    const auto real = parsed_number<double>(text);
    return real ? integral(*real) : FieldValue(text);
}

std::string text_of(const FieldValue& value) {
    if (const auto* const integer = std::get_if<Index>(&value)) {
        return std::to_string(*integer);
    }
    if (const auto* const real = std::get_if<double>(&value)) {
        return number_text(*real);
    }
    const auto* const text = std::get_if<std::string>(&value);
    return text != nullptr ? printable(*text) : "";
}

std::optional<double> real_of(const FieldValue& value) {
    if (const auto* const whole = std::get_if<Index>(&value)) {
        return static_cast<double>(*whole);
    }
    const auto* const real = std::get_if<double>(&value);
    return real == nullptr ? std::nullopt : std::optional(*real);
}

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostConfigBytes = 64'000'000;

/// "line 3, column 7" of a byte position.
std::string place_of(const std::string& text, std::size_t at) {
    std::size_t line = 1;
    std::size_t column = 1;
    for (std::size_t i = 0; i < at && i < text.size(); ++i) {
        line += text[i] == '\n' ? 1U : 0U;
        column = text[i] == '\n' ? 1 : column + 1;
    }
    return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

std::string fault_text(const std::string& text, const JsonFault& fault) {
    const std::string at = " at " + place_of(text, fault.at);
    switch (fault.kind) {
        case JsonFlaw::deep:
            return "is nested deeper than " + std::to_string(kDeepestJson) + " levels" + at;
        case JsonFlaw::wide:
            return "has too many fields" + at;
        case JsonFlaw::mark:
            return "begins with a byte order mark, which no loader's parser takes";
        case JsonFlaw::syntax:
            return "is not valid JSON" + at;
        case JsonFlaw::number:
            break;
    }
    return "is not valid JSON: " + fault.what;
}

/// Error(corrupt), beginning with `origin`, for what is not a JSON object, is
/// larger than 64 MB, nested deeper than 64 levels or has so many fields that
/// reading them would take long.
nlohmann::ordered_json parse_config_text(const std::string& text, const std::string& origin) {
    if (text.size() > kMostConfigBytes) {
        throw Error(ErrorCode::corrupt, origin + " is larger than 64 MB");
    }
    std::optional<JsonFault> fault;
    auto root = parse_json<ordered_json>(without_nonfinite(text), &fault);
    if (fault) {
        throw Error(ErrorCode::corrupt, origin + " " + fault_text(text, *fault),
                    fault->kind == JsonFlaw::mark ? kMarkHint : "");
    }
    if (!root.is_object()) {
        throw Error(ErrorCode::corrupt, origin + " is not a JSON object");
    }
    return root;
}

constexpr std::string_view kEach = ".*.";      // in a path: of each member of a list
constexpr std::size_t kMostMembers = 100'000;  // that numbers as names may promise

/// The value at a dotted path below `from`; nullptr when absent or null.
const ordered_json* below(const ordered_json& from, std::string_view path) {
    const ordered_json* at = &from;
    for (const std::string_view part : split(path, '.')) {
        if (!at->is_object()) {
            return nullptr;
        }
        const auto found = at->find(std::string(part));
        if (found == at->end()) {
            return nullptr;
        }
        at = &*found;
    }
    return at->is_null() ? nullptr : at;
}

/// The field's path from the root on, which may lead through the language
/// model's part; nullopt when it is absent or null.
std::optional<std::string> full_path(const ordered_json& root, std::string_view path) {
    std::string full(path);
    for (auto inner = kInnerConfigs.begin(); below(root, full) == nullptr; ++inner) {
        if (inner == kInnerConfigs.end()) {
            return std::nullopt;
        }
        full = std::string(*inner) + "." + std::string(path);
    }
    return full;
}

const ordered_json* look_up(const ordered_json& root, std::string_view path) {
    const auto full = full_path(root, path);
    return full ? below(root, *full) : nullptr;
}

/// The member at a dotted path, made with the objects around it where it is not
/// there.
ordered_json& member_at(ordered_json& root, std::string_view path) {
    ordered_json* at = &root;
    for (const std::string_view part : split(path, '.')) {
        if (!at->is_object()) {
            *at = ordered_json::object();
        }
        at = &(*at)[std::string(part)];
    }
    return *at;
}

/// The members of a list, or of an object whose names are numbers ("3"), by
/// these; null for gaps.
std::vector<const ordered_json*> members_of(const ordered_json& list) {
    std::vector<const ordered_json*> members;
    for (const auto& [name, value] : list.items()) {  // a list's names are its positions
        const auto at = parse_index(name);
        if (!at || *at < 0 || static_cast<std::size_t>(*at) >= kMostMembers) {
            continue;
        }
        members.resize(std::max(members.size(), static_cast<std::size_t>(*at) + 1));
        members[static_cast<std::size_t>(*at)] = &value;
    }
    return members;
}

FieldValue value_of(const ordered_json& json) {
    if (json.is_boolean()) {
        return Index{json.get<bool>() ? 1 : 0};
    }
    if (json.is_number_unsigned() &&
        json.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<Index>::max())) {
        return json.get<double>();
    }
    if (json.is_number_integer()) {
        return json.get<Index>();
    }
    if (json.is_number_float()) {
        return integral(json.get<double>());
    }
    if (!json.is_string()) {
        return {};
    }
    auto text = json.get<std::string>();
    const double value = nonfinite_value(text);
    return value != 0 ? FieldValue(value) : FieldValue(std::move(text));
}

}  // namespace

struct Config::State {
    ordered_json root = ordered_json::object();
    std::string original;
    std::string origin = "config.json";
    bool changed = false;
};

Config::Config() : state_(std::make_shared<State>()) {}

Config Config::parse(std::string text, std::string origin) {
    auto state = std::make_shared<State>();
    state->root = parse_config_text(text, origin);
    state->original = std::move(text);
    state->origin = std::move(origin);
    Config config;
    config.state_ = std::move(state);
    return config;
}

FieldValue Config::field(std::string_view path) const {
    const ordered_json* const found = look_up(state_->root, path);
    return found == nullptr ? FieldValue() : value_of(*found);
}

std::optional<Index> Config::integer(std::string_view path) const {
    const FieldValue value = field(path);
    const auto* integer = std::get_if<Index>(&value);
    return integer == nullptr ? std::nullopt : std::optional(*integer);
}

std::optional<std::string> Config::text(std::string_view path) const {
    const FieldValue value = field(path);
    const auto* text = std::get_if<std::string>(&value);
    return text == nullptr ? std::nullopt : std::optional(*text);
}

std::optional<std::vector<FieldValue>> Config::list(std::string_view path) const {
    const std::size_t each = path.find(kEach);
    const ordered_json* const found = look_up(state_->root, path.substr(0, each));
    std::vector<FieldValue> values;
    if (found != nullptr && each != std::string_view::npos) {
        for (const ordered_json* member : members_of(*found)) {
            const ordered_json* const value =
                member == nullptr ? nullptr : below(*member, path.substr(each + kEach.size()));
            values.push_back(value == nullptr ? FieldValue() : value_of(*value));
        }
        return values;
    }
    if (found != nullptr && found->is_string()) {
        for (const char letter : found->get<std::string>()) {
            values.emplace_back(std::string(1, letter));
        }
        return values;
    }
    if (found == nullptr || !found->is_array()) {
        return std::nullopt;
    }
    for (const ordered_json& element : *found) {
        values.push_back(value_of(element));
    }
    return values;
}

std::optional<std::vector<FieldValue>> Config::numbers(std::string_view path) const {
    auto values = list(path);
    if (const auto written = values ? text(path) : std::nullopt) {
        values->clear();
        for (const std::string_view part : split(*written, ',')) {
            if (const auto number = parse_index(trim(part))) {
                values->emplace_back(*number);
            }
        }
    }
    if (values) {
        std::erase_if(*values, [](const auto& one) { return !std::holds_alternative<Index>(one); });
        std::ranges::sort(*values);
    }
    return values;
}

std::optional<Index> Config::count(std::string_view path) const {
    const ordered_json* const found = look_up(state_->root, path);
    if (found != nullptr && found->is_string()) {
        return static_cast<Index>(found->get<std::string>().size());
    }
    const bool is_list = found != nullptr && (found->is_array() || found->is_object());
    return is_list ? std::optional(static_cast<Index>(found->size())) : std::nullopt;
}

std::vector<std::string> Config::keys(std::string_view path) const {
    const ordered_json* const found = look_up(state_->root, path);
    std::vector<std::string> names;
    if (found != nullptr && found->is_object()) {
        for (const auto& [name, value] : found->items()) {
            names.push_back(name);
        }
    }
    return names;
}

std::vector<std::string> Config::architectures() const {
    if (const auto name = text("architectures"); name && !name->empty()) {
        return {*name};
    }
    std::vector<std::string> names;
    for (const FieldValue& value : list("architectures").value_or(std::vector<FieldValue>())) {
        if (const auto* name = std::get_if<std::string>(&value)) {
            names.push_back(*name);
        }
    }
    return names;
}

// The classes verl's merger knows: verl/model_merger/base_model_merger.py, by
// the first name.
ModelClass Config::model_class() const {
    const auto names = architectures();
    if (names.empty()) {
        return ModelClass::other;
    }
    constexpr std::array<std::pair<const char*, ModelClass>, 5> kClasses = {
        {{"ForTokenClassification", ModelClass::token_classification},
         {"ForSequenceClassification", ModelClass::token_classification},
         {"ForCausalLM", ModelClass::causal_lm},
         {"ForConditionalGeneration", ModelClass::vision_to_text},
         {"Vision2Seq", ModelClass::vision_to_text}}};
    auto* const found =
        find_where(kClasses, [&](const auto& one) { return has_part(names.front(), one.first); });
    return found == nullptr ? ModelClass::other : found->second;
}

void Config::set(std::string_view path, const std::string& json_value) {
    const auto value = parse_known_json<ordered_json>(json_value);
    if (value.is_discarded()) {
        throw Error(ErrorCode::internal, "no JSON value for " + std::string(path));
    }
    const ordered_json* const found = look_up(state_->root, path);
    if (found != nullptr && *found == value && found->type() == value.type()) {
        return;
    }
    auto state = std::make_shared<State>(*state_);
    member_at(state->root, full_path(state->root, path).value_or(std::string(path))) = value;
    state->changed = true;
    state_ = std::move(state);
}

void Config::remove(std::string_view path) {
    const auto full = full_path(state_->root, path);
    if (!full) {
        return;
    }
    auto state = std::make_shared<State>(*state_);
    const std::size_t dot = full->rfind('.');
    const bool is_top = dot == std::string::npos;
    (is_top ? state->root : member_at(state->root, full->substr(0, dot)))
        .erase(is_top ? *full : full->substr(dot + 1));
    state->changed = true;
    state_ = std::move(state);
}

bool Config::changed() const {
    return state_->changed;
}

std::string Config::text_to_write() const {
    return state_->changed ? with_nonfinite(state_->root.dump(2)) + "\n" : state_->original;
}

const std::string& Config::origin() const {
    return state_->origin;
}

}  // namespace shardweld::models
