// Values as their readers see them: what Python's containers and objects of different protocols and
// versions have in common.
#include <array>

#include "core/lists.hpp"

#include "pickle.hpp"

namespace shardweld::formats {

namespace {

// Objects may share their state, so that each look-up can go through all of a file again. Honest
// objects have dozens of attributes, training arguments hundreds.
constexpr std::size_t kMostAttributes = 4096;

bool is_sequence(const PickleValue& value) {
    return value.is_list() || value.kind == PickleKind::set;
}

PickleValues parts_of(const PickleValue& value) {
    return {value.parts, value.size};
}

// What was appended to (`kind`: list) or set on (dict) an object.
PickleValues extra_of(const PickleValue& value, PickleKind kind) {
    const PickleValue* const extra =
        value.kind == PickleKind::object ? value.object->extra : nullptr;
    return extra != nullptr && extra->kind == kind ? parts_of(*extra) : PickleValues{};
}

// Keys and values in turn.
PickleValues pairs_of(const PickleValue& value) {
    return value.kind == PickleKind::dict ? parts_of(value) : extra_of(value, PickleKind::dict);
}

// Classes of which protocol 2 writes an instance as a call with one sequence.
bool is_sequence_class(std::string_view name) {
    constexpr std::array<std::string_view, 9> kNames = {
        "torch Size",       "builtins set",       "__builtin__ set",
        "builtins list",    "builtins frozenset", "__builtin__ frozenset",
        "__builtin__ list", "builtins tuple",     "__builtin__ tuple"};
    return contains(kNames, name);
}

// The one sequence that a call was given.
PickleValues sequence_given(const PickleValue& object) {
    const PickleValues given = object.arguments();
    return given.size() == 1 && is_sequence(*given.front()) ? parts_of(*given.front())
                                                            : PickleValues{};
}

// Python 2 wrote OrderedDict([[key, value], ...]).
PickleValues pair_list_of(const PickleValue& value) {
    const bool is_old = pairs_of(value).empty() && value.class_name() == "collections OrderedDict";
    return is_old ? sequence_given(value) : PickleValues{};
}

// Element `side` (0 key, 1 value) of pair `i`.
const PickleValue& pair_part(const PickleValue& mapping, std::size_t i, std::size_t side) {
    if (const PickleValues pairs = pairs_of(mapping); i < pairs.size() / 2) {
        return *pairs[2 * i + side];
    }
    const PickleValues list = pair_list_of(mapping);
    if (i >= list.size()) {
        throw Error(ErrorCode::internal, "a pickled mapping has no such pair");
    }
    if (!is_sequence(*list[i]) || list[i]->size != 2) {
        throw Error(ErrorCode::corrupt, "an item of a pickled OrderedDict is not a pair");
    }
    return *parts_of(*list[i])[side];
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
    const bool has_vowel = kind == PickleKind::integer || kind == PickleKind::object;
    const std::string article = has_vowel ? "an " : "a ";
    return (kind == PickleKind::none ? "" : article) + std::string(name_of(kind));
}

std::string_view PickleValue::class_name() const {
    const PickleValue* const named = kind == PickleKind::object ? object->callee : this;
    return named->kind == PickleKind::global ? named->text() : std::string_view{};
}

bool PickleValue::is_mapping() const {
    const std::string_view name = kind == PickleKind::object ? class_name() : "";
    return kind == PickleKind::dict || !pairs_of(*this).empty() ||
           name == "collections OrderedDict" || name == "collections defaultdict" ||
           name == "collections Counter";
}

std::size_t PickleValue::pair_count() const {
    const std::size_t count = pairs_of(*this).size() / 2;
    return count != 0 ? count : pair_list_of(*this).size();
}

const PickleValue& PickleValue::key(std::size_t i) const {
    return pair_part(*this, i, 0);
}

const PickleValue& PickleValue::value(std::size_t i) const {
    return pair_part(*this, i, 1);
}

const PickleValue* PickleValue::find(std::string_view name) const {
    const PickleValues pairs = pairs_of(*this);
    for (std::size_t i = pairs.size(); i > 1; i -= 2) {
        if (pairs[i - 2]->is_text(name)) {
            return pairs[i - 1];
        }
    }
    for (std::size_t i = pair_list_of(*this).size(); i > 0; --i) {
        if (key(i - 1).is_text(name)) {
            return &value(i - 1);
        }
    }
    return nullptr;
}

PickleValues PickleValue::elements() const {
    if (is_sequence(*this)) {
        return parts_of(*this);
    }
    if (const PickleValues extra = extra_of(*this, PickleKind::list); !extra.empty()) {
        return extra;
    }
    const bool wraps = pairs_of(*this).empty() && is_sequence_class(class_name());
    return wraps ? sequence_given(*this) : PickleValues{};
}

PickleValues PickleValue::arguments() const {
    return kind == PickleKind::object ? parts_of(*object->arguments) : PickleValues{};
}

const PickleValue* PickleValue::attribute(std::string_view name) const {
    const PickleValue* const built = state();
    return built == nullptr ? nullptr : built->find_attribute(name);
}

const PickleValue* PickleValue::find_attribute(std::string_view name) const {
    const PickleValue* const alone = this;
    const bool is_pair = elements().size() == 2;
    for (const PickleValue* const part : is_pair ? elements() : PickleValues(&alone, 1)) {
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

}  // namespace shardweld::formats
