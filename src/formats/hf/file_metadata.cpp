#include "file_metadata.hpp"

#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::hf {

namespace {

/// {"_type": "Float8Tensor", "_data": {...}}; of a plain tensor the class is Tensor.
bool is_class_of_weight(const std::string& value) {
    return value.starts_with('{') && has_part(value, "\"_type\"") && has_part(value, "\"_data\"");
}

}  // namespace

std::vector<std::string> lost_metadata(const SafetensorsHeader& header) {
    std::vector<std::string> lost;
    for (const auto& [key, value] : header.metadata) {
        if (is_class_of_weight(value)) {
            throw Error(
                ErrorCode::unsupported,
                "the weights are quantised with torchao, which is not read: " + printable(key) +
                    " is an object of which the tensors are parts, and only the file's "
                    "__metadata__ says of which class",
                "load the model with transformers and torchao, dequantise it there and save "
                "it, and merge that");
        }
        const bool is_alias = !header.tensors.contains(key) && header.tensors.contains(value);
        if (key != "format" && !is_alias) {
            lost.push_back(key);
        }
    }
    return lost;
}

}  // namespace shardweld::formats::hf
