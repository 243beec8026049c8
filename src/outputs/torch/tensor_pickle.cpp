#include "tensor_pickle.hpp"

#include <string>

#include "core/strides.hpp"

namespace shardweld::outputs::torch {

namespace {

/// The class of a typed storage in `torch`; "" for dtypes without one, which torch pickles over
/// untyped storages (torch/storage.py, _new_dtypes).
std::string_view storage_class(DType dtype) {
    switch (dtype) {
        case DType::boolean:
            return "BoolStorage";
        case DType::u8:
            return "ByteStorage";
        case DType::i8:
            return "CharStorage";
        case DType::i16:
            return "ShortStorage";
        case DType::i32:
            return "IntStorage";
        case DType::i64:
            return "LongStorage";
        case DType::f16:
            return "HalfStorage";
        case DType::bf16:
            return "BFloat16Storage";
        case DType::f32:
            return "FloatStorage";
        case DType::f64:
            return "DoubleStorage";
        case DType::c64:
            return "ComplexFloatStorage";
        default:
            return "";
    }
}

}  // namespace

void put_tensor(PickleWriter& out, DType dtype, std::span<const Index> shape, std::size_t key) {
    const Index count = volume_of(shape, "a tensor's shape");
    const std::string_view typed = storage_class(dtype);
    out.global("torch._utils", typed.empty() ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
    out.op(PickleOp::mark).op(PickleOp::mark).text("storage");
    if (typed.empty()) {
        out.global("torch.storage", "UntypedStorage");
    } else {
        out.global("torch", typed);
    }
    out.text(std::to_string(key)).text("cpu");
    out.integer(typed.empty() ? count * static_cast<Index>(size_of(dtype)) : count);
    out.op(PickleOp::tuple).op(PickleOp::persistent);
    out.integer(0).indices(shape).indices(dense_strides(shape)).boolean(false);
    put_ordered_dict(out);
    if (typed.empty()) {
        put_dtype(out, dtype);
    }
    out.op(PickleOp::tuple).op(PickleOp::reduce);
}

void put_size(PickleWriter& out, std::span<const Index> shape) {
    out.global("torch", "Size").indices(shape).op(PickleOp::tuple1).op(PickleOp::reduce);
}

void put_dtype(PickleWriter& out, DType dtype) {
    out.global("torch", torch_name(dtype));
}

void put_strided_layout(PickleWriter& out) {
    out.global("torch.serialization", "_get_layout").text("torch.strided");
    out.op(PickleOp::tuple1).op(PickleOp::reduce);
}

void put_cpu(PickleWriter& out) {
    out.global("torch", "device").text("cpu").op(PickleOp::tuple1).op(PickleOp::reduce);
}

void put_ordered_dict(PickleWriter& out) {
    out.global("collections", "OrderedDict").op(PickleOp::empty_tuple).op(PickleOp::reduce);
}

PickleWriter& put_object(PickleWriter& out, std::string_view module, std::string_view name) {
    return out.global(module, name).op(PickleOp::empty_tuple).op(PickleOp::newobj);
}

PickleWriter& begin_object(PickleWriter& out, std::string_view module, std::string_view name) {
    return put_object(out, module, name).begin_dictionary();
}

}  // namespace shardweld::outputs::torch
