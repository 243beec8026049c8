// A restricted pickle machine: builds inert values, imports and calls nothing.
// Knows pickle protocols 0-5 as written by torch and megatron; meaning of classes is left to the
// caller. Opcodes: CPython 3.11 Lib/pickletools.py.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardweld/core/index.hpp"

namespace shardweld::formats {

enum class PickleKind : std::uint8_t {
    none,
    boolean,
    integer,
    real,
    text,
    bytes,
    tuple,
    list,
    dict,
    set,
    global,
    object,
    persistent,
    big_integer
};

/// One value; lives as long as its Pickle. Containers hold references, so shared values stay
/// shared.
struct PickleValue {
    PickleKind kind = PickleKind::none;
    std::int64_t integer = 0;  ///< boolean, integer
    double real = 0;
    std::string_view
        text;  ///< text, bytes, big_integer (raw two's complement LE); global: "module name"
    std::vector<const PickleValue*>
        items;  ///< tuple, list, set; dict: key, value, key, value...; object: see below
    // object (REDUCE, NEWOBJ, BUILD): `callee` is the class or function, items the arguments,
    // `state` the BUILD argument or null, `extra` the items appended or set on it afterwards (dict
    // subclasses: key, value, ...; list subclasses: values).
    const PickleValue* callee = nullptr;
    const PickleValue* state = nullptr;
    std::vector<const PickleValue*> extra;

    [[nodiscard]] bool is_text(std::string_view s) const {
        return kind == PickleKind::text && text == s;
    }
    /// For global and object: the class's or function's "module name", e.g. "torch._utils
    /// _rebuild_tensor_v2"; "" otherwise.
    [[nodiscard]] std::string_view class_name() const;
    /// dict, or object of an OrderedDict-like class: number of pairs, and pair i.
    [[nodiscard]] bool is_mapping() const;
    [[nodiscard]] std::size_t pair_count() const;
    [[nodiscard]] const PickleValue& key(std::size_t i) const;
    [[nodiscard]] const PickleValue& value(std::size_t i) const;
    /// Last value under a text key of a mapping, or nullptr.
    [[nodiscard]] const PickleValue* find(std::string_view name) const;
    /// tuple, list, set or torch.Size-like object: its elements as a span of pointers.
    [[nodiscard]] std::span<const PickleValue* const> elements() const;
    /// Attribute of an object: looks in its BUILD state (a dict, or the dict of a (dict, slots)
    /// tuple).
    [[nodiscard]] const PickleValue* attribute(std::string_view name) const;
};

/// A parsed pickle: owns its values and the bytes they view.
class Pickle {
  public:
    /// Parses one pickle from the start of `bytes` (moved in, kept alive). Throws Error(corrupt) on
    /// malformed, truncated or bomb-like input (every length checked against what is left; memo
    /// indices, stack depth and nesting bounded; total values bounded by the input's size; cyclic
    /// and exponentially shared structures are safe because values are shared and never copied or
    /// expanded) and on denied globals: Error(corrupt) naming module and name, wherever they stand
    /// (os posix nt subprocess sys socket shutil importlib runpy ctypes pty and any submodule;
    /// __builtin__/builtins eval exec compile open __import__); INST, OBJ, EXT1/2/4 are
    /// Error(corrupt) as well.
    static Pickle parse(std::vector<std::byte> bytes);

    [[nodiscard]] const PickleValue& root() const { return *root_; }
    /// Bytes consumed, STOP included (pre-zip torch files hold several pickles one after another).
    [[nodiscard]] std::size_t consumed() const { return consumed_; }
    /// Globals outside the known set, "module name", kept as inert values.
    [[nodiscard]] const std::set<std::string>& inert_globals() const { return inert_; }

    Pickle(Pickle&&) noexcept = default;
    Pickle& operator=(Pickle&&) noexcept = default;
    Pickle(const Pickle&) = delete;
    Pickle& operator=(const Pickle&) = delete;
    ~Pickle() = default;

  private:
    Pickle() = default;
    friend class PickleMachine;
    std::vector<std::byte> bytes_;
    std::deque<PickleValue> values_;
    std::deque<std::string> texts_;  // decoded escapes of protocol 0 and _codecs.encode results
    const PickleValue* root_ = nullptr;
    std::size_t consumed_ = 0;
    std::set<std::string> inert_;
};

}  // namespace shardweld::formats
