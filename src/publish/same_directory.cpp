#include <random>

#include "io/whole_file.hpp"
#include "mpi/share.hpp"
#include "shardweld/error.hpp"

#include "target.hpp"

namespace shardweld::publish {

namespace {

constexpr const char* kNonceName = ".nonce";
constexpr Bytes kMaxNonce = 256;

/// Unlike any other run's: what another machine holds under the same path must not match.
std::string make_nonce() {
    std::random_device random;
    std::string nonce;
    for (int i = 0; i < 8; ++i) {
        nonce += std::to_string(random()) + ".";
    }
    return nonce;
}

}  // namespace

io::Directory check_same_directory(mpi::Comm& comm, const fs::path& partial) {
    const fs::path path = partial / kNonceName;
    const std::string nonce = mpi::collectively_get(comm, [&] {
        std::string text;
        if (comm.rank() == 0) {
            text = make_nonce();
            io::write_text(path, text, false);
        }
        return text;
    });
    const std::string expected = mpi::share(comm, 0, [&] { return nonce; });
    // Opened while rank 0 waits for all to have read.
    io::Directory directory = mpi::collectively_get(comm, [&] {
        io::Directory seen(partial);
        std::string found;
        try {
            found = io::read_text(path, kMaxNonce);
        } catch (const Error& error) {
            // No such file there, or another one. What cannot be read says nothing.
            if (error.code() != ErrorCode::not_found && error.code() != ErrorCode::corrupt) {
                throw;
            }
        }
        if (found != expected) {
            throw Error(ErrorCode::launch,
                        "the target is not the same directory for all ranks: " + partial.string() +
                            " on host " + comm.host() + " is not what rank 0 made",
                        "choose a --target_dir on a shared file system");
        }
        return seen;
    });
    mpi::collectively(comm, [&] {
        if (comm.rank() == 0) {
            fs::remove(path);
        }
    });
    return directory;
}

}  // namespace shardweld::publish
