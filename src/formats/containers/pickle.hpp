// A restricted pickle machine: builds inert values, imports and calls nothing. Protocols 0 to 5 as
// torch and megatron write them; what classes mean is left to the caller. Opcodes: CPython 3.11
// Lib/pickletools.py.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/index.hpp"
#include "core/lists.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

/// The kinds of value that a pickle holds.
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
    big_integer,
    reduced  ///< an object that a PickleReducer took: `integer` is what it answered
};

/// The kind's name for messages: "tuple".
std::string_view name_of(PickleKind kind);
/// With its article: "a list", "an integer".
std::string in_words(PickleKind kind);

struct PickleObject;
struct PickleValue;
class PickleArena;

/// What a container holds, in its order.
using PickleValues = std::span<const PickleValue* const>;

/// One value; lives as long as its Pickle. Containers hold references, so shared values stay
/// shared; hostile pickles may hold cycles, so a caller that descends bounds its depth.
/// Compact (16 bytes): files hold them by the million. `integer` and `real` mean something for
/// their kinds only. Never built by callers.
struct PickleValue {
    PickleKind kind = PickleKind::none;
    std::uint8_t detail = 0;  ///< private to the machine
    std::uint16_t depth = 0;  ///< nesting below this value as it was built
    std::uint32_t size = 0;   ///< of reduced: number of its class; else private to the machine
    union {
        std::int64_t integer = 0;  ///< boolean, integer, reduced
        double real;
        const char* chars;     ///< private to the machine, as are all below: text and the like
        PickleValue** parts;   ///< tuple, list, set, dict
        PickleObject* object;  ///< object
        PickleValue* id;       ///< persistent
    };

    /// text, bytes; big_integer (raw two's complement, little-endian); global: "module name"; ""
    /// for every other kind.
    [[nodiscard]] std::string_view text() const {
        const bool has_text = kind == PickleKind::text || kind == PickleKind::bytes ||
                              kind == PickleKind::big_integer || kind == PickleKind::global;
        return has_text ? std::string_view(chars, size) : std::string_view();
    }
    /// A tuple or a list.
    [[nodiscard]] bool is_list() const {
        return kind == PickleKind::tuple || kind == PickleKind::list;
    }
    [[nodiscard]] bool is_text(std::string_view s) const {
        return kind == PickleKind::text && std::string_view(chars, size) == s;
    }
    /// For global and object: the class's or function's "module name", e.g. "torch._utils
    /// _rebuild_tensor_v2"; "" otherwise.
    [[nodiscard]] std::string_view class_name() const;

    /// dict, OrderedDict-like object, or object on which items were set: number of pairs, and
    /// pair i. Error(internal) for i out of range, Error(corrupt) for a malformed pair.
    [[nodiscard]] bool is_mapping() const;
    [[nodiscard]] std::size_t pair_count() const;
    [[nodiscard]] const PickleValue& key(std::size_t i) const;
    [[nodiscard]] const PickleValue& value(std::size_t i) const;
    /// All pairs, to go through.
    [[nodiscard]] auto pairs() const {
        const auto pair_at = [this](std::size_t i) {
            return std::pair<const PickleValue&, const PickleValue&>(key(i), value(i));
        };
        return IndexRun<decltype(pair_at)>{0, pair_count(), pair_at};
    }
    /// Last value under a text key of a mapping; nullptr where there is none. Linear.
    [[nodiscard]] const PickleValue* find(std::string_view name) const;

    /// tuple, list, set, an object of one of these classes, or an object that items were appended
    /// to: its elements. Empty for every other kind. torch.Size arrives as a plain tuple.
    [[nodiscard]] PickleValues elements() const;

    /// An object's (REDUCE, NEWOBJ) class or function, its arguments, and the BUILD argument or
    /// nullptr; for other kinds nullptr, empty, nullptr.
    [[nodiscard]] inline const PickleValue* callee() const;
    [[nodiscard]] PickleValues arguments() const;
    [[nodiscard]] inline const PickleValue* state() const;
    /// Attribute of an object: looks in its BUILD state; nullptr when absent. Error(corrupt) when
    /// there are more attributes than any object has.
    [[nodiscard]] const PickleValue* attribute(std::string_view name) const;
    /// Attribute in a state: a dict, or the dicts of a (dict, slots) tuple. Error(corrupt)
    /// likewise.
    [[nodiscard]] const PickleValue* find_attribute(std::string_view name) const;

    /// A persistent's id; nullptr for other kinds.
    [[nodiscard]] const PickleValue* persistent_id() const {
        return kind == PickleKind::persistent ? id : nullptr;
    }
};
static_assert(sizeof(PickleValue) == 16);

/// The parts of an object; private to the machine.
struct PickleObject {
    PickleValue* callee;
    PickleValue* arguments;  ///< a tuple
    PickleValue* state;      ///< null without BUILD
    PickleValue* extra;      ///< what was appended (a list) or set (a dict) afterwards, or null
};

inline const PickleValue* PickleValue::callee() const {
    return kind == PickleKind::object ? object->callee : nullptr;
}
inline const PickleValue* PickleValue::state() const {
    return kind == PickleKind::object ? object->state : nullptr;
}

/// Takes objects out of a pickle as soon as they are whole, so that those of which there are
/// millions need not be held as values.
class PickleReducer {
  public:
    PickleReducer() = default;
    PickleReducer(const PickleReducer&) = delete;
    PickleReducer& operator=(const PickleReducer&) = delete;
    virtual ~PickleReducer() = default;

    /// The number by which the caller knows a class ("module name"); nullopt: not taken. Asked when
    /// the class is first met.
    virtual std::optional<std::uint32_t> takes(std::string_view class_name) = 0;
    /// An object of such a class, built; it is gone afterwards, its texts live as long as the
    /// Pickle. What a value of kind reduced holds in its place; nullopt: it stays as it is.
    virtual std::optional<std::int64_t> reduce(std::uint32_t number, const PickleValue& object) = 0;
    /// All is forgotten and parsed again.
    virtual void restart() = 0;
};

/// While one lives, memory of this thread's pickles that are gone is kept for those that follow: a
/// page costs most when it is first touched. For reading one large file after another; all of it
/// goes back at the end. One within another keeps its own.
class PickleMemory {
  public:
    PickleMemory();
    ~PickleMemory();
    PickleMemory(const PickleMemory&) = delete;
    PickleMemory& operator=(const PickleMemory&) = delete;

    /// The bytes of a pickle that is gone, to be written over with another's; else an empty vector.
    static std::vector<std::byte> spare_bytes();

  private:
    friend class PickleArena;
    std::list<std::unique_ptr<std::byte[]>> chunks_;
    std::vector<std::byte> bytes_;  // the largest pickle's
    PickleMemory* outer_;
};

/// The input ended inside the pickle: more bytes might complete it.
class PickleCutShort : public Error {
  public:
    explicit PickleCutShort(const std::string& message) : Error(ErrorCode::corrupt, message) {}
};

/// A parsed pickle: owns its values and the bytes they view. A copy shares them.
class Pickle {
  public:
    /// Parses one pickle from the start of `bytes` (moved in, kept alive). Throws Error(corrupt) on
    /// malformed or bomb-like input (every length checked against what is left; memo indices and
    /// nesting bounded; time and memory linear in the input's size; cyclic and exponentially shared
    /// structures are safe because values are shared and never copied or expanded), PickleCutShort
    /// where the bytes end too early, and Error(corrupt) naming module and name of denied globals,
    /// wherever they stand (os posix nt subprocess sys socket shutil importlib runpy ctypes pty and
    /// any submodule; __builtin__/builtins eval exec compile open __import__); PERSID, INST, OBJ,
    /// EXT1/2/4 and out-of-band buffers are Error(corrupt) as well.
    /// Where the outermost object's state has the key `skipped_key` (if not ""), its value is not
    /// kept and reads as none; its opcodes and globals are checked.
    /// With a `reducer`, which is to live for this call, memory goes with what is left.
    static Pickle parse(std::vector<std::byte> bytes, std::string_view skipped_key = {},
                        PickleReducer* reducer = nullptr);

    [[nodiscard]] const PickleValue& root() const { return *root_; }
    /// All that it was parsed from.
    [[nodiscard]] std::string_view bytes() const;
    /// Bytes consumed, STOP included (pre-zip torch files hold several pickles one after another).
    [[nodiscard]] std::size_t consumed() const { return consumed_; }
    /// Globals outside the known set, "module name", kept as inert values.
    [[nodiscard]] const std::set<std::string>& inert_globals() const { return inert_; }
    /// Every persistent value, in the order of the stream.
    [[nodiscard]] PickleValues persistents() const { return persistents_; }

  private:
    friend class PickleMachine;
    Pickle() = default;
    std::shared_ptr<PickleArena> memory_;
    std::vector<const PickleValue*> persistents_;
    const PickleValue* root_ = nullptr;
    std::size_t consumed_ = 0;
    std::set<std::string> inert_;
};

}  // namespace shardweld::formats
