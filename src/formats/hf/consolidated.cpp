#include "consolidated.hpp"

#include <map>
#include <span>
#include <string>

#include "core/text.hpp"
#include "formats/containers/safetensors_header.hpp"
#include "formats/shared/directory_listing.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::hf {

namespace {

constexpr const char* kShards = "sharded";

/// The one element, as it is stored.
std::string element_at(const io::InputFile& file, Bytes offset, DType dtype) {
    std::string bytes(size_of(dtype), '\0');
    file.read_at(offset, std::as_writable_bytes(std::span(bytes)));
    return bytes;
}

void require_same(const fs::path& path, const std::map<std::string, std::string>& values) {
    const auto shard = io::InputFile::open(path);
    for (const auto& [name, stored] : read_safetensors_header(shard)) {
        const auto value = values.find(name);
        if (value != values.end() && stored.shape.empty() &&
            element_at(shard, stored.storage_offset, stored.dtype) != value->second) {
            throw Error(
                ErrorCode::mismatch,
                "tensor " + printable(name) + " has another value in " + path.string() +
                    ": torch's consolidation writes tensors without dimensions as 0",
                "give " + path.parent_path().string() + ", the shards that the model was made of");
        }
    }
}

}  // namespace

void require_scalars_of_shards(const fs::path& directory, const io::InputFile& file,
                               const std::vector<Tensor>& tensors) {
    std::map<std::string, std::string> values;
    for (const Tensor& tensor : tensors) {
        if (tensor.shape.empty() && !tensor.pieces.empty()) {
            values[tensor.name] = element_at(file, tensor.pieces.front().base, tensor.dtype);
        }
    }
    if (values.empty()) {
        return;
    }
    for (const std::string& name : try_list_directory(directory / kShards).files) {
        if (name.starts_with("shard-") && name.ends_with(".safetensors")) {
            require_same(directory / kShards / name, values);
        }
    }
}

}  // namespace shardweld::formats::hf
