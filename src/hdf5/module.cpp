// The HDF5 side of include/shardweld/hdf5/abi.hpp.
#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <string>

#include "create.hpp"
#include "fault.hpp"

#define SHARDWELD_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using shardweld::hdf5::Pages;

std::string& last_error() {
    static std::string text;
    return text;
}

/// What is handed out, with what it points to.
struct StructureOwner : shardweld_hdf5_structure {
    explicit StructureOwner(shardweld::hdf5::FileStructure made)
        : shardweld_hdf5_structure{}, created(std::move(made)) {
        const Pages& pages = created.pages;
        for (const auto& [at, page] : pages.all()) {
            const std::uint64_t begin = at * Pages::kPageBytes;
            const std::uint64_t end = std::min(begin + Pages::kPageBytes, pages.file_bytes());
            list.push_back({begin, page->data(), end - std::min(begin, end)});
        }
        offsets = created.offsets.data();
        parts = list.data();
        n_parts = list.size();
        file_bytes = pages.file_bytes();
    }

    shardweld::hdf5::FileStructure created;
    std::vector<shardweld_hdf5_part> list;
};

}  // namespace

SHARDWELD_EXPORT std::int32_t shardweld_hdf5_abi() {
    return kShardweldHdf5Abi;
}

SHARDWELD_EXPORT const char* shardweld_hdf5_error() {
    return last_error().c_str();
}

SHARDWELD_EXPORT const shardweld_hdf5_structure* shardweld_hdf5_make(
    const shardweld_hdf5_file* file) {
    // Exceptions must not cross the C interface.
    try {
        auto made = std::make_unique<StructureOwner>(shardweld::hdf5::create(*file));
        // What the library keeps for its next objects.
        (void)H5garbage_collect();
        return made.release();
    } catch (const std::bad_alloc&) {
        last_error().clear();
    } catch (const std::exception& error) {
        last_error() = error.what();
    } catch (...) {
        last_error() = "unknown exception";
    }
    return nullptr;
}

SHARDWELD_EXPORT void shardweld_hdf5_release(const shardweld_hdf5_structure* structure) {
    delete static_cast<const StructureOwner*>(structure);
}
