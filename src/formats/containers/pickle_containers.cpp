// Containers, stack and memo of a pickle.
#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>

#include "pickle_machine.hpp"

namespace shardweld::formats {

namespace {

// Values that wait for their container: picklers fill lists and dicts by the thousand; a tuple's or
// frozenset's elements all wait.
constexpr std::size_t kMostWaiting = std::size_t{1} << 23U;
// Python's own pickler gives up near 1000 levels; callers may descend this deep safely.
constexpr std::uint16_t kMaxDepth = 2000;

}  // namespace

void PickleMachine::nest_deeper(PickleValue& parent, const PickleValue& child) const {
    if (child.depth >= kMaxDepth) {
        fail("nesting too deep: more than " + std::to_string(kMaxDepth) + " levels");
    }
    parent.depth = static_cast<std::uint16_t>(child.depth + 1);
}

void PickleMachine::grow_stack() {
    constexpr std::size_t kFirst = 1024;
    if (stack_.size() >= kMostWaiting) {
        fail("more than " + std::to_string(kMostWaiting) + " values wait for their container");
    }
    stack_.reserve(std::max(kFirst, 2 * stack_.size()));
}

void PickleMachine::throw_many_marks() const {
    fail("more than " + std::to_string(kMostMarks) + " containers are open inside one another");
}

PickleValue** PickleMachine::fresh_parts(std::size_t capacity) {
    return static_cast<PickleValue**>(arena_.allocate(capacity * sizeof(PickleValue*)));
}

PickleValue* PickleMachine::fresh_tuple(std::span<PickleValue* const> values) {
    if (values.empty()) {
        return empty_tuple_;
    }
    PickleValue* const tuple = fresh(PickleKind::tuple);
    if (!is_skipped(tuple)) {
        append(*tuple, *tuple, values);
    }
    return tuple;
}

// `owner` is the container, or the object that it belongs to.
void PickleMachine::append(PickleValue& container, PickleValue& owner,
                           std::span<PickleValue* const> values) {
    const std::size_t old_size = container.size;
    const std::size_t size = old_size + values.size();
    if (size > std::numeric_limits<std::uint32_t>::max() / 2) {
        fail("a container of more than 2^31 elements");
    }
    const bool is_grown = (container.detail & pickle_detail::kGrown) != 0;
    if (old_size == 0) {
        container.parts = fresh_parts(size);
    } else if (!is_grown || size > std::bit_ceil(old_size)) {
        // Doubling keeps many small appends linear.
        PickleValue** const grown = fresh_parts(std::bit_ceil(size));
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

void PickleMachine::tuple_of(std::size_t count) {
    if (stack_.size() - floor() < count) {
        fail("stack underflow: a tuple of " + std::to_string(count) + " elements");
    }
    PickleValue* const tuple = fresh_tuple(std::span(stack_).last(count));
    stack_.resize(stack_.size() - count);
    push(tuple);
}

void PickleMachine::on_tuple() {
    PickleValue* const tuple = fresh_tuple(above_mark());
    drop_mark();
    push(tuple);
}

void PickleMachine::collect(PickleKind kind) {
    PickleValue* const made = fresh(kind);
    const auto values = above_mark();
    if (kind == PickleKind::dict) {
        set_on(*made, values);
    } else if (!is_skipped(made)) {
        append(*made, *made, values);
    }
    drop_mark();
    push(made);
}

void PickleMachine::append_to(PickleValue& target, std::span<PickleValue* const> values) {
    if (is_skipped(&target)) {
        return;
    }
    if (target.kind == PickleKind::list || target.kind == PickleKind::set) {
        append(target, target, values);
        return;
    }
    if (target.kind != PickleKind::object ||
        (target.object->extra != nullptr && target.object->extra->kind == PickleKind::dict)) {
        fail("elements are appended to " + in_words(target.kind));
    }
    if (target.object->extra == nullptr && !values.empty()) {
        target.object->extra = make(PickleKind::list);
    }
    if (!values.empty()) {
        append(*target.object->extra, target, values);
    }
}

void PickleMachine::set_on(PickleValue& target, std::span<PickleValue* const> values) {
    if (values.size() % 2 != 0) {
        fail("a key without a value");
    }
    if (is_skipped(&target)) {
        return;
    }
    if (target.kind == PickleKind::dict) {
        append(target, target, values);
        return;
    }
    if (target.kind != PickleKind::object ||
        (target.object->extra != nullptr && target.object->extra->kind == PickleKind::list)) {
        fail("items are set on " + in_words(target.kind));
    }
    if (target.object->extra == nullptr) {
        target.object->extra = make(PickleKind::dict);
    }
    append(*target.object->extra, target, values);
}

void PickleMachine::on_append() {
    PickleValue* const value = pop();
    append_to(top(), std::span(&value, 1));
}

void PickleMachine::on_appends() {
    const auto values = above_mark();
    const std::size_t mark = marks_.back();
    marks_.pop_back();
    if (mark <= floor()) {
        fail("stack underflow: nothing to append to");
    }
    append_to(*stack_[mark - 1], values);
    stack_.resize(mark);
}

void PickleMachine::on_setitem() {
    if (stack_.size() - floor() < 3) {
        fail("stack underflow: SETITEM needs a dict, a key and a value");
    }
    set_on(*stack_[stack_.size() - 3], std::span(stack_).last(2));
    stack_.resize(stack_.size() - 2);
}

void PickleMachine::on_setitems() {
    const auto values = above_mark();
    const std::size_t mark = marks_.back();
    marks_.pop_back();
    if (mark <= floor()) {
        fail("stack underflow: nothing to set items on");
    }
    set_on(*stack_[mark - 1], values);
    stack_.resize(mark);
}

void PickleMachine::throw_no_mark() const {
    fail("stack underflow: no mark");
}

void PickleMachine::drop_mark() {
    const std::size_t kept = stack_.size() - above_mark().size();
    stack_.resize(kept);
    marks_.pop_back();
}

void PickleMachine::on_pop() {
    if (marks_.size() > 1 && stack_.size() == marks_.back()) {
        marks_.pop_back();
        return;
    }
    pop();
}

void PickleMachine::memoise_elsewhere(std::uint64_t at) {
    // Every entry takes an opcode, so an honest index is never larger than the bytes before it.
    if (at > opcode_at_) {
        fail("memo index " + std::to_string(at) + " is out of range");
    }
    PickleValue* const value = &top();
    memo_.grow(at + 1);
    memo_[at] = value;
}

void PickleMachine::memoise_recalled(std::uint64_t at) {
    if (at > opcode_at_) {
        fail("memo index " + std::to_string(at) + " is out of range");
    }
    n_slots_ = std::max(n_slots_, at + 1);
    PickleValue& value = top();
    if (recalls_->has(at)) {
        value.detail |= pickle_detail::kShared;
        memo_[recalls_->place(at)] = &value;
    }
}

// An entry that was never set has no place.
std::uint64_t PickleMachine::place_of(std::uint64_t at) const {
    const std::uint64_t place = recalls_->has(at) ? recalls_->place(at) : memo_.size();
    if (place == memo_.size() || memo_[place] == nullptr) {
        throw_not_set(at);
    }
    return place;
}

void PickleMachine::throw_not_set(std::uint64_t at) const {
    fail("memo index " + std::to_string(at) + " was never set");
}

std::uint64_t PickleMachine::memo_line() {
    const std::string_view text = line("a memo index");
    std::uint64_t at = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), at);
    if (result.ec != std::errc() || result.ptr != text.data() + text.size()) {
        fail("a memo index is no number");
    }
    return at;
}

}  // namespace shardweld::formats
