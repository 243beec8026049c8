#include "pickle_writer.hpp"

#include <bit>
#include <limits>

namespace shardweld::bench {

namespace {

std::string little_endian(std::uint64_t value, std::size_t size) {
    std::string bytes;
    for (std::size_t i = 0; i < size; ++i) {
        bytes += static_cast<char>((value >> (8 * i)) & 0xFFU);
    }
    return bytes;
}

}  // namespace

void PickleWriter::number(std::uint64_t value, std::size_t size) {
    body_ += little_endian(value, size);
}

bool PickleWriter::recall(const std::string& key) {
    const auto at = memo_.find(key);
    if (at == memo_.end()) {
        return false;
    }
    const bool is_short = at->second < 256;
    body_ += is_short ? 'h' : 'j';  // BINGET, LONG_BINGET
    number(at->second, is_short ? 1 : 4);
    return true;
}

void PickleWriter::memoize(const std::string& key) {
    const auto slot = static_cast<std::uint32_t>(memo_.size());
    memo_.emplace(key, slot);
    if (protocol_ >= 4) {
        body_ += '\x94';  // MEMOIZE: the next slot
        return;
    }
    body_ += slot < 256 ? 'q' : 'r';  // BINPUT, LONG_BINPUT
    number(slot, slot < 256 ? 1 : 4);
}

PickleWriter& PickleWriter::op(Op code) {
    body_ += static_cast<char>(code);
    return *this;
}

PickleWriter& PickleWriter::text(std::string_view value) {
    const std::string key = "t" + std::string(value);
    if (recall(key)) {
        return *this;
    }
    const bool is_short = protocol_ >= 4 && value.size() < 256;
    body_ += is_short ? '\x8c' : 'X';  // SHORT_BINUNICODE, BINUNICODE
    number(value.size(), is_short ? 1 : 4);
    body_ += value;
    memoize(key);
    return *this;
}

PickleWriter& PickleWriter::integer(std::int64_t value) {
    if (value >= 0 && value < 256) {
        body_ += 'K';  // BININT1
        number(static_cast<std::uint64_t>(value), 1);
    } else if (value >= 0 && value < 65536) {
        body_ += 'M';  // BININT2
        number(static_cast<std::uint64_t>(value), 2);
    } else if (value >= std::numeric_limits<std::int32_t>::min() &&
               value <= std::numeric_limits<std::int32_t>::max()) {
        body_ += 'J';  // BININT
        number(static_cast<std::uint64_t>(value), 4);
    } else {
        body_ += '\x8a';  // LONG1
        number(8, 1);
        number(static_cast<std::uint64_t>(value), 8);
    }
    return *this;
}

PickleWriter& PickleWriter::real(double value) {
    body_ += 'G';  // BINFLOAT: big-endian
    const std::string bytes = little_endian(std::bit_cast<std::uint64_t>(value), 8);
    body_.append(bytes.rbegin(), bytes.rend());
    return *this;
}

PickleWriter& PickleWriter::boolean(bool value) {
    body_ += value ? '\x88' : '\x89';
    return *this;
}

PickleWriter& PickleWriter::global(std::string_view module, std::string_view name) {
    const std::string key = "g" + std::string(module) + " " + std::string(name);
    if (recall(key)) {
        return *this;
    }
    if (protocol_ >= 4) {
        text(module).text(name);
        body_ += '\x93';  // STACK_GLOBAL
    } else {
        body_ += "c" + std::string(module) + "\n" + std::string(name) + "\n";
    }
    memoize(key);
    return *this;
}

PickleWriter& PickleWriter::indices(std::span<const Index> values) {
    op(Op::mark);
    for (const Index value : values) {
        integer(value);
    }
    return op(Op::tuple);
}

std::string PickleWriter::finish() const {
    const std::string head{'\x80', static_cast<char>(protocol_)};
    const std::string body = body_ + ".";
    if (protocol_ < 4) {
        return head + body;
    }
    return head + '\x95' + little_endian(body.size(), 8) + body;  // one FRAME
}

}  // namespace shardweld::bench
