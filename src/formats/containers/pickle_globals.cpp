#include "pickle_globals.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "core/text.hpp"

namespace shardweld::formats {

namespace {

using Names = std::span<const std::string_view>;

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

bool holds(Names names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

// Protocol 4 walks a dotted name attribute by attribute: "torch serialization.os.system".
bool is_denied_path(std::string_view path) {
    const auto parts = split(path, '.');
    return parts.size() > 1 && std::any_of(parts.begin(), parts.end(), [](std::string_view part) {
               return holds(kDeniedModules, part) || holds(kBuiltins, part) ||
                      holds(kDeniedBuiltins, part);
           });
}

}  // namespace

GlobalKind kind_of_global(std::string_view module, std::string_view name) {
    const std::string_view package = module.substr(0, module.find('.'));
    const bool is_builtin = holds(kBuiltins, package);
    if (holds(kDeniedModules, package) || is_denied_path(name) ||
        (is_builtin && holds(kDeniedBuiltins, name))) {
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
    const bool is_known =
        holds(kBuiltins, module) ? holds(kKnownBuiltins, name) : holds(kKnownModules, package);
    return is_known ? GlobalKind::known : GlobalKind::inert;
}

}  // namespace shardweld::formats
