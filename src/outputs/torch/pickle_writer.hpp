// Python pickles, written: scalars, globals and opcodes, protocols 2 and 4.
// Knows nothing of what the pickled objects mean. Source: CPython 3.11 Lib/pickle.py.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/index.hpp"

namespace shardweld::outputs::torch {

/// Opcodes without argument.
enum class PickleOp : char {
    mark = '(',
    empty_dict = '}',
    empty_list = ']',
    empty_tuple = ')',
    tuple = 't',
    tuple1 = '\x85',
    tuple2 = '\x86',
    tuple3 = '\x87',
    appends = 'e',
    append = 'a',
    setitems = 'u',
    reduce = 'R',
    newobj = '\x81',
    build = 'b',
    persistent = 'Q',
    none = 'N',
};

/// Writes a pickle from front to back as Python's own pickler does: all but scalars goes into the
/// memo; texts and globals that repeat are taken from there.
class PickleWriter {
  public:
    /// Requires protocol 2 or 4.
    explicit PickleWriter(int protocol) : protocol_(protocol) {}

    PickleWriter& op(PickleOp code);
    PickleWriter& none() { return op(PickleOp::none); }
    PickleWriter& begin_dictionary() { return op(PickleOp::empty_dict).op(PickleOp::mark); }
    /// Ends the dictionary that is an object's state.
    PickleWriter& end_object() { return op(PickleOp::setitems).op(PickleOp::build); }
    /// Equal texts are one object within a `scope`: what came from another process is another
    /// object.
    PickleWriter& text(std::string_view value, std::string_view scope = {});
    PickleWriter& integer(std::int64_t value);
    PickleWriter& real(double value);
    PickleWriter& boolean(bool value);
    PickleWriter& global(std::string_view module, std::string_view name);
    /// A tuple of integers.
    PickleWriter& indices(std::span<const Index> values);

    /// Fetches the object kept under `key`; false when it must be written, and then kept.
    bool recall(const std::string& key);
    /// Keeps what was put into the memo last.
    void memoize(const std::string& key);

    /// The whole pickle.
    [[nodiscard]] std::string finish() const;

  private:
    void number(std::uint64_t value, std::size_t size);
    void put();
    /// What the memo calls a text or a global; good until the next call.
    const std::string& key(char kind, std::string_view scope, std::string_view name);

    int protocol_;
    std::string body_;
    std::unordered_map<std::string, std::uint32_t> memo_;
    std::string key_;
    std::uint32_t n_slots_ = 0;  // of the memo, most of which are never used
};

}  // namespace shardweld::outputs::torch
