// The pickle virtual machine: a stack, a list of marks and a memo, on which opcodes work.
// What each does stands in pickle_opcodes.def; which names are denied stands in
// pickle_objects.cpp.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/text.hpp"

#include "pickle.hpp"
#include "pickle_arena.hpp"
#include "pickle_reader.hpp"

namespace shardweld::formats {

/// The memo of a pickle. Python puts nearly every object there and fetches few back: where memory
/// counts, a first pass over the opcodes finds those, and all others are not kept.
class PickleMemo {
  public:
    /// Keeps only what the pickle that `reader` begins fetches; of a malformed one, as far as it
    /// goes.
    void keep_fetched(PickleReader reader);

    /// Where a value is put; nullptr for one that need not be kept.
    [[nodiscard]] PickleValue** to_put(std::uint64_t slot) {
        if (keeps_all_) {
            entries_.grow(slot + 1);
        }
        return entry(slot);
    }
    /// Where a value was put, if it was.
    [[nodiscard]] PickleValue** entry(std::uint64_t slot) {
        if (keeps_all_) {
            return slot < entries_.size() ? &entries_[slot] : nullptr;
        }
        if (slot / kBits >= words_.size()) {
            return nullptr;
        }
        const Word& word = words_[slot / kBits];
        const std::uint64_t bit = std::uint64_t{1} << slot % kBits;
        const auto before = static_cast<std::size_t>(std::popcount(word.fetched & (bit - 1)));
        return (word.fetched & bit) == 0 ? nullptr : &entries_[word.n_before + before];
    }

  private:
    static constexpr std::uint64_t kBits = 64;
    struct Word {
        std::uint64_t fetched = 0;  // a bit for each slot
        std::size_t n_before = 0;   // bits set in earlier words
    };
    void find_fetched(PickleReader& reader);
    void add(std::uint64_t slot, std::size_t limit);

    bool keeps_all_ = true;
    std::vector<Word> words_;
    BlockList<PickleValue*> entries_;
};

/// PickleValue::detail: the lowest bits of a global are its GlobalKind.
namespace pickle_detail {
inline constexpr std::uint8_t kGlobalKind = 0x07;
inline constexpr std::uint8_t kReduced = 0x10;  ///< of a global: the reducer takes its objects
inline constexpr std::uint8_t kGrown = 0x20;    ///< capacity is the next power of two above size
inline constexpr std::uint8_t kShared = 0x40;   ///< more than one reference may lead to it
}  // namespace pickle_detail

/// A value that was not kept is needed after all (thrown only with a skipped key).
struct SkippedValueNeeded {};

/// Parses one pickle into `pickle`, which already holds the bytes.
class PickleMachine : private PickleReader {
  public:
    PickleMachine(Pickle& pickle, std::string_view skipped_key, PickleReducer* reducer);
    void run();

  private:
    using Values = std::span<PickleValue* const>;

    // Values that an opcode takes: a number, all above the last mark, or those and the one below.
    static constexpr std::size_t kMarked = std::numeric_limits<std::size_t>::max();
    static constexpr std::size_t kBelow = kMarked - 1;

    // Stack.
    template <PickleArgument kArgument, std::size_t kTakes, bool kIsKept, typename Make>
    void push_made(const Make& make_of);
    template <std::size_t kTakes>
    std::size_t first_taken();
    [[gnu::always_inline]] std::size_t first_marked(std::size_t n_below);
    [[gnu::always_inline]] PickleValue& top();
    PickleValue* shared_top();
    void grow_stack();
    [[gnu::always_inline]] void mark();
    void pop_or_unmark();
    [[gnu::always_inline]] void memoise(std::uint64_t slot);
    [[gnu::always_inline]] PickleValue* recalled(std::uint64_t slot);
    [[noreturn]] void throw_underflow() const;

    // Control.
    void require_protocol(std::uint8_t protocol) const;
    void stop();

    // Values.
    [[gnu::always_inline]] PickleValue* make(PickleKind kind) {
        auto* const value = new (arena_.allocate(sizeof(PickleValue))) PickleValue;
        value->kind = kind;
        return value;
    }
    PickleValue* make_shared(PickleKind kind);
    PickleValue* integer(std::int64_t value);
    PickleValue* integer_or_boolean(std::string_view text);
    PickleValue* long_integer(std::string_view raw);
    PickleValue* real(double number);
    PickleValue* chars(PickleKind kind, std::string_view chars);
    PickleValue* text(std::string_view text);
    PickleValue* container(PickleKind kind, Values values);
    PickleValue* extended(PickleKind kind, Values taken);
    void append(PickleValue& container, PickleValue& owner, Values values);
    void nest(PickleValue& parent, const PickleValue& child) const {
        if (child.depth >= parent.depth) {
            nest_deeper(parent, child);
        }
    }
    void nest_deeper(PickleValue& parent, const PickleValue& child) const;
    template <typename T>
    T parsed(std::string_view text) const;
    std::string_view decoded(const std::optional<std::string>& text);

    // Globals and objects (pickle_objects.cpp).
    PickleValue* global(std::string_view module, std::string_view name);
    PickleValue* new_global(std::string_view module, std::string_view name);
    std::string_view name_in(const PickleValue* text) const;
    PickleValue* object(PickleValue* callee, PickleValue* arguments);
    PickleValue* called(PickleValue* callee, PickleValue* arguments);
    PickleValue* built(PickleValue* target, PickleValue* state);
    PickleValue* persistent(PickleValue* id);
    PickleValue* latin1_bytes(std::string_view text);
    void reduce(PickleValue& object);
    void release(PickleValue* value);
    void release_parts(const PickleValue& value);
    PickleValue* only_part(PickleValue* tuple);

    // Skipping.
    [[gnu::always_inline]] bool is_skipped(std::size_t first);
    void see_text(const PickleValue& value);

    Pickle& pickle_;
    PickleArena& arena_;
    std::vector<PickleValue*> stack_;
    std::size_t height_ = 0;                // values on the stack
    std::vector<std::size_t> marks_ = {0};  // heights of the stack; the first is its floor
    PickleMemo memo_;
    std::uint64_t n_slots_ = 0;  // the memo's size as the pickle sees it

    PickleReducer* reducer_;
    std::vector<std::pair<const PickleValue*, std::uint32_t>> reduced_classes_;

    PickleValue* none_;
    PickleValue* empty_tuple_;
    std::array<PickleValue*, 2> booleans_;
    std::array<PickleValue*, 256> small_integers_{};
    std::unordered_map<std::string_view, PickleValue*> globals_;
    std::unordered_map<const char*, PickleValue*> latin1_;  // by the text's place in the input
    std::string name_;                                      // scratch

    std::string_view skipped_key_;
    PickleValue* skipped_;  // stands for every value that is not kept
    bool is_skipping_ = false;
    std::size_t skip_height_ = 0;  // of the stack, with the skipped key on it
};

template <typename T>
T PickleMachine::parsed(std::string_view text) const {
    const auto number = parsed_number<T>(text);
    if (!number) {
        fail(opcode_name() + " holds no 64-bit number");
    }
    return *number;
}

}  // namespace shardweld::formats
