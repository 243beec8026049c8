#include "pickle_writer.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "core/lists.hpp"
#include "outputs/little_endian.hpp"

namespace shardweld::outputs::torch {

namespace {

// What Python keeps in the memo; marks, scalars and empty tuples it does not.
bool is_kept(PickleOp code) {
    constexpr std::array<PickleOp, 8> kKept = {
        PickleOp::empty_dict, PickleOp::empty_list, PickleOp::tuple,  PickleOp::tuple1,
        PickleOp::tuple2,     PickleOp::tuple3,     PickleOp::reduce, PickleOp::newobj};
    return contains(kKept, code);
}

}  // namespace

void PickleWriter::number(std::uint64_t value, std::size_t size) {
    append_number(body_, value, size);
}

const std::string& PickleWriter::key(char kind, std::string_view scope, std::string_view name) {
    return key_.assign(1, kind).append(scope).append("/").append(name);
}

bool PickleWriter::recall(const std::string& key) {
    auto* const at = find_value(memo_, key);
    if (at == nullptr) {
        return false;
    }
    const bool is_short = *at < 256;
    body_ += is_short ? 'h' : 'j';  // BINGET, LONG_BINGET
    number(*at, is_short ? 1 : 4);
    return true;
}

void PickleWriter::memoize(const std::string& key) {
    memo_.emplace(key, n_slots_ - 1);
}

void PickleWriter::put() {
    const std::uint32_t slot = n_slots_++;
    if (protocol_ >= 4) {
        body_ += '\x94';  // MEMOIZE: the next slot
        return;
    }
    body_ += slot < 256 ? 'q' : 'r';  // BINPUT, LONG_BINPUT
    number(slot, slot < 256 ? 1 : 4);
}

PickleWriter& PickleWriter::op(PickleOp code) {
    body_ += static_cast<char>(code);
    if (is_kept(code)) {
        put();
    }
    return *this;
}

PickleWriter& PickleWriter::text(std::string_view value, std::string_view scope) {
    if (recall(key('t', scope, value))) {
        return *this;
    }
    const bool is_short = protocol_ >= 4 && value.size() < 256;
    body_ += is_short ? '\x8c' : 'X';  // SHORT_BINUNICODE, BINUNICODE
    number(value.size(), is_short ? 1 : 4);
    body_ += value;
    put();
    memoize(key('t', scope, value));
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
    number(std::bit_cast<std::uint64_t>(value), 8);
    std::reverse(body_.end() - 8, body_.end());
    return *this;
}

PickleWriter& PickleWriter::boolean(bool value) {
    body_ += value ? '\x88' : '\x89';
    return *this;
}

PickleWriter& PickleWriter::global(std::string_view module, std::string_view name) {
    if (recall(key('g', module, name))) {
        return *this;
    }
    if (protocol_ >= 4) {
        text(module).text(name);
        body_ += '\x93';  // STACK_GLOBAL
    } else {
        body_ += "c" + std::string(module) + "\n" + std::string(name) + "\n";
    }
    put();
    memoize(key('g', module, name));
    return *this;
}

PickleWriter& PickleWriter::indices(std::span<const Index> values) {
    constexpr std::array<PickleOp, 4> kShort = {PickleOp::empty_tuple, PickleOp::tuple1,
                                                PickleOp::tuple2, PickleOp::tuple3};
    const bool is_short = values.size() < kShort.size();
    if (!is_short) {
        op(PickleOp::mark);
    }
    for (const Index value : values) {
        integer(value);
    }
    return op(is_short ? kShort.at(values.size()) : PickleOp::tuple);
}

std::string PickleWriter::finish() const {
    std::string pickle{'\x80', static_cast<char>(protocol_)};
    if (protocol_ >= 4) {
        pickle += '\x95';  // one FRAME
        append_number(pickle, body_.size() + 1, 8);
    }
    pickle.reserve(pickle.size() + body_.size() + 1);
    return pickle.append(body_).append(1, '.');
}

}  // namespace shardweld::outputs::torch
