#include "dataset.hpp"

#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::hdf5 {

namespace {

[[noreturn]] void unsupported(const std::string& text) {
    throw Error(ErrorCode::unsupported, text);
}

[[noreturn]] void corrupt(const std::string& text) {
    throw Error(ErrorCode::corrupt, text);
}

void require_contiguous(const Dataset& dataset) {
    switch (dataset.layout) {
        case DatasetLayout::external:
            unsupported("it keeps its data in other files");
        case DatasetLayout::virtual_dataset:
            unsupported("it is a virtual dataset, made of others");
        case DatasetLayout::contiguous:
            if (dataset.n_filters == 0) {
                return;
            }
            [[fallthrough]];
        case DatasetLayout::chunked:
        case DatasetLayout::compact:
        case DatasetLayout::unknown:
            unsupported(
                "it is not one contiguous run of bytes (chunked, compressed or compact): repack "
                "with h5repack -l CONTI -f NONE IN OUT");
    }
}

/// The stored type that a dtype needs; see docs/formats/hdf5.md.
bool can_store(const std::string& storage, DType dtype) {
    switch (dtype) {
        case DType::bf16:
            return storage == "U16";
        case DType::f8_e4m3:
        case DType::f8_e5m2:
        case DType::f8_e8m0:
        case DType::f8_e4m3fnuz:
        case DType::f8_e5m2fnuz:
            return storage == "U8";
        case DType::boolean:
            return storage == "U8" || storage == "BOOL";
        default:
            return storage == safetensors_name(dtype);
    }
}

DType dtype_of(const Dataset& dataset) {
    const std::string& name = dataset.dtype.empty() ? dataset.storage : dataset.dtype;
    const auto dtype = dtype_from_safetensors(name);
    if (dataset.storage.empty()) {
        throw Error(ErrorCode::unsupported,
                    "its element type is not one that shardweld reads (little-endian numbers)",
                    "h5py stores bfloat16 and 8-bit floats of ml_dtypes as opaque bytes, without "
                    "their type: save array.view(\"uint16\") or \"uint8\", and the attribute "
                    "shardweld_dtype");
    }
    if (!dtype || !can_store(dataset.storage, *dtype)) {
        corrupt("attribute shardweld_dtype is " + printable(dataset.dtype) +
                ", which its element type " +
                (dataset.storage.empty() ? "" : "(" + printable(dataset.storage) + ") ") +
                "does not store");
    }
    return *dtype;
}

PiecePlace place_of(const Dataset& dataset) {
    PiecePlace place{dataset.shape, std::vector<Index>(dataset.shape.size(), 0)};
    if (dataset.place) {
        place = *dataset.place;
    }
    if (!lies_inside(place.offsets, dataset.shape, place.global_shape)) {
        corrupt("a piece of shape " + shape_text(dataset.shape) + " at shardweld_offsets " +
                shape_text(place.offsets) + " does not lie in shardweld_global_shape " +
                shape_text(place.global_shape));
    }
    return place;
}

Piece piece_of(const Dataset& dataset, const std::vector<Index>& offsets, Bytes bytes,
               Bytes file_size) {
    if (!dataset.offset) {
        throw Error(ErrorCode::not_found, "it was never written", "take an earlier save");
    }
    if (bytes > file_size || *dataset.offset > file_size - bytes) {
        corrupt("its " + std::to_string(bytes) + " bytes at offset " +
                std::to_string(*dataset.offset) + " run past the end of the file (" +
                std::to_string(file_size) + " bytes)");
    }
    Piece piece;
    piece.base = *dataset.offset;
    piece.storage_bytes = bytes;
    layout::Box box;
    for (const std::size_t k : indices(offsets)) {
        box.push_back({offsets[k], dataset.shape[k]});
    }
    piece.patch = layout::dense(box);
    return piece;
}

}  // namespace

Tensor tensor_of(const Dataset& dataset, Bytes file_size) {
    if (!dataset.fault.empty()) {
        corrupt(printable(dataset.fault));
    }
    require_contiguous(dataset);
    if (dataset.shape.size() > layout::kMaxAxes) {
        unsupported("it has " + std::to_string(dataset.shape.size()) + " axes");
    }
    Tensor tensor;
    tensor.name = dataset.name;
    tensor.dtype = dtype_of(dataset);
    const Bytes n_elements = to_bytes(volume_of(dataset.shape, "its shape"), "its shape");
    const Bytes bytes = checked_mul_bytes(n_elements, size_of(tensor.dtype), "its shape");
    const PiecePlace place = place_of(dataset);
    // A global shape whose volume overflows would surface later, without the file's name.
    (void)volume_of(place.global_shape, "shardweld_global_shape");
    tensor.shape = place.global_shape;
    if (dataset.is_null) {
        tensor.shape = {0};
    } else if (bytes > 0) {
        tensor.pieces.push_back(piece_of(dataset, place.offsets, bytes, file_size));
    }
    return tensor;
}

bool may_be_disguised(const Dataset& dataset) {
    return dataset.dtype.empty() && (dataset.storage == "U16" || dataset.storage == "U8");
}

}  // namespace shardweld::formats::hdf5
