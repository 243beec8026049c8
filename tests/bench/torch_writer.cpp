#include "torch_writer.hpp"

#include <functional>
#include <span>
#include <utility>

#include "outputs/torch/archive.hpp"

#include "zip_writer.hpp"

namespace shardweld::bench {

Bytes TorchTensor::bytes() const {
    return to_bytes(volume_of(shape, "a tensor's shape"), "a tensor's shape") * size_of(dtype);
}

void TorchPickle::tensor(TorchTensor tensor) {
    outputs::torch::put_tensor(pickle, tensor.dtype, tensor.shape, tensors_.size());
    tensors_.push_back(std::move(tensor));
}

void append_archive(AppendFile& file, std::string_view name, const TorchPickle& content,
                    const Values& values) {
    const std::string prefix = std::string(name) + "/";
    const std::string pickle = content.pickle.finish();
    ZipWriter zip(file);
    zip.add(prefix + "data.pkl", pickle);
    for (const outputs::torch::FixedRecord& record : outputs::torch::kRecordsBefore) {
        zip.add(prefix + std::string(record.name), record.content);
    }
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
        BandStream stream(tensor.bands,
                          {tensor.dtype, values.seed, false, tensor.is_master, tensor.is_square});
        zip.add(entry, tensor.bytes(), [&](std::span<std::byte> out) { stream.read(out); });
    }
    const outputs::torch::FixedRecord version = outputs::torch::kVersionRecord;
    zip.add(prefix + std::string(version.name), version.content);
    // torch names each archive by the names and the checksums of its records; here the first half
    // follows from the pickle.
    zip.add(prefix + std::string(outputs::torch::kSerializationId),
            outputs::torch::serialization_half(std::hash<std::string_view>{}(pickle)) +
                outputs::torch::serialization_half(zip.joined_checksums()));
    zip.finish();
}

}  // namespace shardweld::bench
