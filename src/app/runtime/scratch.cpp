#include "scratch.hpp"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include <unistd.h>

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

}  // namespace

Scratch::Scratch(mpi::Comm& comm) {
    mpi::on_first(comm, [&] {
        path_ = make_directory();
        maker_ = ::getpid();
    });
    path_ = mpi::share(comm, 0, [&] { return path_.string(); });
    try {
        publish::check_same_directory(comm, path_);
    } catch (Error& error) {
        remove();
        throw error.add_context(
            "the temporary directory; say one that all ranks share with TMPDIR");
    }
}

Scratch::~Scratch() {
    remove();
}

void Scratch::remove() const noexcept {
    if (maker_ == ::getpid()) {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
}

}  // namespace shardweld::app
