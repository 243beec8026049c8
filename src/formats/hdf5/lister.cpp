#include "lister.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <spawn.h>
#include <string>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/process/system.hpp"
#include "core/text.hpp"
#include "io/cursor.hpp"
#include "io/descriptor.hpp"
#include "io/errno.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::hdf5 {

namespace {

using shardweld::hdf5::ListingEntry;

constexpr std::uint64_t kMostAxes = 32;
constexpr const char* kWhat = "the list of datasets";

[[noreturn]] void refuse() {
    throw Error(ErrorCode::corrupt, "the HDF5 library's list of datasets is damaged");
}

std::string text_in(io::Cursor& in) {
    return std::string(in.text(in.get<std::uint64_t>(kWhat), kWhat));
}

bool flag_in(io::Cursor& in) {
    const auto value = in.get<std::uint8_t>(kWhat);
    if (value > 1) {
        refuse();
    }
    return value == 1;
}

std::vector<Index> numbers_in(io::Cursor& in) {
    const auto count = in.get<std::uint64_t>(kWhat);
    if (count > kMostAxes) {
        refuse();
    }
    std::vector<Index> numbers;
    for (std::uint64_t i = 0; i < count; ++i) {
        numbers.push_back(in.get<Index>(kWhat));
    }
    return numbers;
}

DatasetLayout layout_in(io::Cursor& in) {
    const auto value = in.get<std::uint8_t>(kWhat);
    if (value > static_cast<std::uint8_t>(DatasetLayout::unknown)) {
        refuse();
    }
    return static_cast<DatasetLayout>(value);
}

Dataset dataset_in(io::Cursor& in) {
    Dataset dataset;
    dataset.name = text_in(in);
    dataset.storage = text_in(in);
    dataset.layout = layout_in(in);
    dataset.n_filters = in.get<std::uint64_t>(kWhat);
    const auto offset = in.get<Bytes>(kWhat);
    dataset.offset = offset == ~Bytes{0} ? std::nullopt : std::optional(offset);
    dataset.shape = numbers_in(in);
    dataset.is_null = flag_in(in);
    dataset.dtype = text_in(in);
    const bool has_place = flag_in(in);
    PiecePlace place;
    place.global_shape = numbers_in(in);
    place.offsets = numbers_in(in);
    if (has_place) {
        dataset.place = std::move(place);
    }
    dataset.fault = text_in(in);
    return dataset;
}

[[noreturn]] void refuse_object(ListingEntry entry, const std::string& name) {
    const std::string what = entry == ListingEntry::soft_link       ? "a soft link"
                             : entry == ListingEntry::external_link ? "a link to another file"
                             : entry == ListingEntry::group         ? "a group"
                                                                    : "a named datatype";
    throw Error(ErrorCode::unsupported, "\"" + printable(name) + "\" is " + what,
                "put datasets only, one for each tensor, at the root of the file");
}

/// A structure of a version that the library does not know is no damage: HDF5 2.0 writes chunks of
/// 4 GiB and more so, by default.
[[noreturn]] void refuse_file(const std::string& reason) {
    const std::string text = "the HDF5 library cannot read the file: " + printable(reason, 500);
    if (reason.find("version number") != std::string::npos) {
        throw Error(ErrorCode::unsupported, text,
                    "a newer HDF5 has written it: copy it with h5repack -l CONTI -f NONE of that "
                    "version, or damage did that");
    }
    throw Error(ErrorCode::corrupt, text);
}

}  // namespace

std::vector<Dataset> parse_listing(ByteView bytes) {
    io::Cursor in(bytes);
    if (in.get<std::uint32_t>(kWhat) != shardweld::hdf5::kListingBegin) {
        refuse();
    }
    std::vector<Dataset> datasets;
    while (true) {
        const auto entry = in.get<ListingEntry>(kWhat);
        switch (entry) {
            case ListingEntry::end:
                if (in.get<std::uint32_t>(kWhat) != shardweld::hdf5::kListingEnd ||
                    in.remaining() != 0) {
                    refuse();
                }
                return datasets;
            case ListingEntry::failure:
                refuse_file(text_in(in));
            case ListingEntry::dataset:
                datasets.push_back(dataset_in(in));
                break;
            case ListingEntry::soft_link:
            case ListingEntry::external_link:
            case ListingEntry::group:
            case ListingEntry::other:
                refuse_object(entry, text_in(in));
            default:
                refuse();
        }
    }
}

namespace {

using Clock = std::chrono::steady_clock;

/// The running program; killed and reaped at the end of its scope.
class Child {
  public:
    Child(const fs::path& program, const fs::path& file, int output) {
        posix_spawn_file_actions_t actions;
        (void)posix_spawn_file_actions_init(&actions);
        (void)posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        (void)posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        (void)posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
        std::string name = program.string();
        std::string argument = file.string();
        std::array<char*, 3> arguments{name.data(), argument.data(), nullptr};
        // Nothing of the launcher's and nothing that HDF5 listens to; only where libraries are.
        const auto libraries = variable("LD_LIBRARY_PATH");
        std::string entry = "LD_LIBRARY_PATH=" + libraries.value_or("");
        std::array<char*, 2> environment{libraries ? entry.data() : nullptr, nullptr};
        const int error = posix_spawn(&pid_, name.c_str(), &actions, nullptr, arguments.data(),
                                      environment.data());
        (void)posix_spawn_file_actions_destroy(&actions);
        if (error != 0) {
            pid_ = -1;
            io::throw_errno(error, "run", program);
        }
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child() {
        if (pid_ > 0) {
            (void)kill(pid_, SIGKILL);
            (void)wait();
        }
    }

    /// The status in which it ended.
    int wait() {
        int status = 0;
        while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
        }
        pid_ = -1;
        return status;
    }

  private:
    pid_t pid_ = -1;
};

[[noreturn]] void refuse(const std::string& why) {
    throw Error(ErrorCode::corrupt, "the HDF5 library cannot handle the file: " + why);
}

/// Everything until the end of the pipe.
std::vector<std::byte> read_all(int fd, const ListerLimits& limits) {
    const auto end = Clock::now() + std::chrono::seconds(limits.seconds);
    std::vector<std::byte> bytes;
    std::array<std::byte, 65'536> part{};
    while (true) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
        pollfd ready{fd, POLLIN, 0};
        const int n_ready = left > 0 ? poll(&ready, 1, static_cast<int>(left)) : 0;
        if (n_ready == 0) {
            refuse("listing it takes more than " + std::to_string(limits.seconds) + " seconds");
        }
        const ssize_t size = n_ready < 0 ? -1 : read(fd, part.data(), part.size());
        if (size == 0) {
            return bytes;
        }
        if (size < 0 && errno != EINTR) {
            throw Error(ErrorCode::io, "cannot read what the HDF5 lister prints");
        }
        if (size > 0) {
            bytes.insert(bytes.end(), part.begin(), part.begin() + size);
        }
        if (bytes.size() > limits.bytes) {
            refuse("its list of datasets takes more than " + human_bytes(limits.bytes));
        }
    }
}

}  // namespace

std::vector<std::byte> run_lister(const fs::path& program, const fs::path& file,
                                  const ListerLimits& limits) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
        io::throw_errno(errno, "make a pipe for", program);
    }
    const io::Descriptor from(ends[0]);
    io::Descriptor to(ends[1]);
    Child child(program, file, to.get());
    to = io::Descriptor();
    std::vector<std::byte> bytes = read_all(from.get(), limits);
    const int status = child.wait();
    if (WIFSIGNALED(status)) {
        refuse("it was killed by signal " + std::to_string(WTERMSIG(status)));
    }
    if (WEXITSTATUS(status) != 0) {
        refuse("it ended with code " + std::to_string(WEXITSTATUS(status)));
    }
    return bytes;
}

}  // namespace shardweld::formats::hdf5
