// Containers, stack and memo of a pickle.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include "pickle_machine.hpp"

namespace shardweld::formats {

namespace {

// Python's own pickler gives up near 1000 levels; callers may descend this deep safely.
constexpr std::uint16_t kMaxDepth = 2000;

}  // namespace

void PickleMachine::nest(PickleValue& parent, const PickleValue& child) const {
    if (child.depth < parent.depth) {
        return;
    }
    if (child.depth >= kMaxDepth) {
        fail("nesting too deep: more than " + std::to_string(kMaxDepth) + " levels");
    }
    parent.depth = static_cast<std::uint16_t>(child.depth + 1);
}

PickleItems* PickleMachine::fresh_items(std::size_t capacity) {
    if (capacity > std::numeric_limits<std::uint32_t>::max()) {
        fail("a container of more than 2^32 elements");
    }
    void* const place = pickle_.arena_->allocate(sizeof(PickleItems) + capacity * kReferenceBytes,
                                                 alignof(PickleValue));
    return new (place) PickleItems{0, static_cast<std::uint32_t>(capacity)};
}

PickleValue* PickleMachine::fresh_tuple(std::span<PickleValue* const> values) {
    if (values.empty()) {
        return empty_tuple_;
    }
    PickleValue* const tuple = fresh(PickleKind::tuple);
    if (!is_skipped(tuple)) {
        append(tuple->parts, *tuple, values);
    }
    return tuple;
}

void PickleMachine::append(PickleItems*& items, PickleValue& owner,
                           std::span<PickleValue* const> values) {
    if (values.empty()) {
        return;
    }
    const std::size_t old_size = items == nullptr ? 0 : items->size;
    const std::size_t size = old_size + values.size();
    if (items == nullptr || size > items->capacity) {
        // Doubling keeps many small appends linear.
        PickleItems* const grown = fresh_items(std::max(size, 2 * old_size));
        if (items != nullptr) {
            std::memcpy(grown->data(), items->data(), old_size * kReferenceBytes);
        }
        items = grown;
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
        nest(owner, *values[i]);
        items->data()[old_size + i] = values[i];
    }
    items->size = static_cast<std::uint32_t>(size);
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
        set_items(*made, values);
    } else if (!is_skipped(made)) {
        append(made->parts, *made, values);
    }
    drop_mark();
    push(made);
}

PickleItems** PickleMachine::items_to_append(PickleValue& target) {
    if (target.kind == PickleKind::list || target.kind == PickleKind::set) {
        return &target.parts;
    }
    if (target.kind != PickleKind::object || target.object->extra_is_pairs) {
        fail("elements are appended to " + in_words(target.kind));
    }
    return &target.object->extra;
}

PickleItems** PickleMachine::items_to_set(PickleValue& target) {
    if (target.kind == PickleKind::dict) {
        return &target.parts;
    }
    const bool is_object = target.kind == PickleKind::object;
    if (!is_object || (target.object->extra != nullptr && !target.object->extra_is_pairs)) {
        fail("items are set on " + in_words(target.kind));
    }
    target.object->extra_is_pairs = true;
    return &target.object->extra;
}

void PickleMachine::on_append() {
    PickleValue* const value = pop();
    PickleValue& target = top();
    if (!is_skipped(&target)) {
        append(*items_to_append(target), target, std::span(&value, 1));
    }
}

void PickleMachine::on_appends() {
    const auto values = above_mark();
    const std::size_t mark = marks_.back();
    marks_.pop_back();
    if (mark <= floor()) {
        fail("stack underflow: nothing to append to");
    }
    PickleValue& target = *stack_[mark - 1];
    if (!is_skipped(&target)) {
        append(*items_to_append(target), target, values);
    }
    stack_.resize(mark);
}

void PickleMachine::set_items(PickleValue& target, std::span<PickleValue* const> values) {
    if (values.size() % 2 != 0) {
        fail("a key without a value");
    }
    if (!is_skipped(&target)) {
        append(*items_to_set(target), target, values);
    }
}

void PickleMachine::on_setitem() {
    if (stack_.size() - floor() < 3) {
        fail("stack underflow: SETITEM needs a dict, a key and a value");
    }
    set_items(*stack_[stack_.size() - 3], std::span(stack_).last(2));
    stack_.resize(stack_.size() - 2);
}

void PickleMachine::on_setitems() {
    const auto values = above_mark();
    const std::size_t mark = marks_.back();
    marks_.pop_back();
    if (mark <= floor()) {
        fail("stack underflow: nothing to set items on");
    }
    set_items(*stack_[mark - 1], values);
    stack_.resize(mark);
}

std::span<PickleValue* const> PickleMachine::above_mark() {
    if (marks_.empty()) {
        fail("stack underflow: no mark");
    }
    return std::span(stack_).subspan(marks_.back());
}

void PickleMachine::drop_mark() {
    const std::size_t kept = stack_.size() - above_mark().size();
    stack_.resize(kept);
    marks_.pop_back();
}

void PickleMachine::on_pop() {
    if (!marks_.empty() && stack_.size() == marks_.back()) {
        marks_.pop_back();
        return;
    }
    pop();
}

PickleValue* PickleMachine::pop() {
    PickleValue* const value = &top();
    stack_.pop_back();
    return value;
}

PickleValue& PickleMachine::top() {
    if (stack_.size() <= floor()) {
        fail("stack underflow");
    }
    return *stack_.back();
}

void PickleMachine::memoise(std::uint64_t at) {
    // Every entry takes an opcode, so an honest index is never larger than the bytes before it.
    if (at > opcode_at_) {
        fail("memo index " + std::to_string(at) + " is out of range");
    }
    PickleValue* const value = &top();
    if (at == memo_.size()) {
        memo_.push_back(value);
        return;
    }
    if (at > memo_.size()) {
        memo_.resize(at + 1, nullptr);
    }
    memo_[at] = value;
}

void PickleMachine::recall(std::uint64_t at) {
    if (at >= memo_.size() || memo_[at] == nullptr) {
        fail("memo index " + std::to_string(at) + " was never set");
    }
    if (is_skipped(memo_[at]) && !skipping_) {
        throw SkippedValueNeeded{};
    }
    push(memo_[at]);
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
