#include "hdf5_module.hpp"

#include <string>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/hdf5/parts.hpp"

namespace shardweld::execute {

namespace {

/// Names end at a zero byte in C; views of the table of dtypes do not.
struct Described {
    std::string dtype;
    shardweld_hdf5_tensor tensor{};
};

std::vector<Described> described(const outputs::OutputFile& file,
                                 const std::vector<outputs::OutputTensor>& tensors) {
    std::vector<Described> all;
    all.reserve(file.tensors.size());
    for (const std::uint32_t i : file.tensors) {
        const outputs::OutputTensor& tensor = tensors[i];
        Described& one = all.emplace_back(Described{std::string(safetensors_name(tensor.dtype))});
        one.tensor = {tensor.name.c_str(), one.dtype.c_str(), tensor.shape.data(),
                      static_cast<std::int32_t>(tensor.shape.size())};
    }
    return all;
}

}  // namespace

Hdf5Module Hdf5Module::load() {
    return Hdf5Module(
        SharedObject::load_installed(hdf5::kModuleFile, {"the HDF5 module", hdf5::kRemedy}));
}

Hdf5Module::Hdf5Module(const SharedObject& library)
    : is_parallel_(
          library.function<shardweld_hdf5_is_parallel_function>("shardweld_hdf5_is_parallel")),
      create_(library.function<shardweld_hdf5_create_function>("shardweld_hdf5_create")),
      error_(library.function<shardweld_hdf5_error_function>("shardweld_hdf5_error")) {
    library.require_abi(library.function<shardweld_hdf5_abi_function>("shardweld_hdf5_abi")(),
                        kShardweldHdf5Abi);
}

outputs::RawOffsets Hdf5Module::create(const std::filesystem::path& path,
                                       const outputs::OutputFile& file,
                                       const std::vector<outputs::OutputTensor>& tensors,
                                       bool together) const {
    const auto described_tensors = described(file, tensors);
    std::vector<shardweld_hdf5_tensor> datasets;
    datasets.reserve(described_tensors.size());
    for (const Described& one : described_tensors) {
        datasets.push_back(one.tensor);
    }
    const std::string path_text = path.string();
    const shardweld_hdf5_file wanted{path_text.c_str(),       datasets.data(),    datasets.size(),
                                     outputs::kConfigDataset, file.header.size(), together ? 1 : 0};
    std::vector<std::uint64_t> offsets(datasets.size() + 1, kShardweldHdf5NoOffset);
    if (create_(&wanted, offsets.data()) != 0) {
        throw Error(ErrorCode::io, "HDF5: " + printable(error_(), 500));
    }
    outputs::RawOffsets raw;
    raw.header = offsets.back();
    offsets.pop_back();
    raw.tensors = std::move(offsets);
    return raw;
}

}  // namespace shardweld::execute
