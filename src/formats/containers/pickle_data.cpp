// Numbers, texts and containers of a pickle.
#include <algorithm>
#include <bit>

#include "pickle_machine.hpp"

namespace shardweld::formats {

PickleValue* PickleMachine::make_shared(PickleKind kind) {
    PickleValue* const value = make(kind);
    value->detail = pickle_detail::kShared;
    return value;
}

// Small numbers are made once.
PickleValue* PickleMachine::integer(std::int64_t number) {
    const bool is_small = number >= 0 && number < std::ssize(small_integers_);
    PickleValue* unknown = nullptr;
    PickleValue*& value = is_small ? small_integers_[static_cast<std::size_t>(number)] : unknown;
    if (value == nullptr) {
        value = is_small ? make_shared(PickleKind::integer) : make(PickleKind::integer);
        value->integer = number;
    }
    return value;
}

PickleValue* PickleMachine::integer_or_boolean(std::string_view text) {
    const bool is_boolean = text == "00" || text == "01";
    return is_boolean ? booleans_[text == "01" ? 1 : 0] : integer(parsed<std::int64_t>(text));
}

PickleValue* PickleMachine::long_integer(std::string_view raw) {
    if (raw.size() > sizeof(std::int64_t)) {
        return chars(PickleKind::big_integer, raw);
    }
    const bool is_negative = !raw.empty() && static_cast<signed char>(raw.back()) < 0;
    std::int64_t number = is_negative ? -1 : 0;
    std::memcpy(&number, raw.data(), raw.size());
    return integer(number);
}

PickleValue* PickleMachine::real(double number) {
    PickleValue* const value = make(PickleKind::real);
    value->real = number;
    return value;
}

PickleValue* PickleMachine::chars(PickleKind kind, std::string_view chars) {
    if (chars.size() > std::numeric_limits<std::uint32_t>::max()) {
        fail("text of more than 2^32 bytes");
    }
    PickleValue* const value = make(kind);
    value->chars = chars.data();
    value->size = static_cast<std::uint32_t>(chars.size());
    return value;
}

PickleValue* PickleMachine::text(std::string_view text) {
    PickleValue* const value = chars(PickleKind::text, text);
    if (!skipped_key_.empty()) {
        see_text(*value);
    }
    return value;
}

std::string_view PickleMachine::decoded(const std::optional<std::string>& text) {
    if (!text) {
        fail(opcode_name() + " holds malformed text");
    }
    return arena_.keep(*text);
}

PickleValue* PickleMachine::container(PickleKind kind, Values values) {
    if (kind == PickleKind::tuple && values.empty()) {
        return empty_tuple_;
    }
    PickleValue* const value = make(kind);
    append(*value, *value, values);
    return value;
}

// The container taken[0] with what else is taken; an object gets a container of `kind` for it.
PickleValue* PickleMachine::extended(PickleKind kind, Values taken) {
    PickleValue* const target = taken.front();
    PickleValue* to = target;
    if (target->kind == PickleKind::object) {
        PickleValue*& extra = target->object->extra;
        extra = extra == nullptr ? make(kind) : extra;
        to = extra;
    }
    const bool is_dict = kind == PickleKind::dict;
    if (to->kind != kind && (is_dict || to->kind != PickleKind::set)) {
        fail((is_dict ? "items are set on " : "elements are appended to ") +
             in_words(target->kind));
    }
    append(*to, *target, taken.subspan(1));
    return target;
}

// `owner` is the container, or the object that it belongs to.
void PickleMachine::append(PickleValue& container, PickleValue& owner, Values values) {
    const std::size_t old_size = container.size;
    const std::size_t size = old_size + values.size();
    if (size > std::numeric_limits<std::uint32_t>::max() / 2) {
        fail("a container of more than 2^31 elements");
    }
    if (container.kind == PickleKind::dict && values.size() % 2 != 0) {
        fail("a key without a value");
    }
    const auto new_parts = [this](std::size_t capacity) {
        // NOLINTNEXTLINE(bugprone-sizeof-expression): they are pointers
        return static_cast<PickleValue**>(arena_.allocate(capacity * sizeof(PickleValue*)));
    };
    const bool is_grown = (container.detail & pickle_detail::kGrown) != 0;
    if (old_size == 0) {
        container.parts = size == 0 ? nullptr : new_parts(size);
    } else if (!is_grown || size > std::bit_ceil(old_size)) {
        // Doubling keeps many small appends linear.
        PickleValue** const grown = new_parts(std::bit_ceil(size));
        std::copy_n(container.parts, old_size, grown);
        container.parts = grown;
        container.detail |= pickle_detail::kGrown;
    }
    PickleValue** out = container.parts + old_size;
    for (PickleValue* const value : values) {
        nest(owner, *value);
        *out++ = value;
    }
    container.size = static_cast<std::uint32_t>(size);
}

void PickleMachine::nest_deeper(PickleValue& parent, const PickleValue& child) const {
    // Python's own pickler gives up near 1000 levels; callers may descend this deep safely.
    constexpr std::uint16_t kMaxDepth = 2000;
    if (child.depth >= kMaxDepth) {
        refuse_hostile("nesting too deep: more than " + std::to_string(kMaxDepth) + " levels");
    }
    parent.depth = static_cast<std::uint16_t>(child.depth + 1);
}

}  // namespace shardweld::formats
