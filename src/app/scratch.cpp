#include "scratch.hpp"

#include <cerrno>
#include <cstdlib>
#include <span>
#include <string>
#include <system_error>

#include "shardweld/core/error.hpp"
#include "shardweld/publish/target.hpp"

namespace shardweld::app {

namespace {

std::string make_directory() {
    std::error_code failed;
    const auto base = std::filesystem::temp_directory_path(failed);
    std::string name = ((failed ? "/tmp" : base) / "shardweld.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
        throw Error(ErrorCode::io, "cannot make a temporary directory " + name + ": " +
                                       std::generic_category().message(errno) +
                                       "; say another place with TMPDIR");
    }
    return name;
}

}  // namespace

Scratch::Scratch(mpi::Comm& comm) {
    std::string name;
    mpi::collectively(comm, [&] {
        if (comm.rank() == 0) {
            name = make_directory();
            path_ = name;
            is_mine_ = true;
        }
    });
    const auto bytes = std::as_bytes(std::span(name));
    const auto shared = comm.broadcast({bytes.begin(), bytes.end()}, 0);
    path_ = std::string(reinterpret_cast<const char*>(shared.data()), shared.size());
    try {
        publish::check_same_directory(comm, path_);
    } catch (Error& error) {
        if (is_mine_) {
            std::error_code ignored;
            std::filesystem::remove_all(path_, ignored);
        }
        error.add_context("the temporary directory; say one that all ranks share with TMPDIR");
        throw;
    }
}

Scratch::~Scratch() {
    if (is_mine_) {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
}

}  // namespace shardweld::app
