#include "change.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <sys/wait.h>
#include <unistd.h>

namespace shardweld::faults {

namespace {

namespace fs = std::filesystem;

constexpr const char* kElsewhere = "/etc/passwd";
constexpr char kOther = '\xa5';

void put(std::fstream file, std::streamoff at) {
    std::array<char, 4096> bytes{};
    bytes.fill(kOther);
    file.seekp(at);
    file.write(bytes.data(), bytes.size());
    file.close();
    if (!file) {
        std::fprintf(stderr, "faults: a file could not be changed\n");
        std::_Exit(99);
    }
}

void run_script(const std::string& path) {
    const char* const script = std::getenv("SHARDWELD_FAULT_SCRIPT");
    const pid_t child = script == nullptr ? -1 : ::fork();
    if (child == 0) {
        ::unsetenv("LD_PRELOAD");
        ::execl("/bin/sh", "sh", "-c", script, "sh", path.c_str(), nullptr);
        ::_exit(127);
    }
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) {
        std::fprintf(stderr, "faults: the script failed\n");
        std::_Exit(99);
    }
}

}  // namespace

void change(Kind kind, const std::string& path) {
    if (kind == Kind::script) {
        return run_script(path);
    }
    if (!fs::is_regular_file(path)) {
        return;  // looked for, but not there
    }
    const auto size = static_cast<std::streamoff>(fs::file_size(path));
    const auto open = [](const std::string& name) {
        return std::fstream(name, std::ios::binary | std::ios::in | std::ios::out);
    };
    switch (kind) {
        case Kind::scribble:
            return put(open(path), size / 2);
        case Kind::grow:
            return put(open(path), size);
        case Kind::shorten:
            return fs::resize_file(path, static_cast<std::uintmax_t>(size / 2));
        case Kind::replace:
            fs::copy_file(path, path + ".new");
            put(open(path + ".new"), size > 8192 ? size - 4096 : 0);
            return fs::rename(path + ".new", path);
        case Kind::link:
            fs::remove(path);
            return fs::create_symlink(kElsewhere, path);
        default:
            fs::remove(path);
    }
}

}  // namespace shardweld::faults
