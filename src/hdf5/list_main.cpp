// shardweld_hdf5_list FILE: prints what an HDF5 file holds, for the merge, which runs it. A file
// that leads the library astray ends this process and no other; its limits are set before the file
// is opened.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <string>

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "fault.hpp"
#include "listing.hpp"
#include "types.hpp"

namespace shardweld::hdf5 {

namespace {

using Numbers = std::vector<std::int64_t>;

constexpr const char* kShapeAttribute = "shardweld_global_shape";
constexpr const char* kOffsetsAttribute = "shardweld_offsets";
constexpr std::size_t kLongestText = 64;
constexpr hssize_t kMostNumbers = H5S_MAX_RANK;

Handle open_file(const char* path) {
    const Handle access =
        checked(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "cannot make a property list");
    checked(H5Pset_fapl_sec2(access.get()), "cannot set the driver");
#if H5_VERSION_GE(1, 10, 7)
    checked(H5Pset_file_locking(access.get(), false, true), "cannot switch file locks off");
#endif
    return checked(H5Fopen(path, H5F_ACC_RDONLY, access.get()), H5Fclose, "cannot open it");
}

/// The number of elements of an attribute.
hssize_t count_of(const Handle& attribute) {
    const Handle space =
        checked(H5Aget_space(attribute.get()), H5Sclose, "cannot read an attribute");
    return H5Sget_simple_extent_npoints(space.get());
}

std::string variable_text(const Handle& attribute, const Handle& type) {
    char* text = nullptr;
    checked(H5Aread(attribute.get(), type.get(), static_cast<void*>(&text)),
            "cannot read an attribute");
    std::string copy(text != nullptr ? text : "",
                     text != nullptr ? strnlen(text, kLongestText) : 0);
    (void)H5free_memory(text);
    return copy;
}

std::string fixed_text(const Handle& attribute, const Handle& type) {
    std::array<char, kLongestText + 1> text{};
    checked(H5Aread(attribute.get(), type.get(), text.data()), "cannot read an attribute");
    return text.data();
}

/// A short text; nullopt when the attribute is something else.
std::optional<std::string> text_in(const Handle& attribute) {
    const Handle type = checked(H5Aget_type(attribute.get()), H5Tclose, "cannot read an attribute");
    if (H5Tget_class(type.get()) != H5T_STRING || count_of(attribute) != 1) {
        return std::nullopt;
    }
    if (H5Tis_variable_str(type.get()) > 0) {
        return variable_text(attribute, type);
    }
    return H5Tget_size(type.get()) <= kLongestText ? std::optional(fixed_text(attribute, type))
                                                   : std::nullopt;
}

/// A few integers; nullopt when the attribute is something else.
std::optional<Numbers> numbers_in(const Handle& attribute) {
    const Handle type = checked(H5Aget_type(attribute.get()), H5Tclose, "cannot read an attribute");
    const hssize_t count = count_of(attribute);
    if (H5Tget_class(type.get()) != H5T_INTEGER || count < 0 || count > kMostNumbers) {
        return std::nullopt;
    }
    Numbers numbers(static_cast<std::size_t>(count));
    if (count > 0) {
        checked(H5Aread(attribute.get(), H5T_NATIVE_INT64, numbers.data()),
                "cannot read an attribute");
    }
    return numbers;
}

DatasetLayout layout_of(hid_t list) {
    if (H5Pget_external_count(list) > 0) {
        return DatasetLayout::external;
    }
    switch (H5Pget_layout(list)) {
        case H5D_CONTIGUOUS:
            return DatasetLayout::contiguous;
        case H5D_COMPACT:
            return DatasetLayout::compact;
        case H5D_CHUNKED:
            return DatasetLayout::chunked;
        case H5D_VIRTUAL:
            return DatasetLayout::virtual_dataset;
        default:
            return DatasetLayout::unknown;
    }
}

class Lister {
  public:
    explicit Lister(ListingWriter& out) : out_(out) {}

    void add_link(hid_t root, const char* name, H5L_type_t link) {
        if (link != H5L_TYPE_HARD) {
            add(link == H5L_TYPE_SOFT ? ListingEntry::soft_link : ListingEntry::external_link,
                name);
            return;
        }
        const Handle object =
            checked(H5Oopen(root, name, H5P_DEFAULT), H5Oclose, std::string("cannot open ") + name);
        const H5I_type_t kind = H5Iget_type(object.get());
        if (kind == H5I_DATASET) {
            add(ListingEntry::dataset, name);
            add_dataset(object.get());
        } else {
            add(kind == H5I_GROUP ? ListingEntry::group : ListingEntry::other, name);
        }
    }

    std::exception_ptr failure;  ///< of a visit

  private:
    void add(ListingEntry entry, const char* name) {
        out_.put(entry);
        out_.put(std::string(name));
    }

    void add_dataset(hid_t dataset) {
        const std::string what = "cannot read a dataset's header";
        const Handle type = checked(H5Dget_type(dataset), H5Tclose, what);
        const Handle space = checked(H5Dget_space(dataset), H5Sclose, what);
        const Handle list = checked(H5Dget_create_plist(dataset), H5Pclose, what);
        const DatasetLayout layout = layout_of(list.get());
        out_.put(types_.name_of(type.get()));
        out_.put(layout);
        out_.put<std::uint64_t>(
            static_cast<std::uint64_t>(checked(H5Pget_nfilters(list.get()), what)));
        const haddr_t offset =
            layout == DatasetLayout::contiguous ? H5Dget_offset(dataset) : HADDR_UNDEF;
        out_.put<std::uint64_t>(offset == HADDR_UNDEF ? ~std::uint64_t{0} : offset);
        add_shape(space.get());
        add_attributes(dataset);
    }

    void add_shape(hid_t space) {
        std::array<hsize_t, H5S_MAX_RANK> extents{};
        const int rank = checked(H5Sget_simple_extent_dims(space, extents.data(), nullptr),
                                 "cannot read a dataset's shape");
        out_.put(Numbers(extents.begin(), extents.begin() + rank));
        out_.put<std::uint8_t>(H5Sget_simple_extent_type(space) == H5S_NULL ? 1 : 0);
    }

    void add_attributes(hid_t dataset) {
        std::string fault;
        const auto dtype = attribute<std::string>(dataset, kDtypeAttribute, text_in, fault);
        const auto shape = attribute<Numbers>(dataset, kShapeAttribute, numbers_in, fault);
        const auto offsets = attribute<Numbers>(dataset, kOffsetsAttribute, numbers_in, fault);
        if (fault.empty() && shape.has_value() != offsets.has_value()) {
            fault = std::string("one of the attributes ") + kShapeAttribute + " and " +
                    kOffsetsAttribute + " is missing";
        }
        out_.put(dtype.value_or(""));
        out_.put<std::uint8_t>(shape && offsets ? 1 : 0);
        out_.put(shape.value_or(Numbers()));
        out_.put(offsets.value_or(Numbers()));
        out_.put(fault);
    }

    /// nullopt when there is none, or, with a text in `fault`, when `read` does not take it.
    template <typename T, typename Read>
    std::optional<T> attribute(hid_t dataset, const char* name, Read read, std::string& fault) {
        const std::string what = std::string("cannot read attribute ") + name;
        if (checked(H5Aexists(dataset, name), what) == 0) {
            return std::nullopt;
        }
        const Handle handle = checked(H5Aopen(dataset, name, H5P_DEFAULT), H5Aclose, what);
        std::optional<T> value = read(handle);
        if (!value) {
            fault = std::string("attribute ") + name + " has an unexpected type or size";
        }
        return value;
    }

    ListingWriter& out_;
    Types types_;
};

/// What H5Literate calls; an exception must not cross the library.
herr_t visit(hid_t root, const char* name, const H5L_info_t* info, void* data) {
    auto& lister = *static_cast<Lister*>(data);
    try {
        lister.add_link(root, name, info->type);
        return 0;
    } catch (...) {
        lister.failure = std::current_exception();
        return -1;
    }
}

}  // namespace

/// Writes what an HDF5 file holds at its root; tells what it finds and judges nothing, follows no
/// link and reads no dataset. Throws std::exception when the library cannot read the file.
void list(const char* path, ListingWriter& out) {
    keep_quiet();
    const Handle file = open_file(path);
    Lister lister(out);
    const herr_t done = H5Literate(file.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, visit, &lister);
    if (lister.failure) {
        std::rethrow_exception(lister.failure);
    }
    checked(done, "cannot list its datasets");
}

}  // namespace shardweld::hdf5

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
