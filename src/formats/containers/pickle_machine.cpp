#include "pickle_machine.hpp"

#include <bit>

#include "core/process/stop_point.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "pickle_reader.hpp"

namespace shardweld::formats {

void PickleMemo::keep_fetched(PickleReader reader) {
    keeps_all_ = false;
    try {
        find_fetched(reader);
    } catch (const Error&) {
        // The machine says it when it comes there.
    }
    std::size_t count = 0;
    for (Word& word : words_) {
        word.n_before = count;
        count += static_cast<std::size_t>(std::popcount(word.fetched));
    }
    entries_.grow(count);
}

void PickleMemo::find_fetched(PickleReader& reader) {
    for (unsigned char opcode = 0; opcode != '.';) {
        opcode = reader.next_opcode();
        const auto argument = reader.take_argument(kPickleOpcodes[opcode].argument);
        if (opcode == 'h') {
            add(raw_number<std::uint8_t>(argument), reader.position());
        } else if (opcode == 'j') {
            add(raw_number<std::uint32_t>(argument), reader.position());
        } else if (opcode == 'g') {
            add(static_cast<std::uint64_t>(parse_index(argument).value_or(-1)), reader.position());
        }
    }
}

// A slot beyond the bytes before it cannot have been put: every entry takes an opcode.
void PickleMemo::add(std::uint64_t slot, std::size_t limit) {
    if (slot >= limit) {
        return;
    }
    if (slot / kBits >= words_.size()) {
        words_.resize(slot / kBits + 1);
    }
    words_[slot / kBits].fetched |= std::uint64_t{1} << slot % kBits;
}

namespace {

// Each mark is of a container that is still under way: Python's own pickler gives up near 1000 of
// them inside one another.
constexpr std::size_t kMostMarks = 10'000;
// Values that wait for their container: picklers fill lists and dicts by the thousand; a tuple's or
// frozenset's elements all wait.
constexpr std::size_t kMostWaiting = std::size_t{1} << 23U;
constexpr std::size_t kFirstWaiting = 256;

std::string_view first_line(std::string_view lines) {
    return lines.substr(0, lines.find('\n'));
}

std::string_view second_line(std::string_view lines) {
    return lines.substr(lines.find('\n') + 1);
}

std::string_view without_suffix(std::string_view number) {
    return number.substr(0, number.size() - (number.ends_with('L') ? 1 : 0));
}

}  // namespace

Pickle Pickle::parse(std::vector<std::byte> bytes, std::string_view skipped_key,
                     PickleReducer* reducer) {
    Pickle pickle;
    pickle.memory_ = std::make_shared<PickleArena>(std::move(bytes));
    try {
        PickleMachine(pickle, skipped_key, reducer).run();
        return pickle;
    } catch (const SkippedValueNeeded&) {
        bytes = pickle.memory_->take_bytes();
    }
    pickle = Pickle();
    if (reducer != nullptr) {
        reducer->restart();
    }
    return parse(std::move(bytes), {}, reducer);
}

PickleMachine::PickleMachine(Pickle& pickle, std::string_view skipped_key, PickleReducer* reducer)
    : PickleReader(pickle.memory_->bytes()),
      pickle_(pickle),
      arena_(*pickle.memory_),
      stack_(kFirstWaiting),
      reducer_(reducer),
      none_(make_shared(PickleKind::none)),
      empty_tuple_(make_shared(PickleKind::tuple)),
      booleans_{make_shared(PickleKind::boolean), make_shared(PickleKind::boolean)},
      skipped_key_(skipped_key),
      skipped_(make_shared(PickleKind::none)) {
    booleans_[1]->integer = 1;
    if (reducer != nullptr) {
        memo_.keep_fetched(PickleReader(arena_.bytes()));
    }
}

// Where the values that an opcode takes begin on the stack; their mark is gone afterwards.
template <std::size_t kTakes>
std::size_t PickleMachine::first_taken() {
    if constexpr (kTakes == kMarked || kTakes == kBelow) {
        return first_marked(kTakes == kBelow ? 1 : 0);
    }
    if (kTakes != 0 && height_ - marks_.back() < kTakes) {
        throw_underflow();
    }
    return height_ - kTakes;
}

inline std::size_t PickleMachine::first_marked(std::size_t n_below) {
    const std::size_t first = marks_.back();
    if (marks_.size() == 1 || first - marks_[marks_.size() - 2] < n_below) {
        throw_underflow();
    }
    marks_.pop_back();
    return first - n_below;
}

void PickleMachine::require_protocol(std::uint8_t protocol) const {
    constexpr unsigned kHighest = 5;
    if (protocol > kHighest) {
        fail("protocol " + std::to_string(protocol) + ", known are 0 to 5");
    }
}

void PickleMachine::stop() {
    const PickleValue& root = top();
    if (marks_.size() > 1) {
        fail("STOP behind an open mark");
    }
    pickle_.root_ = &root;
    pickle_.consumed_ = position();
}

void PickleMachine::throw_underflow() const {
    fail("stack underflow: " + opcode_name() + " takes more than there is");
}

inline PickleValue& PickleMachine::top() {
    if (height_ == marks_.back()) {
        throw_underflow();
    }
    return *stack_[height_ - 1];
}

PickleValue* PickleMachine::shared_top() {
    top().detail |= pickle_detail::kShared;
    return &top();
}

void PickleMachine::grow_stack() {
    if (stack_.size() >= kMostWaiting) {
        refuse_hostile("more than " + std::to_string(kMostWaiting) +
                       " values wait for their container");
    }
    stack_.resize(2 * stack_.size());
}

inline void PickleMachine::mark() {
    if (marks_.size() > kMostMarks) {
        refuse_hostile("more than " + std::to_string(kMostMarks) +
                       " containers are open inside one another");
    }
    marks_.push_back(height_);
}

void PickleMachine::pop_or_unmark() {
    if (marks_.size() > 1 && height_ == marks_.back()) {
        marks_.pop_back();
        return;
    }
    height_ = first_taken<1>();
}

inline void PickleMachine::memoise(std::uint64_t slot) {
    // Every entry takes an opcode, so an honest slot is never larger than the bytes before it.
    if (slot > opcode_at()) {
        fail("memo index " + std::to_string(slot) + " is out of range");
    }
    n_slots_ = std::max(n_slots_, slot + 1);
    PickleValue& value = top();
    if (PickleValue** const entry = memo_.to_put(slot)) {
        value.detail |= pickle_detail::kShared;
        *entry = &value;
    }
}

inline PickleValue* PickleMachine::recalled(std::uint64_t slot) {
    PickleValue** const entry = memo_.entry(slot);
    if (entry == nullptr || *entry == nullptr) {
        fail("memo index " + std::to_string(slot) + " was never set");
    }
    if (*entry == skipped_ && !is_skipping_) {
        throw SkippedValueNeeded{};
    }
    if (!skipped_key_.empty()) {
        see_text(**entry);
    }
    return *entry;
}

// The key of the outermost state has just come: under the only mark lie the state's dict and its
// object. A text at the key's own height afterwards begins the next key.
void PickleMachine::see_text(const PickleValue& value) {
    if (marks_.size() != 2 || value.kind != PickleKind::text) {
        return;
    }
    if (is_skipping_) {
        is_skipping_ = height_ != skip_height_ + 1;
    } else if (value.text() == skipped_key_ && marks_.back() == 2 && height_ % 2 == 0) {
        is_skipping_ = true;
        skip_height_ = height_ + 1;
    }
}

// Whether what an opcode takes, from `first` on, belongs to the value that is skipped. What begins
// below ends it: the state's dict takes it in. A list of one text ends it too early, but not what
// is done to a value that was not kept.
inline bool PickleMachine::is_skipped(std::size_t first) {
    is_skipping_ = is_skipping_ && first >= skip_height_;
    return is_skipping_ || (first < height_ && stack_[first] == skipped_);
}

template <PickleArgument kArgument, std::size_t kTakes, bool kIsKept, typename Make>
[[gnu::always_inline]] inline void PickleMachine::push_made(const Make& make_of) {
    const std::string_view given = take_argument(kArgument);
    const std::size_t first = first_taken<kTakes>();
    const Values taken(stack_.data() + first, height_ - first);
    const bool is_dropped = !kIsKept && !skipped_key_.empty() && is_skipped(first);
    PickleValue* const made = is_dropped ? skipped_ : make_of(given, taken);
    if (first == stack_.size()) {
        grow_stack();
    }
    stack_[first] = made;
    height_ = first + 1;
}

void PickleMachine::run() {
    constexpr std::uint32_t kBetweenStopPoints = 1U << 16U;
    for (std::uint32_t n_steps = 1; pickle_.root_ == nullptr; ++n_steps) {
        if (n_steps % kBetweenStopPoints == 0) {
            stop_point();
        }
        switch (next_opcode()) {
#define STEP(code, name, follows, action)                                              \
    case (code): {                                                                     \
        [[maybe_unused]] const auto argument = take_argument(PickleArgument::follows); \
        action;                                                                        \
        break;                                                                         \
    }
#define PUSH(code, follows, takes, is_kept, value)                                           \
    case (code):                                                                             \
        push_made<PickleArgument::follows, takes, is_kept>(                                  \
            [&]([[maybe_unused]] std::string_view argument, [[maybe_unused]] Values taken) { \
                return (value);                                                              \
            });                                                                              \
        break;
#define KEEP(code, name, follows, takes, value) PUSH(code, follows, takes, true, value)
#define VALUE(code, name, follows, takes, value) PUSH(code, follows, takes, false, value)
#define REFUSED(code, name)
#include "pickle_opcodes.def"
#undef PUSH
            default:
                refuse_opcode();
        }
    }
}

}  // namespace shardweld::formats
