#include <algorithm>
#include <array>

#include "shardweld/core/error.hpp"
#include "shardweld/formats/containers/pickle.hpp"

#include "pickle_machine.hpp"

namespace shardweld::formats {

namespace {

using Span = std::span<const PickleValue* const>;

// Objects may share their state, so that each look-up can go through all of a file again. Honest
// objects have dozens of attributes, training arguments hundreds.
constexpr std::size_t kMostAttributes = 4096;

bool is_sequence(const PickleValue& value) {
    return value.kind == PickleKind::tuple || value.kind == PickleKind::list ||
           value.kind == PickleKind::set;
}

Span parts_of(const PickleValue& value) {
    return {value.parts, value.size};
}

Span extra_of(const PickleValue& object) {
    const PickleValue* const extra = object.object->extra;
    return extra == nullptr ? Span{} : parts_of(*extra);
}

// Classes of which protocol 2 writes an instance as a call with one sequence.
bool is_sequence_class(std::string_view name) {
    constexpr std::array<std::string_view, 9> kNames = {
        "torch Size",       "builtins set",       "__builtin__ set",
        "builtins list",    "builtins frozenset", "__builtin__ frozenset",
        "__builtin__ list", "builtins tuple",     "__builtin__ tuple"};
    return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool is_mapping_class(std::string_view name) {
    return name == "collections OrderedDict" || name == "collections defaultdict" ||
           name == "collections Counter";
}

// Python 2 wrote OrderedDict([[key, value], ...]).
Span pair_list_of(const PickleValue& object) {
    const Span arguments = object.arguments();
    if (object.class_name() != "collections OrderedDict" || arguments.size() != 1 ||
        !is_sequence(*arguments.front())) {
        return {};
    }
    return parts_of(*arguments.front());
}

// Element `side` (0 key, 1 value) of pair `i`.
const PickleValue& pair_part(const PickleValue& mapping, std::size_t i, std::size_t side) {
    if (i >= mapping.pair_count()) {
        throw Error(ErrorCode::internal, "a pickled mapping has no such pair");
    }
    if (mapping.kind == PickleKind::dict) {
        return *parts_of(mapping)[2 * i + side];
    }
    if (const Span extra = extra_of(mapping); !extra.empty()) {
        return *extra[2 * i + side];
    }
    const PickleValue& pair = *pair_list_of(mapping)[i];
    if (!is_sequence(pair) || parts_of(pair).size() != 2) {
        throw Error(ErrorCode::corrupt, "an item of a pickled OrderedDict is no pair");
    }
    return *parts_of(pair)[side];
}

}  // namespace

std::string_view name_of(PickleKind kind) {
    constexpr std::array<std::string_view, 15> kNames = {
        "none",   "boolean", "integer",    "real",        "text",
        "bytes",  "tuple",   "list",       "dict",        "set",
        "global", "object",  "persistent", "big integer", "reduced object"};
    return kNames.at(static_cast<std::size_t>(kind));
}

std::string in_words(PickleKind kind) {
    if (kind == PickleKind::none) {
        return "none";
    }
    const bool has_vowel = kind == PickleKind::integer || kind == PickleKind::object;
    return (has_vowel ? "an " : "a ") + std::string(name_of(kind));
}

std::string_view PickleValue::class_name() const {
    if (kind == PickleKind::global) {
        return text();
    }
    const PickleValue* const called = callee();
    return called != nullptr && called->kind == PickleKind::global ? called->text()
                                                                   : std::string_view{};
}

bool PickleValue::has_pairs() const {
    return kind == PickleKind::object && object->extra != nullptr &&
           object->extra->kind == PickleKind::dict;
}

bool PickleValue::is_mapping() const {
    return kind == PickleKind::dict || has_pairs() ||
           (kind == PickleKind::object && is_mapping_class(class_name()));
}

std::size_t PickleValue::pair_count() const {
    if (kind == PickleKind::dict) {
        return parts_of(*this).size() / 2;
    }
    if (!is_mapping()) {
        return 0;
    }
    const Span extra = extra_of(*this);
    return extra.empty() ? pair_list_of(*this).size() : extra.size() / 2;
}

const PickleValue& PickleValue::key(std::size_t i) const {
    return pair_part(*this, i, 0);
}

const PickleValue& PickleValue::value(std::size_t i) const {
    return pair_part(*this, i, 1);
}

const PickleValue* PickleValue::find(std::string_view name) const {
    if (kind == PickleKind::dict) {
        for (std::size_t i = size; i > 1; i -= 2) {
            if (parts[i - 2]->is_text(name)) {
                return parts[i - 1];
            }
        }
        return nullptr;
    }
    for (std::size_t i = pair_count(); i > 0; --i) {
        if (key(i - 1).is_text(name)) {
            return &value(i - 1);
        }
    }
    return nullptr;
}

Span PickleValue::elements() const {
    if (is_sequence(*this)) {
        return parts_of(*this);
    }
    if (kind != PickleKind::object || has_pairs()) {
        return {};
    }
    if (const Span extra = extra_of(*this); !extra.empty()) {
        return extra;
    }
    const Span given = arguments();
    const bool wraps =
        given.size() == 1 && is_sequence(*given.front()) && is_sequence_class(class_name());
    return wraps ? parts_of(*given.front()) : Span{};
}

const PickleValue* PickleValue::callee() const {
    return kind == PickleKind::object ? object->callee : nullptr;
}

Span PickleValue::arguments() const {
    return kind == PickleKind::object ? parts_of(*object->arguments) : Span{};
}

const PickleValue* PickleValue::state() const {
    return kind == PickleKind::object ? object->state : nullptr;
}

const PickleValue* PickleValue::attribute(std::string_view name) const {
    const PickleValue* const built = state();
    return built == nullptr ? nullptr : built->find_attribute(name);
}

const PickleValue* PickleValue::find_attribute(std::string_view name) const {
    const bool is_pair = !is_mapping() && elements().size() == 2;
    const PickleValue* const alone = this;
    for (const PickleValue* const part : is_pair ? elements() : Span(&alone, 1)) {
        if (part->pair_count() > kMostAttributes) {
            throw Error(ErrorCode::corrupt, "a pickled object has " +
                                                std::to_string(part->pair_count()) + " attributes");
        }
        if (const PickleValue* const found = part->find(name); found != nullptr) {
            return found;
        }
    }
    return nullptr;
}

const PickleValue* PickleValue::persistent_id() const {
    return kind == PickleKind::persistent ? id : nullptr;
}

}  // namespace shardweld::formats
