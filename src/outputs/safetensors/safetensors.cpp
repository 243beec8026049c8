#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/json.hpp"
#include "core/text.hpp"
#include "outputs/format.hpp"
#include "outputs/little_endian.hpp"
#include "outputs/output.hpp"
#include "shardweld/error.hpp"

namespace shardweld::outputs {

namespace {

/// safetensors 0.8, tensor.rs: MAX_HEADER_SIZE, N_LEN.
inline constexpr Bytes kMaxHeader = 100'000'000;
inline constexpr Bytes kLengthField = 8;

constexpr Bytes kDataAlignment = 4096;

constexpr std::string_view kMetadata = "__metadata__";

/// The length field and the JSON behind it, filled up with spaces to `whole` bytes. Requires that
/// both fit into them.
std::string padded_header(std::string json, Bytes whole) {
    json.resize(as_size(whole - kLengthField), ' ');
    std::string header;
    append_number(header, json.size(), kLengthField);
    return header + json;
}

/// The format keeps one name for itself. Error(unsupported) for it, and for what is no UTF-8.
void require_header_name(std::string_view name) {
    if (name == kMetadata || !is_utf8(name)) {
        throw Error(ErrorCode::unsupported,
                    "tensor name \"" + printable(name) +
                        "\" cannot be written to safetensors: a name is valid UTF-8 and not " +
                        std::string(kMetadata));
    }
}

/// The length field and JSON of a file whose tensors lie in the given order, padded with spaces so
/// that data begins at a multiple of 4096. Error(unsupported) for more than 100 MB.
std::string header_of(const OutputTensors& tensors, const std::vector<std::uint32_t>& order) {
    // Written by hand: a JSON object that keeps its order looks each new key up in all earlier
    // ones.
    std::string text = "{" + json_string(kMetadata) + R"(:{"format":"pt"})";
    Bytes offset = 0;
    for (const std::uint32_t i : order) {
        const OutputTensor& tensor = tensors[i];
        const Bytes end = checked_add_bytes(offset, tensor.bytes(), "an output file");
        text += "," + json_string(tensor.name.text()) + R"(:{"dtype":")" +
                safetensors_name(tensor.dtype) + R"(","shape":[)" +
                joined(tensor.shape, ",", [](Index n) { return std::to_string(n); }) +
                R"(],"data_offsets":[)" + std::to_string(offset) + "," + std::to_string(end) + "]}";
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

class Safetensors final : public OutputFormat {
  public:
    [[nodiscard]] std::string_view name() const override { return "safetensors"; }
    [[nodiscard]] std::vector<std::string_view> endings() const override {
        return {".safetensors"};
    }
    [[nodiscard]] bool takes_adapter() const override { return true; }

    [[nodiscard]] Placement place(const OutputTensors& tensors,
                                  Bytes max_shard_size) const override {
        std::ranges::for_each(
            tensors, [](const OutputTensor& tensor) { require_header_name(tensor.name.text()); });
        Placement placement = pack(tensors, max_shard_size, endings().front());
        placement.format = this;
        for (PlacedFile& file : placement.files) {
            file.header = header_of(tensors, file.tensors);
            file.size = file.header.size();
            put_in_order(placement, file, tensors);
        }
        return placement;
    }
};

}  // namespace

const OutputFormat& safetensors_format() {
    static const Safetensors format;
    return format;
}

Placement place_in_one_file(const OutputTensors& tensors, const std::string& file_name) {
    Placement placement = safetensors_format().place(tensors, ~Bytes{0});
    placement.files.front().name = file_name;
    return placement;
}

}  // namespace shardweld::outputs
