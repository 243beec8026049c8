#include "pickle_machine.hpp"

#include <algorithm>
#include <limits>

#include "shardweld/core/text.hpp"

#include "pickle_globals.hpp"

namespace shardweld::formats {

namespace {

constexpr std::size_t kMaxNameBytes = 512;

bool is_plain_name(std::string_view name) {
    return !name.empty() && name.size() <= kMaxNameBytes &&
           std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c != '\x7f'; });
}

bool is_latin1(std::string_view encoding) {
    return encoding == "latin1" || encoding == "latin-1" || encoding == "iso-8859-1";
}

bool is_ascii(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0; });
}

}  // namespace

Pickle::Pickle() = default;
Pickle::Pickle(Pickle&&) noexcept = default;
Pickle& Pickle::operator=(Pickle&&) noexcept = default;
Pickle::~Pickle() = default;

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
        memo_.resize(recalls_->count(), nullptr);
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

void PickleMachine::on_global() {
    const std::string_view module = line("GLOBAL");
    push_global(module, line("GLOBAL"));
}

void PickleMachine::on_stack_global() {
    const PickleValue* const name = pop();
    const PickleValue* const module = pop();
    if (name->kind != PickleKind::text || module->kind != PickleKind::text) {
        fail("STACK_GLOBAL needs two texts");
    }
    push_global(module->text(), name->text());
}

void PickleMachine::push_global(std::string_view module, std::string_view name) {
    if (!is_plain_name(module) || !is_plain_name(name)) {
        fail("'" + printable(module, 60) + " " + printable(name, 60) + "' is no name of a global");
    }
    name_.assign(module).append(" ").append(name);
    const auto known = globals_.find(name_);
    if (known != globals_.end()) {
        push(known->second);
        return;
    }
    if (is_denied_global(module, name)) {
        fail("disallowed global " + printable(module) + "." + printable(name) +
             "; the file tries to run code and was not made by a trainer");
    }
    const std::string_view text = pickle_.texts_.emplace_back(name_);
    PickleValue* const global = fresh_text(PickleKind::global, text);
    global->detail = static_cast<std::uint8_t>(
        static_cast<std::uint8_t>(special_global(module, name)) | pickle_detail::kShared);
    if (const auto number = reducer_ == nullptr ? std::nullopt : reducer_->takes(text)) {
        global->detail |= pickle_detail::kReduced;
        reduced_classes_.emplace_back(global, *number);
    }
    globals_.emplace(text, global);
    if (!is_known_global(module, name)) {
        pickle_.inert_.emplace(text);
    }
    push(global);
}

PickleValue* PickleMachine::fresh_object(PickleValue* callee, PickleValue* arguments) {
    if (is_skipped(callee) || is_skipped(arguments)) {
        return skipped_;
    }
    if (callee->kind != PickleKind::global && callee->kind != PickleKind::object) {
        fail(in_words(callee->kind) + " is called as a class or function");
    }
    if (arguments->kind != PickleKind::tuple) {
        fail("the arguments of " + printable(callee->class_name()) + " are " +
             in_words(arguments->kind) + ", expected a tuple");
    }
    PickleValue* const value = fresh(PickleKind::object);
    if (!is_skipped(value)) {
        value->object = new (arena_.allocate(sizeof(PickleObject)))
            PickleObject{callee, arguments, nullptr, nullptr};
        nest(*value, *callee);
        nest(*value, *arguments);
    }
    return value;
}

void PickleMachine::on_reduce() {
    PickleValue* const arguments = pop();
    PickleValue* const callee = pop();
    PickleValue* known = nullptr;
    if (callee->kind == PickleKind::global && arguments->kind == PickleKind::tuple) {
        known = reduce_known(*callee, arguments);
    }
    push(known != nullptr ? known : fresh_object(callee, arguments));
}

PickleValue* PickleMachine::reduce_known(const PickleValue& callee, PickleValue* arguments) {
    const std::size_t count = arguments->size;
    PickleValue* const* const given = arguments->parts;
    switch (static_cast<SpecialGlobal>(callee.detail & pickle_detail::kSpecial)) {
        case SpecialGlobal::none:
            return nullptr;
        case SpecialGlobal::size:
            if (count != 1 || given[0]->kind != PickleKind::tuple) {
                return nullptr;
            }
            return reducer_ == nullptr ? given[0] : only_part(arguments);
        case SpecialGlobal::encode: {
            const bool is_text = count == 2 && given[0]->kind == PickleKind::text;
            const bool is_bytes = is_text && is_latin1(given[1]->text()) && !skipping_;
            return is_bytes ? decode_latin1(given[0]->text()) : nullptr;
        }
        case SpecialGlobal::reconstructor:
            // (class, base, base's state), as protocols 0 and 1 write plain objects.
            return count == 3 && !is_skipped(given[0]) ? fresh_object(given[0], empty_tuple_)
                                                       : nullptr;
    }
    return nullptr;
}

// Protocol 2 has no bytes: Python 3 writes them as text whose code points are the byte values.
PickleValue* PickleMachine::decode_latin1(std::string_view text) {
    // Kept per text, so that a large one named again and again is decoded once.
    PickleValue*& value = latin1_[text.data()];
    if (value != nullptr) {
        return value;
    }
    if (is_ascii(text)) {
        value = fresh_text(PickleKind::bytes, text);
        value->detail |= pickle_detail::kShared;
        return value;
    }
    std::string decoded;
    decoded.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto lead = static_cast<unsigned char>(text[i]);
        if (lead < 0x80) {
            decoded.push_back(static_cast<char>(lead));
            continue;
        }
        const bool has_next = i + 1 < text.size();
        const unsigned next = has_next ? static_cast<unsigned char>(text[++i]) : 0U;
        if ((lead != 0xC2 && lead != 0xC3) || (next & 0xC0U) != 0x80U) {
            fail("text of _codecs.encode is not Latin-1");
        }
        decoded.push_back(static_cast<char>(((lead & 0x03U) << 6U) | (next & 0x3FU)));
    }
    value = fresh_text(PickleKind::bytes, pickle_.texts_.emplace_back(std::move(decoded)));
    value->detail |= pickle_detail::kShared;
    return value;
}

void PickleMachine::on_newobj() {
    PickleValue* const arguments = pop();
    PickleValue* const callee = pop();
    push(fresh_object(callee, arguments));
}

void PickleMachine::on_newobj_ex() {
    pop();  // keyword arguments: no class read here takes any
    on_newobj();
}

void PickleMachine::on_build() {
    PickleValue* const state = pop();
    PickleValue& target = top();
    if (is_skipped(&target)) {
        return;
    }
    if (target.kind != PickleKind::object) {
        fail("BUILD on " + in_words(target.kind));
    }
    nest(target, *state);
    target.object->state = state;
    if ((target.object->callee->detail & pickle_detail::kReduced) != 0 &&
        target.object->callee->kind == PickleKind::global) {
        reduce(target);
    }
}

void PickleMachine::on_binpersid() {
    PickleValue* const id = pop();
    PickleValue* const value = fresh(PickleKind::persistent);
    if (!is_skipped(value)) {
        nest(*value, *id);
        value->id = id;
        value->detail = pickle_detail::kShared;
        pickle_.persistents_.push_back(value);
    }
    push(value);
}

}  // namespace shardweld::formats
