#include "torch_writer.hpp"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>

#include "zip_writer.hpp"

namespace shardweld::bench {

namespace {

std::string_view storage_class(DType dtype) {
    switch (dtype) {
        case DType::bf16:
            return "BFloat16Storage";
        case DType::u8:
            return "ByteStorage";
        case DType::i32:
            return "IntStorage";
        default:
            return "FloatStorage";
    }
}

std::vector<Index> dense_strides(const std::vector<Index>& shape) {
    std::vector<Index> strides(shape.size(), 1);
    for (std::size_t k = shape.size(); k-- > 1;) {
        strides[k - 1] = strides[k] * std::max<Index>(shape[k], 1);
    }
    return strides;
}

std::string twenty_digits(std::uint64_t number) {
    const std::string digits = std::to_string(number);
    return std::string(20 - digits.size(), '0') + digits;
}

}  // namespace

Bytes TorchTensor::bytes() const {
    return to_bytes(volume_of(shape, "a tensor's shape"), "a tensor's shape") * size_of(dtype);
}

void TorchPickle::tensor(TorchTensor tensor) {
    const Index count = volume_of(tensor.shape, "a tensor's shape");
    pickle.global("torch._utils", "_rebuild_tensor_v2").op(Op::mark);
    pickle.op(Op::mark).text("storage").global("torch", storage_class(tensor.dtype));
    pickle.text(std::to_string(tensors_.size())).text("cpu").integer(count);
    pickle.op(Op::tuple).op(Op::persistent);
    pickle.integer(0).indices(tensor.shape).indices(dense_strides(tensor.shape)).boolean(false);
    pickle.global("collections", "OrderedDict").op(Op::empty_tuple).op(Op::reduce);
    pickle.op(Op::tuple).op(Op::reduce);
    tensors_.push_back(std::move(tensor));
}

void append_archive(AppendFile& file, std::string_view name, const TorchPickle& content,
                    const Values& values) {
    const std::string prefix = std::string(name) + "/";
    const std::string pickle = content.pickle.finish();
    ZipWriter zip(file);
    zip.add(prefix + "data.pkl", pickle);
    zip.add(prefix + ".format_version", "1");
    zip.add(prefix + ".storage_alignment", "64");
    zip.add(prefix + "byteorder", "little");
    for (std::size_t i = 0; i < content.tensors().size(); ++i) {
        const TorchTensor& tensor = content.tensors()[i];
        const std::string entry = prefix + "data/" + std::to_string(i);
        if (!tensor.raw.empty()) {
            zip.add(entry, tensor.raw);
            continue;
        }
        if (values.is_sparse) {
            zip.add_hole(entry, tensor.bytes());
            continue;
        }
        BandStream stream(tensor.bands, {tensor.dtype, values.seed, false});
        zip.add(entry, tensor.bytes(), [&](std::span<std::byte> out) { stream.read(out); });
    }
    zip.add(prefix + "version", "3\n");
    // torch names each archive by the names and the checksums of its records; here the first half
    // follows from the pickle.
    zip.add(prefix + ".data/serialization_id",
            twenty_digits(std::hash<std::string_view>{}(pickle)) +
                twenty_digits(zip.joined_checksums()));
    zip.finish();
}

}  // namespace shardweld::bench
