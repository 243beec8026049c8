#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>

#include <nlohmann/json.hpp>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/outputs/output.hpp"

namespace shardweld::outputs {

namespace {

using nlohmann::ordered_json;

constexpr Bytes kDataAlignment = 4096;
constexpr Bytes kMaxHeader = 100'000'000;  // safetensors 0.8, tensor.rs: MAX_HEADER_SIZE
constexpr Bytes kLengthField = 8;

/// Consecutive tensors whose bytes fit the limit, at least one each.
std::vector<std::vector<std::uint32_t>> pack(const std::vector<OutputTensor>& tensors,
                                             Bytes limit) {
    std::vector<std::vector<std::uint32_t>> files(1);
    Bytes used = 0;
    for (std::uint32_t i = 0; i < tensors.size(); ++i) {
        const Bytes bytes = tensors[i].bytes();
        if (!files.back().empty() && checked_add_bytes(used, bytes, "an output file") > limit) {
            files.emplace_back();
            used = 0;
        }
        files.back().push_back(i);
        used += bytes;
    }
    return files;
}

std::string file_name(std::size_t at, std::size_t n_files) {
    if (n_files == 1) {
        return "model.safetensors";
    }
    std::array<char, 64> name{};
    const int length = std::snprintf(name.data(), name.size(), "model-%05zu-of-%05zu.safetensors",
                                     at + 1, n_files);
    return {name.data(), static_cast<std::size_t>(length)};
}

/// The length field and JSON of a file whose tensors lie in the given order.
std::string header_of(const std::vector<OutputTensor>& tensors,
                      const std::vector<std::uint32_t>& order) {
    ordered_json json = ordered_json::object();
    json["__metadata__"] = {{"format", "pt"}};
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
                        " exceeds the format's limit of 100 MB: choose a smaller --max_shard_size");
    }
    std::string header;
    for (Bytes rest = text.size(), i = 0; i < kLengthField; ++i, rest >>= 8U) {
        header += static_cast<char>(static_cast<unsigned char>(rest & 0xFFU));
    }
    return header + text;
}

std::string index_of(const std::vector<OutputTensor>& tensors, const Placement& placement) {
    std::string text =
        "{\n  \"metadata\": {\n    \"total_size\": " + std::to_string(placement.tensor_bytes) +
        "\n  },\n  \"weight_map\": {";
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        text += (i == 0 ? "\n    " : ",\n    ") + ordered_json(tensors[i].name).dump() + ": " +
                ordered_json(placement.files[placement.slots[i].file].name).dump();
    }
    return text + "\n  }\n}\n";
}

}  // namespace

Bytes OutputTensor::bytes() const {
    return checked_mul_bytes(to_bytes(volume_of(shape, name), name), size_of(dtype), name);
}

Bytes Placement::total_bytes() const {
    return std::accumulate(files.begin(), files.end(), Bytes{0},
                           [](Bytes sum, const OutputFile& file) { return sum + file.size; });
}

Placement place_safetensors(const std::vector<OutputTensor>& tensors, Bytes max_shard_size) {
    Placement placement;
    placement.slots.resize(tensors.size());
    auto packed = pack(tensors, max_shard_size);
    for (std::size_t at = 0; at < packed.size(); ++at) {
        OutputFile file;
        file.name = file_name(at, packed.size());
        file.tensors = std::move(packed[at]);
        std::stable_sort(file.tensors.begin(), file.tensors.end(),
                         [&](std::uint32_t a, std::uint32_t b) {
                             return size_of(tensors[a].dtype) > size_of(tensors[b].dtype);
                         });
        file.header = header_of(tensors, file.tensors);
        file.size = file.header.size();
        for (const std::uint32_t i : file.tensors) {
            placement.slots[i] = {static_cast<std::uint32_t>(at), file.size};
            file.size = checked_add_bytes(file.size, tensors[i].bytes(), "an output file");
            placement.tensor_bytes += tensors[i].bytes();
        }
        placement.files.push_back(std::move(file));
    }
    if (placement.files.size() > 1) {
        placement.side_files.push_back(
            {"model.safetensors.index.json", index_of(tensors, placement)});
    }
    return placement;
}

}  // namespace shardweld::outputs
