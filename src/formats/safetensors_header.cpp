#include "safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"

namespace shardweld::formats {

namespace {

using Json = nlohmann::json;

constexpr Bytes kLengthBytes = 8;
constexpr Bytes kLongestHeader = Bytes{100} << 20U;  // the reference implementation's limit

[[noreturn]] void refuse(const std::string& what) {
    throw Error(ErrorCode::corrupt, "malformed safetensors header: " + what);
}

std::string read_header(const io::InputFile& file, Bytes begin) {
    const Bytes size = begin < file.size() ? file.size() - begin : 0;
    if (size < kLengthBytes) {
        refuse("it has " + std::to_string(size) + " bytes");
    }
    std::array<std::byte, kLengthBytes> raw{};
    file.read_at(begin, raw);
    Bytes length = 0;
    std::memcpy(&length, raw.data(), raw.size());
    if (length > size - kLengthBytes || length > kLongestHeader) {
        refuse("it claims " + std::to_string(length) + " bytes, the file has " +
               std::to_string(size));
    }
    std::string text(to_size(length, "the safetensors header"), '\0');
    file.read_at(begin + kLengthBytes, std::as_writable_bytes(std::span(text)));
    return text;
}

std::vector<Index> numbers(const Json& entry, const char* key) {
    const auto list = entry.find(key);
    if (list == entry.end() || !list->is_array()) {
        refuse(std::string(key) + " is missing");
    }
    std::vector<Index> values;
    for (const Json& value : *list) {
        if (!value.is_number_unsigned()) {
            refuse(std::string(key) + " is not a list of positive numbers");
        }
        values.push_back(to_index(value.get<Bytes>(), key));
    }
    return values;
}

DType dtype_in(const Json& entry) {
    const auto name = entry.find("dtype");
    if (name == entry.end() || !name->is_string()) {
        refuse("dtype is missing");
    }
    const auto dtype = dtype_from_safetensors(name->get_ref<const std::string&>());
    if (!dtype) {
        throw Error(ErrorCode::unsupported,
                    "unknown safetensors dtype " + printable(name->get_ref<const std::string&>()));
    }
    return *dtype;
}

StoredTensor tensor_in(const Json& entry, Bytes data_begin, Bytes data_size) {
    StoredTensor tensor;
    tensor.dtype = dtype_in(entry);
    tensor.shape = numbers(entry, "shape");
    const auto ends = numbers(entry, "data_offsets");
    if (ends.size() != 2 || ends[0] > ends[1] || to_bytes(ends[1], "data_offsets") > data_size) {
        refuse("data_offsets lie outside the file");
    }
    tensor.storage_offset = data_begin + to_bytes(ends[0], "data_offsets");
    tensor.storage_bytes = to_bytes(ends[1] - ends[0], "data_offsets");
    const Bytes volume = to_bytes(volume_of(tensor.shape, "shape"), "shape");
    if (checked_mul_bytes(volume, size_of(tensor.dtype), "shape") != tensor.storage_bytes) {
        refuse("data_offsets contradict the shape " + shape_text(tensor.shape));
    }
    Index stride = 1;
    tensor.strides.resize(tensor.shape.size());
    for (std::size_t k = tensor.shape.size(); k-- > 0;) {
        tensor.strides[k] = stride;
        stride *= std::max<Index>(tensor.shape[k], 1);
    }
    return tensor;
}

}  // namespace

std::map<std::string, StoredTensor> read_safetensors_header(const io::InputFile& file,
                                                            Bytes begin) {
    const std::string text = read_header(file, begin);
    const auto root = Json::parse(text, nullptr, false);
    if (!root.is_object()) {
        refuse("it is not a JSON object");
    }
    const Bytes data_begin = begin + kLengthBytes + text.size();
    std::map<std::string, StoredTensor> tensors;
    for (const auto& [name, entry] : root.items()) {
        if (name == "__metadata__") {
            continue;
        }
        try {
            tensors[name] = tensor_in(entry, data_begin, file.size() - data_begin);
        } catch (Error& error) {
            error.add_context("tensor " + printable(name));
            throw;
        }
    }
    return tensors;
}

}  // namespace shardweld::formats
