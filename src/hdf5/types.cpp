#include "types.hpp"

#include <stdexcept>

namespace shardweld::hdf5 {

namespace {

Handle copy_of(hid_t type) {
    return checked(H5Tcopy(type), H5Tclose, "cannot copy a datatype");
}

/// IEEE 754 binary16: 1 sign, 5 exponent and 10 mantissa bits.
Handle half() {
    Handle type = copy_of(H5T_IEEE_F32LE);
    checked(H5Tset_fields(type.get(), 15, 10, 5, 0, 10), "cannot make a half type");
    checked(H5Tset_size(type.get(), 2), "cannot make a half type");
    checked(H5Tset_ebias(type.get(), 15), "cannot make a half type");
    return type;
}

/// As h5py stores complex numbers.
Handle complex() {
    Handle type = checked(H5Tcreate(H5T_COMPOUND, 8), H5Tclose, "cannot make a complex type");
    checked(H5Tinsert(type.get(), "r", 0, H5T_IEEE_F32LE), "cannot make a complex type");
    checked(H5Tinsert(type.get(), "i", 4, H5T_IEEE_F32LE), "cannot make a complex type");
    return type;
}

/// h5py's booleans: an enumeration of bytes with two members.
bool is_boolean(hid_t type) {
    return H5Tget_class(type) == H5T_ENUM && H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2;
}

}  // namespace

Types::Types() {
    entries_.emplace_back("U8", copy_of(H5T_STD_U8LE));
    entries_.emplace_back("I8", copy_of(H5T_STD_I8LE));
    entries_.emplace_back("U16", copy_of(H5T_STD_U16LE));
    entries_.emplace_back("I16", copy_of(H5T_STD_I16LE));
    entries_.emplace_back("U32", copy_of(H5T_STD_U32LE));
    entries_.emplace_back("I32", copy_of(H5T_STD_I32LE));
    entries_.emplace_back("U64", copy_of(H5T_STD_U64LE));
    entries_.emplace_back("I64", copy_of(H5T_STD_I64LE));
    entries_.emplace_back("F16", half());
    entries_.emplace_back("F32", copy_of(H5T_IEEE_F32LE));
    entries_.emplace_back("F64", copy_of(H5T_IEEE_F64LE));
    entries_.emplace_back("C64", complex());
}

hid_t Types::for_dtype(std::string_view dtype) const {
    const std::string_view stored = dtype == "BF16"                                  ? "U16"
                                    : dtype == "BOOL" || dtype.substr(0, 3) == "F8_" ? "U8"
                                                                                     : dtype;
    for (const auto& [name, type] : entries_) {
        if (name == stored) {
            return type.get();
        }
    }
    throw std::runtime_error("no HDF5 type for dtype " + std::string(dtype));
}

std::string Types::name_of(hid_t type) const {
    for (const auto& [name, stored] : entries_) {
        if (H5Tequal(type, stored.get()) > 0) {
            return std::string(name);
        }
    }
    return is_boolean(type) ? "BOOL" : "";
}

}  // namespace shardweld::hdf5
