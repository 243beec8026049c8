// Globals and objects of a pickle, and objects that are taken out of it while it is read: what they
// were made of is used again.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/text.hpp"

#include "pickle_machine.hpp"
#include "pickle_reader.hpp"

namespace shardweld::formats {

namespace {

enum class GlobalKind : std::uint8_t {
    known,   ///< names that torch's and megatron's own files use as a matter of course
    inert,   ///< any other
    denied,  ///< names that only an attack would use, also as part of a dotted path
    size,    ///< known, and the machine does something when they are called
    encode,
    reconstructor
};

constexpr auto kDeniedModules =
    std::to_array<std::string_view>({"os", "posix", "nt", "subprocess", "sys", "socket", "shutil",
                                     "importlib", "runpy", "ctypes", "pty"});
constexpr auto kDeniedBuiltins =
    std::to_array<std::string_view>({"eval", "exec", "compile", "open", "__import__"});
constexpr auto kBuiltins = std::to_array<std::string_view>({"builtins", "__builtin__"});
constexpr auto kKnownModules = std::to_array<std::string_view>(
    {"torch", "collections", "argparse", "_codecs", "copyreg", "copy_reg", "pathlib", "_io"});
constexpr auto kKnownBuiltins =
    std::to_array<std::string_view>({"set", "frozenset", "list", "tuple", "dict", "bytes", "str",
                                     "int", "bool", "float", "object", "bytearray"});

// Protocol 4 walks a dotted name attribute by attribute: "torch serialization.os.system".
bool is_denied_path(std::string_view path) {
    const auto parts = split(path, '.');
    return parts.size() > 1 && std::ranges::any_of(parts, [](std::string_view part) {
               return contains(kDeniedModules, part) || contains(kBuiltins, part) ||
                      contains(kDeniedBuiltins, part);
           });
}

GlobalKind kind_of_global(std::string_view module, std::string_view name) {
    const std::string_view package = module.substr(0, module.find('.'));
    const bool is_builtin = contains(kBuiltins, package);
    if (contains(kDeniedModules, package) || is_denied_path(name) ||
        (is_builtin && contains(kDeniedBuiltins, name))) {
        return GlobalKind::denied;
    }
    if (module == "torch" && name == "Size") {
        return GlobalKind::size;
    }
    if (module == "_codecs" && name == "encode") {
        return GlobalKind::encode;
    }
    if ((module == "copyreg" || module == "copy_reg") && name == "_reconstructor") {
        return GlobalKind::reconstructor;
    }
    const bool is_known = contains(kBuiltins, module) ? contains(kKnownBuiltins, name)
                                                      : contains(kKnownModules, package);
    return is_known ? GlobalKind::known : GlobalKind::inert;
}

constexpr std::size_t kMaxNameBytes = 512;

bool is_plain_name(std::string_view name) {
    return !name.empty() && name.size() <= kMaxNameBytes &&
           std::ranges::all_of(name, [](char c) { return c > ' ' && c != '\x7f'; });
}

bool is_latin1(std::string_view encoding) {
    return encoding == "latin1" || encoding == "latin-1" || encoding == "iso-8859-1";
}

}  // namespace

std::string_view PickleMachine::name_in(const PickleValue* text) const {
    if (text->kind != PickleKind::text) {
        fail("STACK_GLOBAL needs two texts");
    }
    return text->text();
}

PickleValue* PickleMachine::global(std::string_view module, std::string_view name) {
    name_.assign(module).append(" ").append(name);
    auto* const known = find_value(globals_, name_);
    return known != nullptr ? *known : new_global(module, name);
}

PickleValue* PickleMachine::new_global(std::string_view module, std::string_view name) {
    if (!is_plain_name(module) || !is_plain_name(name)) {
        fail("'" + printable(module, 60) + " " + printable(name, 60) +
             "' is not the name of a global");
    }
    const GlobalKind kind = kind_of_global(module, name);
    if (kind == GlobalKind::denied) {
        refuse_hostile("disallowed global " + printable(module) + "." + printable(name) +
                       "; the file tries to run code and was not made by a trainer");
    }
    const std::string_view text = arena_.keep(name_);
    PickleValue* const global = chars(PickleKind::global, text);
    global->detail =
        static_cast<std::uint8_t>(static_cast<std::uint8_t>(kind) | pickle_detail::kShared);
    if (const auto number = reducer_ == nullptr ? std::nullopt : reducer_->takes(text)) {
        global->detail |= pickle_detail::kReduced;
        reduced_classes_.emplace_back(global, *number);
    }
    if (kind == GlobalKind::inert) {
        pickle_.inert_.emplace(text);
    }
    return globals_[text] = global;
}

PickleValue* PickleMachine::object(PickleValue* callee, PickleValue* arguments) {
    if (callee->kind != PickleKind::global && callee->kind != PickleKind::object) {
        fail(in_words(callee->kind) + " is called as a class or function");
    }
    if (arguments->kind != PickleKind::tuple) {
        fail("the arguments of " + printable(callee->class_name()) + " are " +
             in_words(arguments->kind) + ", expected a tuple");
    }
    PickleValue* const value = make(PickleKind::object);
    value->object = new (arena_.allocate(sizeof(PickleObject)))
        PickleObject{callee, arguments, nullptr, nullptr};
    nest(*value, *callee);
    nest(*value, *arguments);
    return value;
}

PickleValue* PickleMachine::called(PickleValue* callee, PickleValue* arguments) {
    const bool is_call = callee->kind == PickleKind::global && arguments->kind == PickleKind::tuple;
    const Values given(arguments->parts, is_call ? arguments->size : 0);
    switch (static_cast<GlobalKind>(is_call ? callee->detail & pickle_detail::kGlobalKind : 0)) {
        case GlobalKind::size:
            if (given.size() == 1 && given[0]->kind == PickleKind::tuple) {
                return only_part(arguments);
            }
            break;
        case GlobalKind::encode:
            if (given.size() == 2 && given[0]->kind == PickleKind::text &&
                is_latin1(given[1]->text())) {
                return latin1_bytes(given[0]->text());
            }
            break;
        case GlobalKind::reconstructor:
            // (class, base, base's state), as protocols 0 and 1 write plain objects.
            if (given.size() == 3) {
                given[0]->detail |= pickle_detail::kShared;  // the arguments hold it as well
                return object(given[0], empty_tuple_);
            }
            break;
        default:
            break;
    }
    return object(callee, arguments);
}

// Protocol 2 has no bytes: Python 3 writes them as text whose code points are the byte values.
PickleValue* PickleMachine::latin1_bytes(std::string_view text) {
    // Kept per text, so that a large one named again and again is decoded once.
    PickleValue*& value = latin1_[text.data()];
    if (value != nullptr) {
        return value;
    }
    const bool is_ascii = std::ranges::all_of(text, [](char c) { return c >= 0; });
    if (!is_ascii) {
        const auto bytes = bytes_of_latin1(text);
        if (!bytes) {
            fail("text of _codecs.encode is not Latin-1");
        }
        text = arena_.keep(*bytes);
    }
    value = chars(PickleKind::bytes, text);
    value->detail = pickle_detail::kShared;
    return value;
}

PickleValue* PickleMachine::built(PickleValue* target, PickleValue* state) {
    if (target->kind != PickleKind::object) {
        fail("BUILD on " + in_words(target->kind));
    }
    nest(*target, *state);
    target->object->state = state;
    const PickleValue& callee = *target->object->callee;
    if (callee.kind == PickleKind::global && (callee.detail & pickle_detail::kReduced) != 0) {
        reduce(*target);
    }
    return target;
}

PickleValue* PickleMachine::persistent(PickleValue* id) {
    PickleValue* const value = make_shared(PickleKind::persistent);
    nest(*value, *id);
    value->id = id;
    pickle_.persistents_.push_back(value);
    return value;
}

void PickleMachine::reduce(PickleValue& object) {
    PickleObject* const parts = object.object;
    const auto known = std::ranges::find_if(
        reduced_classes_, [&](const auto& entry) { return entry.first == parts->callee; });
    const auto answer = reducer_->reduce(known->second, object);
    if (!answer) {
        return;
    }
    object.kind = PickleKind::reduced;
    object.size = known->second;
    object.integer = *answer;
    for (PickleValue* const part : {parts->arguments, parts->state, parts->extra}) {
        release(part);
    }
    arena_.release(parts, sizeof(PickleObject));
}

// A value that is not shared has one reference: the one that goes now. So what hangs on it is a
// tree, no deeper than values are nested.
void PickleMachine::release(PickleValue* value) {
    if (value == nullptr || (value->detail & pickle_detail::kShared) != 0) {
        return;
    }
    switch (value->kind) {
        case PickleKind::tuple:
        case PickleKind::list:
        case PickleKind::set:
        case PickleKind::dict:
            std::for_each_n(value->parts, value->size,
                            [this](PickleValue* part) { release(part); });
            release_parts(*value);
            break;
        case PickleKind::object:
            for (PickleValue* const part : {value->object->callee, value->object->arguments,
                                            value->object->state, value->object->extra}) {
                release(part);
            }
            arena_.release(value->object, sizeof(PickleObject));
            break;
        default:
            break;
    }
    arena_.release(value, sizeof(PickleValue));
}

void PickleMachine::release_parts(const PickleValue& value) {
    const bool is_grown = (value.detail & pickle_detail::kGrown) != 0;
    const std::size_t capacity = is_grown ? std::bit_ceil(std::size_t{value.size}) : value.size;
    if (capacity != 0) {
        // NOLINTNEXTLINE(bugprone-sizeof-expression): the parts are pointers
        arena_.release(value.parts, capacity * sizeof(PickleValue*));
    }
}

// The memory of a tuple that nothing else refers to is used again.
PickleValue* PickleMachine::only_part(PickleValue* tuple) {
    PickleValue* const part = tuple->parts[0];
    if ((tuple->detail & pickle_detail::kShared) != 0) {
        part->detail |= pickle_detail::kShared;
    } else {
        release_parts(*tuple);
        arena_.release(tuple, sizeof(PickleValue));
    }
    return part;
}

}  // namespace shardweld::formats
