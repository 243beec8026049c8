// shardweld_hdf5_list FILE: prints what an HDF5 file holds, for the merge, which runs it. A file
// that leads the library astray ends this process and no other; its limits are set before the file
// is opened.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "list.hpp"
#include "listing.hpp"

namespace {

constexpr rlim_t kAddressSpace = rlim_t{2} << 30U;
// Listing takes microseconds a dataset, and a dataset hundreds of bytes; damaged files make the
// library go in circles.
constexpr rlim_t kLeastSeconds = 2;
constexpr rlim_t kMostSeconds = 60;
constexpr rlim_t kBytesPerSecond = 100'000;

bool limit(int resource, rlim_t most) {
    const rlimit value{most, most};
    return setrlimit(static_cast<decltype(RLIMIT_AS)>(resource), &value) == 0;
}

bool limit_itself(const char* path) {
    struct stat about {};
    const auto size = stat(path, &about) == 0 ? static_cast<rlim_t>(about.st_size) : 0;
    const rlim_t seconds = std::min(kLeastSeconds + size / kBytesPerSecond, kMostSeconds);
    return limit(RLIMIT_AS, kAddressSpace) && limit(RLIMIT_CPU, seconds) &&
           limit(RLIMIT_FSIZE, 0) && limit(RLIMIT_CORE, 0) &&
           prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           // Filters and drivers from outside would be code that the file chooses.
           setenv("HDF5_PLUGIN_PRELOAD", "::", 1) == 0;
}

void print(const std::vector<std::byte>& bytes) {
    (void)std::fwrite(bytes.data(), 1, bytes.size(), stdout);
}

}  // namespace

int main(int argc, char** argv) {
    namespace hdf5 = shardweld::hdf5;
    // A merge ignores it, and that is inherited: this program has to end with the one that reads.
    (void)std::signal(SIGPIPE, SIG_DFL);
    if (argc != 2) {
        (void)std::fputs("usage: shardweld_hdf5_list FILE (run by shardweld)\n", stderr);
        return 2;
    }
    if (!limit_itself(argv[1])) {
        return 1;
    }
    hdf5::ListingWriter out;
    out.put(hdf5::kListingBegin);
    try {
        hdf5::list(argv[1], out);
    } catch (const std::exception& error) {
        out = hdf5::ListingWriter();
        out.put(hdf5::kListingBegin);
        out.put(hdf5::ListingEntry::failure);
        out.put(std::string(error.what()));
    }
    out.put(hdf5::ListingEntry::end);
    out.put(hdf5::kListingEnd);
    print(out.take());
    return std::fflush(stdout) == 0 ? 0 : 1;
}
