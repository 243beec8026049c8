#include "memory_driver.hpp"

#include <algorithm>
#include <limits>
#include <new>

#include "fault.hpp"
#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

namespace shardweld::hdf5 {

namespace {

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

herr_t read(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*list*/, haddr_t offset, size_t size,
            void* bytes) {
    own(file).pages->read(offset, bytes, size);
    return 0;
}

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
    made.fapl_size = sizeof(Pages*);
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

}  // namespace

Handle memory_driver() {
    static const H5FD_class_t kClass = make_class();
    return checked(H5FDregister(&kClass), H5FDunregister, "cannot register a file driver");
}

void use_memory(hid_t access_list, const Handle& driver, Pages& pages) {
    const Pages* const info = &pages;
    checked(H5Pset_driver(access_list, driver.get(), &info), "cannot make files in memory");
}

}  // namespace shardweld::hdf5
