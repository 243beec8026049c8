#include "header.hpp"

#include <utility>

#include <nlohmann/json.hpp>

#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::outputs {

namespace {

using nlohmann::ordered_json;

constexpr Bytes kDataAlignment = 4096;

constexpr std::string_view kMetadata = "__metadata__";

}  // namespace

std::string padded_header(std::string json, Bytes whole) {
    json.resize(static_cast<std::size_t>(whole - kLengthField), ' ');
    std::string header;
    for (Bytes rest = json.size(), i = 0; i < kLengthField; ++i, rest >>= 8U) {
        header += static_cast<char>(static_cast<unsigned char>(rest & 0xFFU));
    }
    return header + json;
}

void require_header_name(const std::string& name) {
    if (name == kMetadata || !is_utf8(name)) {
        throw Error(ErrorCode::unsupported,
                    "tensor name \"" + printable(name) +
                        "\" cannot be written to safetensors: a name is valid UTF-8 and not " +
                        std::string(kMetadata));
    }
}

std::string header_of(const std::vector<OutputTensor>& tensors,
                      const std::vector<std::uint32_t>& order) {
    ordered_json json = ordered_json::object();
    json[kMetadata] = {{"format", "pt"}};
    Bytes offset = 0;
    // Written by hand below the metadata: ordered_json looks every new key up in all earlier ones.
    std::string text = json.dump();
    text.pop_back();
    for (const std::uint32_t i : order) {
        const OutputTensor& tensor = tensors[i];
        const Bytes end = checked_add_bytes(offset, tensor.bytes(), "an output file");
        text += "," + ordered_json(tensor.name).dump() + R"(:{"dtype":")" +
                std::string(safetensors_name(tensor.dtype)) + R"(","shape":)" +
                ordered_json(tensor.shape).dump() + R"(,"data_offsets":[)" +
                std::to_string(offset) + "," + std::to_string(end) + "]}";
        offset = end;
    }
    text += "}";
    const Bytes whole =
        (kLengthField + text.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
    if (whole - kLengthField > kMaxHeader) {
        throw Error(ErrorCode::unsupported,
                    "a safetensors header of " + human_bytes(whole - kLengthField) +
                        " exceeds the format's limit of 100 MB",
                    "choose a smaller --max_shard_size");
    }
    return padded_header(std::move(text), whole);
}

}  // namespace shardweld::outputs
