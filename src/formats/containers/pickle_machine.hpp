// The pickle virtual machine: one handler per opcode over a stack, a list of marks and a memo.
// Knows opcodes only; which names are denied or known is pickle_globals' business.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shardweld/core/error.hpp"
#include "shardweld/formats/containers/pickle.hpp"

#include "block_list.hpp"
#include "pickle_arena.hpp"
#include "pickle_memo.hpp"

namespace shardweld::formats {

/// The parts of an object.
struct PickleObject {
    PickleValue* callee;
    PickleValue* arguments;  // a tuple
    PickleValue* state;      // null without BUILD
    PickleValue* extra;      // what was appended (a list) or set (a dict) afterwards, or null
};

/// PickleValue::detail: the lowest bits of a global are its SpecialGlobal.
namespace pickle_detail {
inline constexpr std::uint8_t kSpecial = 0x03;
inline constexpr std::uint8_t kReduced = 0x10;  ///< of a global: the reducer takes its objects
inline constexpr std::uint8_t kGrown = 0x20;    ///< capacity is the next power of two above size
inline constexpr std::uint8_t kShared = 0x40;   ///< more than one reference may lead to it
}  // namespace pickle_detail

/// The kind with its article: "a list", "an integer".
std::string in_words(PickleKind kind);

/// The input ended inside the pickle: more bytes might complete it.
class PickleCutShort : public Error {
  public:
    using Error::Error;
};

/// A value that was not kept is needed after all (thrown only with a skipped key).
struct SkippedValueNeeded {};

/// Parses one pickle into `pickle`, which already holds the bytes.
class PickleMachine {
  public:
    PickleMachine(Pickle& pickle, std::string_view skipped_key, PickleReducer* reducer);
    void run();

  private:
    using Handler = void (PickleMachine::*)();
    using Handlers = std::array<Handler, 256>;
    static const Handlers& handlers();
    static void add_scalars(Handlers& table);
    static void add_containers(Handlers& table);
    static void add_objects(Handlers& table);
    static void add_refused(Handlers& table);

    // Each is of a container that is still under way: Python's own pickler gives up near 1000 of
    // them inside one another.
    static constexpr std::size_t kMostMarks = 10'000;

    // Input.
    [[noreturn]] void fail(const std::string& message) const;
    [[noreturn]] void throw_cut_short(std::uint64_t size, std::string_view what) const;
    std::string_view take(std::uint64_t size, std::string_view what) {
        if (size > bytes_.size() - position_) {
            throw_cut_short(size, what);
        }
        position_ += size;
        return {bytes_.data() + (position_ - size), size};
    }
    std::string_view line(std::string_view what);
    template <typename T>
    T number(std::string_view what);
    template <typename T>
    std::string_view sized(std::string_view what);

    // Values and stack.
    [[nodiscard]] PickleValue* make(PickleKind kind) {
        auto* const value = new (arena_.allocate(sizeof(PickleValue))) PickleValue;
        value->kind = kind;
        return value;
    }
    [[nodiscard]] PickleValue* fresh(PickleKind kind) {
        const bool is_kept = !skipping_ || kind == PickleKind::text || kind == PickleKind::global;
        return is_kept ? make(kind) : skipped_;
    }
    [[nodiscard]] PickleValue* fresh_text(PickleKind kind, std::string_view text);
    [[nodiscard]] PickleValue* fresh_tuple(std::span<PickleValue* const> values);
    [[nodiscard]] PickleValue** fresh_parts(std::size_t capacity);
    void push(PickleValue* value) {
        if (stack_.size() == stack_.capacity()) {
            grow_stack();
        }
        stack_.push_back(value);
    }
    void grow_stack();
    void push_integer(std::int64_t value) {
        const bool is_small = value >= 0 && value < 256;
        PickleValue* const known =
            is_small ? small_integers_[static_cast<std::size_t>(value)] : nullptr;
        if (known != nullptr) {
            push(known);
        } else {
            push_new_integer(value);
        }
    }
    void push_new_integer(std::int64_t value);
    void push_text(std::string_view text);
    [[nodiscard]] std::size_t floor() const { return marks_.back(); }
    PickleValue* pop() {
        PickleValue* const value = &top();
        stack_.pop_back();
        return value;
    }
    PickleValue& top() {
        if (stack_.size() <= floor()) {
            fail("stack underflow");
        }
        return *stack_.back();
    }
    [[nodiscard]] std::span<PickleValue* const> above_mark() const {
        if (marks_.size() == 1) {
            throw_no_mark();
        }
        return std::span(stack_).subspan(marks_.back());
    }
    [[noreturn]] void throw_no_mark() const;
    void drop_mark();
    void nest(PickleValue& parent, const PickleValue& child) const {
        if (child.depth >= parent.depth) {
            nest_deeper(parent, child);
        }
    }
    void nest_deeper(PickleValue& parent, const PickleValue& child) const;
    void append(PickleValue& container, PickleValue& owner, std::span<PickleValue* const> values);
    void append_to(PickleValue& target, std::span<PickleValue* const> values);
    void set_on(PickleValue& target, std::span<PickleValue* const> values);

    // Opcodes: scalars (pickle_scalars.cpp).
    void on_none();
    void on_true() { push_boolean(true); }
    void on_false() { push_boolean(false); }
    void push_boolean(bool value);
    void on_int();
    void on_long();
    void on_float();
    void on_binint() { push_integer(number<std::int32_t>("BININT")); }
    void on_binint1() { push_integer(number<std::uint8_t>("BININT1")); }
    void on_binint2() { push_integer(number<std::uint16_t>("BININT2")); }
    void on_long1();
    void on_long4();
    void push_long(std::string_view raw);
    void on_binfloat();
    void on_string();
    void on_unicode();
    void on_binstring();
    void on_short_binstring() { push_text(sized<std::uint8_t>("SHORT_BINSTRING")); }
    void on_short_binunicode() { push_text(sized<std::uint8_t>("SHORT_BINUNICODE")); }
    void on_binunicode() { push_text(sized<std::uint32_t>("BINUNICODE")); }
    void on_binunicode8() { push_text(sized<std::uint64_t>("BINUNICODE8")); }
    void push_bytes(std::string_view bytes) { push(fresh_text(PickleKind::bytes, bytes)); }
    void on_short_binbytes() { push_bytes(sized<std::uint8_t>("SHORT_BINBYTES")); }
    void on_binbytes() { push_bytes(sized<std::uint32_t>("BINBYTES")); }
    void on_binbytes8() { push_bytes(sized<std::uint64_t>("BINBYTES8")); }

    // Opcodes: containers, stack and memo (pickle_containers.cpp).
    void on_empty_list() { push(fresh(PickleKind::list)); }
    void on_empty_dict() { push(fresh(PickleKind::dict)); }
    void on_empty_set() { push(fresh(PickleKind::set)); }
    void on_empty_tuple() { push(fresh_tuple({})); }
    void on_tuple1() { tuple_of(1); }
    void on_tuple2() { tuple_of(2); }
    void on_tuple3() { tuple_of(3); }
    void tuple_of(std::size_t count);
    void on_tuple();
    void on_list() { collect(PickleKind::list); }
    void on_dict() { collect(PickleKind::dict); }
    void on_frozenset() { collect(PickleKind::set); }
    void collect(PickleKind kind);
    void on_append();
    void on_appends();
    void on_setitem();
    void on_setitems();
    void on_mark() {
        if (marks_.size() > kMostMarks) {
            throw_many_marks();
        }
        marks_.push_back(stack_.size());
    }
    [[noreturn]] void throw_many_marks() const;
    void on_pop();
    void on_pop_mark() { drop_mark(); }
    void on_dup() {
        top().detail |= pickle_detail::kShared;
        push(&top());
    }
    void memoise(std::uint64_t at) {
        if (recalls_) {
            memoise_recalled(at);
        } else if (at == memo_.size()) {
            memo_.push_back(&top());
        } else {
            memoise_elsewhere(at);
        }
    }
    void memoise_elsewhere(std::uint64_t at);
    void memoise_recalled(std::uint64_t at);
    void recall(std::uint64_t at) {
        at = recalls_ ? place_of(at) : at;
        if (at >= memo_.size() || memo_[at] == nullptr) {
            throw_not_set(at);
        }
        if (is_skipped(memo_[at]) && !skipping_) {
            throw SkippedValueNeeded{};
        }
        push(memo_[at]);
    }
    [[nodiscard]] std::uint64_t place_of(std::uint64_t at) const;
    [[noreturn]] void throw_not_set(std::uint64_t at) const;
    [[gnu::always_inline]] inline bool step(unsigned char opcode);
    std::uint64_t memo_line();
    void on_put() { memoise(memo_line()); }
    void on_binput() { memoise(number<std::uint8_t>("BINPUT")); }
    void on_long_binput() { memoise(number<std::uint32_t>("LONG_BINPUT")); }
    void on_memoize() { memoise(recalls_ ? n_slots_ : memo_.size()); }
    void on_get() { recall(memo_line()); }
    void on_binget() { recall(number<std::uint8_t>("BINGET")); }
    void on_long_binget() { recall(number<std::uint32_t>("LONG_BINGET")); }

    // Opcodes: globals, objects (pickle_objects.cpp), control (pickle_opcodes.cpp).
    void on_global();
    void on_stack_global();
    void push_global(std::string_view module, std::string_view name);
    void on_reduce();
    void on_newobj();
    void on_newobj_ex();
    PickleValue* fresh_object(PickleValue* callee, PickleValue* arguments);
    PickleValue* reduce_known(const PickleValue& callee, PickleValue* arguments);
    PickleValue* decode_latin1(std::string_view text);
    void on_build();
    void on_binpersid();
    void on_proto();
    void on_frame();
    void on_stop();
    void on_refused();
    void on_unknown();

    // Reducing (pickle_reduce.cpp).
    void reduce(PickleValue& object);
    void release(PickleValue* value);
    void release_parts(const PickleValue& value);
    PickleValue* only_part(PickleValue* tuple);

    // Skipping.
    [[nodiscard]] bool is_skipped(const PickleValue* value) const { return value == skipped_; }
    void start_skipping_at(std::string_view text);

    Pickle& pickle_;
    PickleArena& arena_;
    std::string_view bytes_;
    std::size_t position_ = 0;
    std::size_t opcode_at_ = 0;
    bool done_ = false;
    std::vector<PickleValue*> stack_;
    std::vector<std::size_t> marks_ = {0};  // heights of the stack; the first is its floor
    BlockList<PickleValue*> memo_;
    std::optional<PickleRecalls> recalls_;  // with a reducer: which entries memo_ holds
    std::uint64_t n_slots_ = 0;             // then: the memo's size as the pickle sees it
    PickleReducer* reducer_ = nullptr;
    std::vector<std::pair<const PickleValue*, std::uint32_t>> reduced_classes_;
    std::array<PickleValue*, 256> small_integers_{};
    PickleValue* none_ = nullptr;
    std::array<PickleValue*, 2> booleans_{};
    PickleValue* empty_tuple_ = nullptr;
    std::unordered_map<std::string_view, PickleValue*> globals_;
    std::unordered_map<const char*, PickleValue*> latin1_;  // by the text's place in the input
    std::string name_;                                      // scratch

    std::string_view skipped_key_;
    PickleValue* skipped_ = nullptr;  // stands for every value that is not kept
    bool skipping_ = false;
    std::size_t skip_height_ = 0;
};

template <typename T>
T PickleMachine::number(std::string_view what) {
    T value;
    const std::string_view raw = take(sizeof(T), what);
    __builtin_memcpy(&value, raw.data(), sizeof(T));
    return value;
}

template <typename T>
std::string_view PickleMachine::sized(std::string_view what) {
    return take(number<T>(what), what);
}

}  // namespace shardweld::formats
