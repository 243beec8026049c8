#include "errno.hpp"

#include "core/process/system.hpp"

namespace shardweld::io {

namespace {

// What to do where the system's words do not say it.
const char* advice(int error) {
    switch (error) {
        case EMFILE:
            return "allow more open files (`ulimit -n`), or keep fewer open (--max_open)";
        case EACCES:
            return "have its owner permit it, or run as a user who may";
        case ENAMETOOLONG:
            return "give a shorter name: hidden files beside a target have names some 20 bytes "
                   "longer";
        default:
            return "";
    }
}

}  // namespace

void throw_errno(int error, const std::string& what, const fs::path& path) {
    throw Error(code_of_errno(error),
                "cannot " + what + " " + path.string() + ": " + text_of_errno(error),
                advice(error));
}

}  // namespace shardweld::io
