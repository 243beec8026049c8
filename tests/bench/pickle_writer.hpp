// Python pickles, written: scalars, globals and opcodes, protocols 2 and 4.
// Knows nothing of what the pickled objects mean. Source: CPython 3.11 Lib/pickle.py.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "shardweld/core/index.hpp"

namespace shardweld::bench {

/// Opcodes without argument.
enum class Op : char {
    mark = '(',
    empty_dict = '}',
    empty_list = ']',
    empty_tuple = ')',
    tuple = 't',
    tuple1 = '\x85',
    tuple2 = '\x86',
    appends = 'e',
    append = 'a',
    setitems = 'u',
    reduce = 'R',
    newobj = '\x81',
    build = 'b',
    persistent = 'Q',
    none = 'N',
};

/// Writes a pickle from front to back; texts and globals that repeat are taken from the memo.
class PickleWriter {
  public:
    /// Requires protocol 2 or 4.
    explicit PickleWriter(int protocol) : protocol_(protocol) {}

    PickleWriter& op(Op code);
    PickleWriter& text(std::string_view value);
    PickleWriter& integer(std::int64_t value);
    PickleWriter& real(double value);
    PickleWriter& boolean(bool value);
    PickleWriter& global(std::string_view module, std::string_view name);
    /// A tuple of integers.
    PickleWriter& indices(std::span<const Index> values);

    /// Fetches the object kept under `key`; false when it must be written, and then kept.
    bool recall(const std::string& key);
    /// Keeps what was written last.
    void memoize(const std::string& key);

    /// The whole pickle.
    [[nodiscard]] std::string finish() const;

  private:
    void number(std::uint64_t value, std::size_t size);

    int protocol_;
    std::string body_;
    std::map<std::string, std::uint32_t> memo_;
};

}  // namespace shardweld::bench
