#include "pickle_globals.hpp"

#include <algorithm>
#include <array>

namespace shardweld::formats {

namespace {

constexpr std::array<std::string_view, 11> kDeniedModules = {
    "os",     "posix",     "nt",    "subprocess", "sys", "socket",
    "shutil", "importlib", "runpy", "ctypes",     "pty"};
constexpr std::array<std::string_view, 5> kDeniedBuiltins = {"eval", "exec", "compile", "open",
                                                             "__import__"};
constexpr std::array<std::string_view, 2> kBuiltins = {"builtins", "__builtin__"};

template <std::size_t N>
bool holds(const std::array<std::string_view, N>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

std::string_view first_part(std::string_view path) {
    return path.substr(0, path.find('.'));
}

// Protocol 4 walks a dotted name attribute by attribute: "torch serialization.os.system".
bool path_is_denied(std::string_view path) {
    while (!path.empty()) {
        const std::string_view part = first_part(path);
        if (holds(kDeniedModules, part) || holds(kBuiltins, part) || holds(kDeniedBuiltins, part)) {
            return true;
        }
        path.remove_prefix(std::min(path.size(), part.size() + 1));
    }
    return false;
}

constexpr std::array<std::string_view, 8> kKnownModules = {
    "torch", "collections", "argparse", "_codecs", "copyreg", "copy_reg", "pathlib", "_io"};
constexpr std::array<std::string_view, 12> kKnownBuiltins = {
    "set", "frozenset", "list", "tuple", "dict",   "bytes",
    "str", "int",       "bool", "float", "object", "bytearray"};

}  // namespace

bool is_denied_global(std::string_view module, std::string_view name) {
    if (holds(kDeniedModules, first_part(module))) {
        return true;
    }
    if (holds(kBuiltins, first_part(module)) && holds(kDeniedBuiltins, first_part(name))) {
        return true;
    }
    return name.find('.') != std::string_view::npos && path_is_denied(name);
}

bool is_known_global(std::string_view module, std::string_view name) {
    if (holds(kBuiltins, module)) {
        return holds(kKnownBuiltins, name);
    }
    return holds(kKnownModules, first_part(module));
}

SpecialGlobal special_global(std::string_view module, std::string_view name) {
    if (module == "torch" && name == "Size") {
        return SpecialGlobal::size;
    }
    if (module == "_codecs" && name == "encode") {
        return SpecialGlobal::encode;
    }
    if ((module == "copyreg" || module == "copy_reg") && name == "_reconstructor") {
        return SpecialGlobal::reconstructor;
    }
    return SpecialGlobal::none;
}

}  // namespace shardweld::formats
