#include "scratch.hpp"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include <unistd.h>

#include "io/errno.hpp"
#include "mpi/share.hpp"
#include "publish/target.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

constexpr const char* kUnique = "XXXXXX";

std::string make_directory() {
    std::error_code failed;
    const auto base = fs::temp_directory_path(failed);
    std::string name = ((failed ? "/tmp" : base) / "shardweld.").string() + kUnique;
    if (mkdtemp(name.data()) == nullptr) {
        throw Error(ErrorCode::io,
                    "cannot make a temporary directory " + name + ": " +
                        std::generic_category().message(errno),
                    "say another place with TMPDIR");
    }
    return name;
}

std::string make_directory_below(const fs::path& directory, const std::string& prefix) {
    std::string name = (fs::absolute(directory) / (prefix + kUnique)).string();
    if (mkdtemp(name.data()) != nullptr) {
        return name;
    }
    const int error = errno;
    if (error == EACCES || error == EPERM || error == EROFS || error == ENOTDIR) {
        throw Error(ErrorCode::target,
                    "cannot make a directory in " + directory.string() + ": " +
                        std::generic_category().message(error),
                    "name a directory that may be written");
    }
    io::throw_errno(error, "make a directory in", directory);
}

}  // namespace

Scratch::Scratch(mpi::Comm& comm) {
    mpi::collectively(comm, [&] {
        if (comm.rank() == 0) {
            path_ = make_directory();
            maker_ = ::getpid();
        }
    });
    share(comm, "the temporary directory; say one that all ranks share with TMPDIR");
}

Scratch::Scratch(mpi::Comm& comm, const fs::path& directory, const std::string& prefix) {
    mpi::collectively(comm, [&] {
        if (comm.rank() == 0) {
            path_ = make_directory_below(directory, prefix);
            maker_ = ::getpid();
        }
    });
    share(comm, "the directory made in " + directory.string());
}

void Scratch::share(mpi::Comm& comm, const std::string& advice) {
    path_ = mpi::share(comm, 0, [&] { return path_.string(); });
    try {
        publish::check_same_directory(comm, path_);
    } catch (Error& error) {
        if (maker_ == ::getpid()) {
            std::error_code ignored;
            fs::remove_all(path_, ignored);
        }
        error.add_context(advice);
        throw;
    }
}

Scratch::~Scratch() {
    if (maker_ == ::getpid()) {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
}

}  // namespace shardweld::app
