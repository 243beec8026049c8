// Makes safetensors files from header text and a number of data bytes.
#pragma once

#include <cstdint>
#include <string>

namespace shardweld::test {

inline std::string safetensors(const std::string& header, std::size_t data_bytes) {
    std::string file(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) {
        file[i] = static_cast<char>((std::uint64_t{header.size()} >> (8 * i)) & 0xFFU);
    }
    return file + header + std::string(data_bytes, 'x');
}

/// `"name": {...}` of a tensor of bytes.
inline std::string bytes_entry(const std::string& name, int begin, int end) {
    return "\"" + name + R"(": {"dtype": "U8", "shape": [)" + std::to_string(end - begin) +
           R"(], "data_offsets": [)" + std::to_string(begin) + ", " + std::to_string(end) + "]}";
}

}  // namespace shardweld::test
