#include "hdf5_module.hpp"

#include <array>
#include <new>
#include <string>

#include "core/text.hpp"
#include "hdf5/parts.hpp"
#include "outputs/hdf5_library.hpp"
#include "shardweld/error.hpp"

namespace shardweld::outputs {

namespace {

SharedObject module_object() {
    return SharedObject::load_installed(hdf5::kModuleFile, {"the HDF5 module", hdf5::kRemedy});
}

}  // namespace

std::string hdf5_library() {
    try {
        const SharedObject object = module_object();
        // The module's own library answers: H5get_libversion(&major, &minor, &release).
        std::array<unsigned, 3> version{};
        using GetVersion = int(unsigned*, unsigned*, unsigned*);
        if (object.function<GetVersion>("H5get_libversion")(&version[0], &version[1], &version[2]) <
            0) {
            return "unknown";
        }
        return std::to_string(version[0]) + "." + std::to_string(version[1]) + "." +
               std::to_string(version[2]);
    } catch (const Error&) {
        return "none";
    }
}

Hdf5Module Hdf5Module::load() {
    return Hdf5Module(module_object());
}

Hdf5Module::Hdf5Module(const SharedObject& library)
    : make_(library.function<shardweld_hdf5_make_function>("shardweld_hdf5_make")),
      release_(library.function<shardweld_hdf5_release_function>("shardweld_hdf5_release")),
      error_(library.function<shardweld_hdf5_error_function>("shardweld_hdf5_error")) {
    library.require_abi(library.function<shardweld_hdf5_abi_function>("shardweld_hdf5_abi")(),
                        kShardweldHdf5Abi);
}

Hdf5Module::Structure Hdf5Module::make(const PlacedFile& file, const OutputTensors& tensors) const {
    // They end at a zero byte in C.
    const auto texts = collect_list(file.tensors, [&](const std::uint32_t tensor) {
        return std::pair(tensors[tensor].name.text(),
                         std::string(safetensors_name(tensors[tensor].dtype)));
    });
    std::vector<shardweld_hdf5_tensor> datasets;
    for (const std::size_t at : indices(texts)) {
        const OutputTensor& tensor = tensors[file.tensors[at]];
        const auto& [name, dtype] = texts[at];
        datasets.push_back({name.c_str(), dtype.c_str(), tensor.shape.data(),
                            static_cast<std::int32_t>(tensor.shape.size())});
    }
    const shardweld_hdf5_file wanted{datasets.data(), datasets.size(), kConfigDataset,
                                     file.header.size()};
    Structure structure(make_(&wanted), release_);
    if (structure == nullptr) {
        const std::string reason = error_();
        if (reason.empty()) {
            throw std::bad_alloc();
        }
        throw Error(ErrorCode::internal, "HDF5: the library cannot make the structure of " +
                                             file.name + ": " + printable(reason, 500));
    }
    return structure;
}

}  // namespace shardweld::outputs
