// The HDF5 side of abi.hpp: files with room for tensors, made in memory.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "abi.hpp"
#include "fault.hpp"
#include "pages.hpp"
#include "types.hpp"
#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

#define SHARDWELD_EXPORT extern "C" __attribute__((visibility("default")))

namespace shardweld::hdf5 {

/// What is handed out, with what it points to.
struct FileStructure : shardweld_hdf5_structure {
    std::vector<std::uint64_t> own_offsets;  ///< of all datasets in the file, the text's last
    Pages pages;                             ///< everything but tensors' bytes
    std::vector<shardweld_hdf5_part> own_parts;

    /// Once all is made.
    void point_to_own() {
        for (const auto& [at, page] : pages.all()) {
            const std::uint64_t begin = at * Pages::kPageBytes;
            const std::uint64_t end = std::min(begin + Pages::kPageBytes, pages.file_bytes());
            own_parts.push_back({begin, page->data(), end - std::min(begin, end)});
        }
        offsets = own_offsets.data();
        parts = own_parts.data();
        n_parts = own_parts.size();
        file_bytes = pages.file_bytes();
    }
};

namespace {

// HDF5's way to a file that lies in memory (a "virtual file driver"). Its own one, H5FD_CORE, holds
// a file up to its last byte; here tensors' bytes, which are never written, take no memory.

/// What the library sees as a file; `base` is its own part.
struct MemoryFile {
    H5FD_t base{};
    Pages* pages = nullptr;
    haddr_t end_allocated = 0;
    haddr_t end_written = 0;
};

MemoryFile& own(H5FD_t* file) {
    return *reinterpret_cast<MemoryFile*>(file);
}

const MemoryFile& own(const H5FD_t* file) {
    return *reinterpret_cast<const MemoryFile*>(file);
}

H5FD_t* open(const char* /*name*/, unsigned /*flags*/, hid_t list, haddr_t /*most*/) {
    const void* const pages = H5Pget_driver_info(list);
    auto* const file = pages == nullptr ? nullptr : new (std::nothrow) MemoryFile;
    if (file == nullptr) {
        return nullptr;
    }
    file->pages = *static_cast<Pages* const*>(pages);
    return &file->base;
}

herr_t close(H5FD_t* file) {
    own(file).pages->set_file_bytes(own(file).end_allocated);
    delete &own(file);
    return 0;
}

/// As of files on disks: small things lie together.
herr_t query(const H5FD_t* /*file*/, unsigned long* flags) {
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_AGGREGATE_SMALLDATA;
    return 0;
}

haddr_t get_eoa(const H5FD_t* file, H5FD_mem_t /*type*/) {
    return own(file).end_allocated;
}

herr_t set_eoa(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t end) {
    own(file).end_allocated = end;
    return 0;
}

haddr_t get_eof(const H5FD_t* file, H5FD_mem_t /*type*/) {
    return own(file).end_written;
}

// HDF5's interface. NOLINTNEXTLINE(readability-function-size)
herr_t read(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*list*/, haddr_t offset, size_t size,
            void* bytes) {
    own(file).pages->read(offset, bytes, size);
    return 0;
}

// HDF5's interface. NOLINTNEXTLINE(readability-function-size)
herr_t write(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*list*/, haddr_t offset, size_t size,
             const void* bytes) {
    own(file).pages->write(offset, bytes, size);
    own(file).end_written = std::max<haddr_t>(own(file).end_written, offset + size);
    return 0;
}

herr_t truncate(H5FD_t* file, hid_t /*list*/, hbool_t /*closing*/) {
    own(file).end_written = own(file).end_allocated;
    return 0;
}

H5FD_class_t make_class() {
    H5FD_class_t made{};
#if H5_VERSION_GE(1, 13, 0)
    made.version = H5FD_CLASS_VERSION;
    made.value = 511;  // of those for use inside one program
#endif
    made.name = "shardweld_memory";
    made.maxaddr = static_cast<haddr_t>(std::numeric_limits<std::int64_t>::max());
    made.fc_degree = H5F_CLOSE_WEAK;
    made.fapl_size = sizeof(Pages*);  // NOLINT(bugprone-sizeof-expression): a pointer is kept
    made.open = open;
    made.close = close;
    made.query = query;
    made.get_eoa = get_eoa;
    made.set_eoa = set_eoa;
    made.get_eof = get_eof;
    made.read = read;
    made.write = write;
    made.truncate = truncate;
    constexpr H5FD_mem_t kMap[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;  // NOLINT: its own macro
    std::copy(std::begin(kMap), std::end(kMap), std::begin(made.fl_map));
    return made;
}

/// For as long as property lists of it are used.
Handle memory_driver() {
    static const H5FD_class_t memory = make_class();
    return checked(H5FDregister(&memory), H5FDunregister, "cannot register a file driver");
}

/// Files made with this property list lie in `pages`, which outlives them; one file each.
void use_memory(hid_t access_list, const Handle& driver, Pages& pages) {
    const Pages* const info = &pages;
    checked(H5Pset_driver(access_list, driver.get(), &info), "cannot make files in memory");
}

// Where blocks of the file system begin; small datasets stay packed.
constexpr hsize_t kAlignment = 4096;
constexpr hsize_t kLeastAligned = 65'536;
// Metadata of one dataset, so that it lies together and not between the tensors.
constexpr hsize_t kHeaderBytes = 512;

// Metadata, as large as in the file, that the library keeps in memory until a file is closed; 32
// MiB if it may. A dataset's 512 bytes take 7 KiB there. With less it reads its index again and
// again.
constexpr std::size_t kCacheBytes = std::size_t{1} << 20U;

/// A cache of a fixed size.
void bound_cache(hid_t list) {
    H5AC_cache_config_t config{};
    config.version = H5AC__CURR_CACHE_CONFIG_VERSION;
    const std::string what = "cannot bound the cache of metadata";
    checked(H5Pget_mdc_config(list, &config), what);
    config.set_initial_size = true;
    config.initial_size = config.min_size = config.max_size = kCacheBytes;
    config.incr_mode = H5C_incr__off;
    config.flash_incr_mode = H5C_flash_incr__off;
    config.decr_mode = H5C_decr__off;
    checked(H5Pset_mdc_config(list, &config), what);
}

Handle access_list(const shardweld_hdf5_file& file, const Handle& driver, Pages& pages) {
    Handle list = checked(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "cannot make a property list");
    use_memory(list.get(), driver, pages);
    checked(H5Pset_alignment(list.get(), kLeastAligned, kAlignment), "cannot set the alignment");
    checked(H5Pset_meta_block_size(list.get(), kHeaderBytes * (file.n_tensors + 4)),
            "cannot set the size of metadata");
    bound_cache(list.get());
    return list;
}

/// Contiguous, allocated at once and never filled: an offset exists before any byte is written.
Handle creation_list() {
    Handle list = checked(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "cannot make a property list");
    checked(H5Pset_layout(list.get(), H5D_CONTIGUOUS), "cannot ask for a contiguous layout");
    checked(H5Pset_alloc_time(list.get(), H5D_ALLOC_TIME_EARLY), "cannot ask for early allocation");
    checked(H5Pset_fill_time(list.get(), H5D_FILL_TIME_NEVER), "cannot switch filling off");
    checked(H5Pset_obj_track_times(list.get(), false), "cannot switch times off");
    return list;
}

Handle space_of(const shardweld_hdf5_tensor& tensor) {
    const std::vector<hsize_t> extents(tensor.shape, tensor.shape + tensor.rank);
    return checked(tensor.rank == 0 ? H5Screate(H5S_SCALAR)
                                    : H5Screate_simple(tensor.rank, extents.data(), nullptr),
                   H5Sclose, std::string("cannot make the dataspace of ") + tensor.name);
}

void add_dtype(hid_t dataset, const char* dtype) {
    const std::string what = "cannot write attribute " + std::string(kDtypeAttribute);
    const Handle type = checked(H5Tcopy(H5T_C_S1), H5Tclose, what);
    checked(H5Tset_size(type.get(), std::strlen(dtype)), what);
    checked(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), what);
    const Handle space = checked(H5Screate(H5S_SCALAR), H5Sclose, what);
    const Handle attribute = checked(
        H5Acreate2(dataset, kDtypeAttribute, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
        H5Aclose, what);
    checked(H5Awrite(attribute.get(), type.get(), dtype), what);
}

std::uint64_t add_dataset(hid_t file, const shardweld_hdf5_tensor& tensor, const Types& types,
                          hid_t list) {
    const std::string what = std::string("cannot make dataset ") + tensor.name;
    const Handle space = space_of(tensor);
    Handle dataset = checked(H5Dcreate2(file, tensor.name, types.for_dtype(tensor.dtype),
                                        space.get(), H5P_DEFAULT, list, H5P_DEFAULT),
                             H5Dclose, what);
    add_dtype(dataset.get(), tensor.dtype);
    const haddr_t offset = H5Dget_offset(dataset.get());
    checked(dataset.close(), what);
    return offset == HADDR_UNDEF ? kShardweldHdf5NoOffset : offset;
}

void require_whole(const Pages& pages) {
    if (!pages.is_whole()) {
        throw std::bad_alloc();
    }
}

}  // namespace

/// Makes an HDF5 file with room for tensors, in memory. Throws std::bad_alloc, or std::exception
/// with the library's reason.
std::unique_ptr<FileStructure> create(const shardweld_hdf5_file& file) {
    keep_quiet();
    auto made = std::make_unique<FileStructure>();
    Pages& pages = made->pages;
    const Handle driver = memory_driver();
    const Handle access = access_list(file, driver, pages);
    const Handle list = creation_list();
    const Types types;
    const std::string what = "cannot make a file";
    // The name is one for the library only.
    Handle created =
        checked(H5Fcreate("memory", H5F_ACC_EXCL, H5P_DEFAULT, access.get()), H5Fclose, what);
    const auto add = [&](const shardweld_hdf5_tensor& tensor) {
        made->own_offsets.push_back(add_dataset(created.get(), tensor, types, list.get()));
        require_whole(pages);
    };
    std::for_each(file.tensors, file.tensors + file.n_tensors, add);
    if (file.text_bytes > 0) {
        const auto extent = static_cast<std::int64_t>(file.text_bytes);
        add({file.text_name, "U8", &extent, 1});
    } else {
        made->own_offsets.push_back(kShardweldHdf5NoOffset);
    }
    checked(created.close(), what);
    require_whole(pages);
    made->point_to_own();
    return made;
}

}  // namespace shardweld::hdf5

namespace {

std::string& last_error() {
    static std::string text;
    return text;
}

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
        auto made = shardweld::hdf5::create(*file);
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
    delete static_cast<const shardweld::hdf5::FileStructure*>(structure);
}
