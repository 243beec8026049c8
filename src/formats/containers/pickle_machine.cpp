#include "pickle_machine.hpp"

#include <limits>
#include <utility>

namespace shardweld::formats {

Pickle::Pickle() = default;
Pickle::Pickle(Pickle&&) noexcept = default;
Pickle& Pickle::operator=(Pickle&&) noexcept = default;

Pickle::~Pickle() {
    PickleMemory::keep_bytes(std::move(bytes_));
}

Pickle Pickle::parse(std::vector<std::byte> bytes, std::string_view skipped_key,
                     PickleReducer* reducer) {
    const std::size_t guess = bytes.size() * 4;
    const auto run = [&bytes, guess, reducer](std::string_view key) {
        Pickle pickle;
        pickle.arena_ = std::make_unique<PickleArena>(guess);
        pickle.bytes_ = std::move(bytes);
        try {
            PickleMachine(pickle, key, reducer).run();
        } catch (const SkippedValueNeeded&) {
            bytes = std::move(pickle.bytes_);
            throw;
        }
        return pickle;
    };
    try {
        return run(skipped_key);
    } catch (const SkippedValueNeeded&) {
        if (reducer != nullptr) {
            reducer->restart();
        }
        return run({});
    }
}

PickleMachine::PickleMachine(Pickle& pickle, std::string_view skipped_key, PickleReducer* reducer)
    : pickle_(pickle),
      arena_(*pickle.arena_),
      bytes_(reinterpret_cast<const char*>(pickle.bytes_.data()), pickle.bytes_.size()),
      reducer_(reducer),
      skipped_key_(skipped_key) {
    if (reducer_ != nullptr) {
        recalls_.emplace(bytes_);
        memo_.grow(recalls_->count());
    }
    none_ = fresh(PickleKind::none);
    skipped_ = fresh(PickleKind::none);
    empty_tuple_ = fresh(PickleKind::tuple);
    booleans_ = {fresh(PickleKind::boolean), fresh(PickleKind::boolean)};
    booleans_[1]->integer = 1;
    for (PickleValue* const value : {none_, skipped_, empty_tuple_, booleans_[0], booleans_[1]}) {
        value->detail = pickle_detail::kShared;
    }
}

// Those that most of a file is made of, without an indirect call; false for all others.
inline bool PickleMachine::step(unsigned char opcode) {
    switch (opcode) {
        case 'q':
            on_binput();
            return true;
        case 'r':
            on_long_binput();
            return true;
        case 0x94:
            on_memoize();
            return true;
        case 'h':
            on_binget();
            return true;
        case 'j':
            on_long_binget();
            return true;
        case 'K':
            on_binint1();
            return true;
        case '(':
            on_mark();
            return true;
        case ')':
            push(empty_tuple_);
            return true;
        case '}':
            on_empty_dict();
            return true;
        case 0x85:
            on_tuple1();
            return true;
        case 0x86:
            on_tuple2();
            return true;
        case 't':
            on_tuple();
            return true;
        case 'u':
            on_setitems();
            return true;
        case 'R':
            on_reduce();
            return true;
        case 0x81:
            on_newobj();
            return true;
        case 'b':
            on_build();
            return true;
        default:
            return false;
    }
}

void PickleMachine::run() {
    const Handlers& table = handlers();
    while (!done_) {
        if (position_ == bytes_.size()) {
            throw PickleCutShort(ErrorCode::corrupt,
                                 bytes_.empty() ? "pickle: it is empty"
                                                : "pickle: ends without STOP after " +
                                                      std::to_string(position_) + " bytes");
        }
        opcode_at_ = position_;
        const auto opcode = static_cast<unsigned char>(bytes_[position_++]);
        if (!step(opcode)) {
            (this->*table[opcode])();
        }
    }
}

void PickleMachine::fail(const std::string& message) const {
    throw Error(ErrorCode::corrupt,
                "pickle: " + message + " (opcode at byte " + std::to_string(opcode_at_) + ")");
}

void PickleMachine::throw_cut_short(std::uint64_t size, std::string_view what) const {
    throw PickleCutShort(ErrorCode::corrupt,
                         "pickle: " + std::string(what) + " runs past the end: " +
                             std::to_string(size) + " bytes at byte " + std::to_string(position_) +
                             ", " + std::to_string(bytes_.size() - position_) + " left");
}

std::string_view PickleMachine::line(std::string_view what) {
    const std::size_t end = bytes_.find('\n', position_);
    if (end == std::string_view::npos) {
        throw PickleCutShort(ErrorCode::corrupt, "pickle: " + std::string(what) + " at byte " +
                                                     std::to_string(position_) +
                                                     " has no end of line");
    }
    const std::string_view part = bytes_.substr(position_, end - position_);
    position_ = end + 1;
    return part;
}

PickleValue* PickleMachine::fresh_text(PickleKind kind, std::string_view text) {
    if (text.size() > std::numeric_limits<std::uint32_t>::max()) {
        fail("text of more than 2^32 bytes");
    }
    PickleValue* const value = fresh(kind);
    if (!is_skipped(value)) {
        value->chars = text.data();
        value->size = static_cast<std::uint32_t>(text.size());
    }
    return value;
}

}  // namespace shardweld::formats
