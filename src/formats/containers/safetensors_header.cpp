#include "safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

#include "safetensors_json.hpp"

namespace shardweld::formats {

namespace {

constexpr Bytes kLengthBytes = 8;
constexpr Bytes kLongestHeader = 100'000'000;  // the reference implementation's limit

[[noreturn]] void refuse_header(const std::string& what) {
    throw Error(ErrorCode::corrupt, "malformed safetensors header: " + what);
}

std::string read_header(const io::InputFile& file, Bytes begin) {
    const Bytes size = begin < file.size() ? file.size() - begin : 0;
    if (size < kLengthBytes) {
        refuse_header("it has " + std::to_string(size) + " bytes");
    }
    std::array<std::byte, kLengthBytes> raw{};
    file.read_at(begin, raw);
    Bytes length = 0;
    std::memcpy(&length, raw.data(), raw.size());
    if (length > size - kLengthBytes || length > kLongestHeader) {
        refuse_header("it claims " + std::to_string(length) + " bytes, the file has " +
                      std::to_string(size));
    }
    std::string text(to_size(length, "the safetensors header"), '\0');
    file.read_at(begin + kLengthBytes, std::as_writable_bytes(std::span(text)));
    if (!trim(text).starts_with('{') || text.find('\0') != std::string::npos) {
        refuse_header("it does not begin with '{', or holds a NUL");
    }
    return text;
}

DType dtype_of(const SafetensorsEntry& entry) {
    const auto dtype = dtype_from_safetensors(entry.dtype);
    if (!dtype) {
        throw Error(ErrorCode::unsupported,
                    "safetensors dtype " + printable(entry.dtype) + " is not supported");
    }
    return *dtype;
}

StoredTensor tensor_of(SafetensorsEntry& entry, Bytes data_begin) {
    StoredTensor tensor;
    tensor.dtype = dtype_of(entry);
    tensor.shape = std::move(entry.shape);
    tensor.storage_offset = data_begin + entry.begin;
    tensor.storage_bytes = entry.end - entry.begin;
    const Bytes volume = to_bytes(volume_of(tensor.shape, "shape"), "shape");
    if (checked_mul_bytes(volume, size_of(tensor.dtype), "shape") != tensor.storage_bytes) {
        refuse_header("shape " + shape_text(tensor.shape) + " of " + entry.dtype +
                      " does not take the " + std::to_string(tensor.storage_bytes) +
                      " bytes that data_offsets give it");
    }
    Index stride = 1;
    tensor.strides.resize(tensor.shape.size());
    for (std::size_t k = tensor.shape.size(); k-- > 0;) {
        tensor.strides[k] = stride;
        stride *= std::max<Index>(tensor.shape[k], 1);
    }
    return tensor;
}

// The tensors lie one after another and fill the data.
void require_tiling(const std::map<std::string, StoredTensor>& tensors, Bytes data_begin,
                    Bytes data_size) {
    using NamedTensor = std::map<std::string, StoredTensor>::value_type;
    std::vector<const NamedTensor*> order;
    order.reserve(tensors.size());
    for (const NamedTensor& entry : tensors) {
        order.push_back(&entry);
    }
    std::ranges::sort(order, {}, [](const NamedTensor* entry) {
        return std::pair(entry->second.storage_offset, entry->second.storage_bytes);
    });
    Bytes end = 0;
    const std::string* before = nullptr;
    for (const NamedTensor* entry : order) {
        const Bytes begin = entry->second.storage_offset - data_begin;
        const Bytes next = begin + entry->second.storage_bytes;
        if (next > data_size) {
            refuse_header("tensor " + printable(entry->first) + " ends at byte " +
                          std::to_string(next) + " of the data, which has " +
                          std::to_string(data_size) + ": is the file cut short?");
        }
        if (begin < end) {
            refuse_header("tensors " + printable(*before) + " and " + printable(entry->first) +
                          " overlap");
        }
        if (begin > end) {
            refuse_header("a hole of " + std::to_string(begin - end) + " bytes before tensor " +
                          printable(entry->first));
        }
        end = next;
        before = &entry->first;
    }
    if (end != data_size) {
        refuse_header(std::to_string(data_size - end) + " bytes follow after the last tensor" +
                      (before == nullptr ? std::string() : ", " + printable(*before)));
    }
}

/// The header's text is read, parsed and gone.
SafetensorsText parse_header(const io::InputFile& file, Bytes begin, Bytes& data_begin) {
    const std::string text = read_header(file, begin);
    data_begin = begin + kLengthBytes + text.size();
    return parse_safetensors_text(text);
}

}  // namespace

SafetensorsHeader read_safetensors(const io::InputFile& file, Bytes begin, Twice twice) {
    Bytes data_begin = 0;
    SafetensorsText parsed = parse_header(file, begin, data_begin);
    if (twice == Twice::refused && !parsed.twice.empty()) {
        refuse_header("key " + printable(parsed.twice) + " comes twice, with different tensors");
    }
    SafetensorsHeader header;
    header.metadata = std::move(parsed.metadata);
    for (; !parsed.entries.empty(); parsed.entries.pop_front()) {
        SafetensorsEntry& entry = parsed.entries.front();
        try {
            StoredTensor tensor = tensor_of(entry, data_begin);
            header.tensors.emplace(std::move(entry.name), std::move(tensor));
        } catch (Error& error) {
            error.add_context("tensor " + printable(entry.name));
            throw;
        }
    }
    require_tiling(header.tensors, data_begin, file.size() - data_begin);
    return header;
}

std::map<std::string, StoredTensor> read_safetensors_header(const io::InputFile& file,
                                                            Bytes begin) {
    return read_safetensors(file, begin).tensors;
}

}  // namespace shardweld::formats
