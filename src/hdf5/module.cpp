// The HDF5 side of include/shardweld/hdf5/abi.hpp.
#include <algorithm>
#include <exception>
#include <string>

#include "create.hpp"
#include "handle.hpp"

#define SHARDWELD_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

std::string& last_error() {
    static std::string text;
    return text;
}

}  // namespace

SHARDWELD_EXPORT std::int32_t shardweld_hdf5_abi() {
    return kShardweldHdf5Abi;
}

SHARDWELD_EXPORT std::int32_t shardweld_hdf5_is_parallel() {
#ifdef H5_HAVE_PARALLEL
    return 1;
#else
    return 0;
#endif
}

SHARDWELD_EXPORT const char* shardweld_hdf5_error() {
    return last_error().c_str();
}

SHARDWELD_EXPORT std::int32_t shardweld_hdf5_create(const shardweld_hdf5_file* file,
                                                    std::uint64_t* offsets) {
    // Exceptions must not cross the C interface.
    try {
        const auto found = shardweld::hdf5::create(*file);
        std::copy(found.begin(), found.end(), offsets);
        // What the library keeps for its next objects.
        (void)H5garbage_collect();
        return 0;
    } catch (const std::exception& error) {
        last_error() = error.what();
    } catch (...) {
        last_error() = "unknown exception";
    }
    return 1;
}
