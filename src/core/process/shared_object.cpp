#include "shared_object.hpp"

#include <link.h>
#include <system_error>

#include <dlfcn.h>

#include "shardweld/error.hpp"

namespace shardweld {

namespace {

[[noreturn]] void refuse(const std::string& text, const SharedObject::About& about) {
    throw Error(ErrorCode::unsupported, text, about.remedy);
}

/// The file of the Python module, where this code runs as a part of it; nothing in a program.
std::optional<fs::path> own_module() {
    Dl_info info{};
    link_map* object = nullptr;
    if (dladdr1(reinterpret_cast<const void*>(&refuse), &info, reinterpret_cast<void**>(&object),
                RTLD_DL_LINKMAP) == 0 ||
        object->l_name == nullptr || object->l_name[0] == '\0') {
        return std::nullopt;
    }
    return fs::absolute(object->l_name);
}

}  // namespace

std::vector<fs::path> installed_places(const std::string& file_name) {
    if (const auto module = own_module()) {
        // PREFIX/lib/python3.N/site-packages/shardweld/_core.abi3.so
        const fs::path package = module->parent_path();
        const fs::path lib = package.parent_path().parent_path().parent_path();
        return {package / file_name, lib / "shardweld" / file_name};
    }
    std::error_code error;
    const auto program = fs::read_symlink("/proc/self/exe", error);
    if (error) {
        throw Error(ErrorCode::unsupported,
                    "cannot tell where the program lies (/proc/self/exe: " + error.message() + ")");
    }
    auto folder = program.parent_path();
    if (folder.parent_path().filename() == "libexec") {  // PREFIX/libexec/shardweld/shardweld-mount
        folder = folder.parent_path().parent_path() / "bin";
    }
    return {folder / file_name, folder.parent_path() / "lib" / "shardweld" / file_name};
}

std::optional<fs::path> find_installed(const std::string& file_name) {
    for (const auto& path : installed_places(file_name)) {
        std::error_code error;
        if (fs::exists(path, error)) {
            return path;
        }
    }
    return std::nullopt;
}

SharedObject SharedObject::load(const fs::path& path, About about) {
    // Local: the names of many libraries must not meet the program's.
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) {
        const char* reason = dlerror();
        refuse("cannot load " + about.what + " " + path.string() + ": " +
                   (reason != nullptr ? reason : "unknown reason"),
               about);
    }
    return {library, path, std::move(about)};
}

SharedObject SharedObject::load_installed(const std::string& file_name, About about) {
    if (const auto path = find_installed(file_name)) {
        return load(*path, std::move(about));
    }
    const auto places = installed_places(file_name);
    refuse(
        about.what + " is not there, neither " + places[0].string() + " nor " + places[1].string(),
        about);
}

void SharedObject::require_abi(int found, int needed) const {
    if (found != needed) {
        refuse(about_.what + " " + path_.string() + " has interface " + std::to_string(found) +
                   ", this program needs " + std::to_string(needed),
               about_);
    }
}

void* SharedObject::address_of(const char* name) const {
    void* address = dlsym(library_, name);
    if (address == nullptr) {
        refuse(about_.what + " has no function " + name, about_);
    }
    return address;
}

}  // namespace shardweld
