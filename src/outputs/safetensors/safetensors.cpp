#include <algorithm>

#include <nlohmann/json.hpp>

#include "core/text.hpp"
#include "outputs/format.hpp"
#include "shardweld/error.hpp"

namespace shardweld::outputs {

namespace {

using nlohmann::ordered_json;

constexpr Bytes kDataAlignment = 4096;
constexpr Bytes kMaxHeader = 100'000'000;  // safetensors 0.8, tensor.rs: MAX_HEADER_SIZE
constexpr Bytes kLengthField = 8;

constexpr std::string_view kMetadata = "__metadata__";

// The header is a JSON object in which the format keeps one name for itself.
void require_header_name(const std::string& name) {
    if (name == kMetadata || !is_utf8(name)) {
        throw Error(ErrorCode::unsupported,
                    "tensor name \"" + printable(name) +
                        "\" cannot be written to safetensors: a name is valid UTF-8 and not " +
                        std::string(kMetadata));
    }
}

/// The length field and JSON of a file whose tensors lie in the given order.
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
    text.resize(static_cast<std::size_t>(whole - kLengthField), ' ');
    if (text.size() > kMaxHeader) {
        throw Error(ErrorCode::unsupported,
                    "a safetensors header of " + human_bytes(text.size()) +
                        " exceeds the format's limit of 100 MB",
                    "choose a smaller --max_shard_size");
    }
    std::string header;
    for (Bytes rest = text.size(), i = 0; i < kLengthField; ++i, rest >>= 8U) {
        header += static_cast<char>(static_cast<unsigned char>(rest & 0xFFU));
    }
    return header + text;
}

class Safetensors final : public Format {
  public:
    [[nodiscard]] std::string_view name() const override { return "safetensors"; }
    [[nodiscard]] std::vector<std::string_view> endings() const override {
        return {".safetensors"};
    }
    [[nodiscard]] bool takes_adapter() const override { return true; }

    [[nodiscard]] Placement place(const std::vector<OutputTensor>& tensors,
                                  Bytes max_shard_size) const override {
        std::for_each(tensors.begin(), tensors.end(),
                      [](const OutputTensor& tensor) { require_header_name(tensor.name); });
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

const Format& safetensors_format() {
    static const Safetensors format;
    return format;
}

Placement place_in_one_file(const std::vector<OutputTensor>& tensors,
                            const std::string& file_name) {
    Placement placement = safetensors_format().place(tensors, ~Bytes{0});
    placement.files.front().name = file_name;
    return placement;
}

}  // namespace shardweld::outputs
