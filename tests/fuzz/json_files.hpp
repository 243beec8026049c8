// Any text as one of several small JSON files; the first letter says which.
// Knows how a target chooses its reader; knows no file.
#pragma once

#include <cstdint>
#include <string>

#include "expect.hpp"
#include "input_file.hpp"

namespace shardweld::fuzz {

/// The same text as a file and in memory.
struct JsonFile {
    const std::filesystem::path& path;
    const std::string& text;
};
using JsonReader = void (*)(const JsonFile&);

/// 'a' chooses the first reader, 'b' the second...
template <typename Readers>
void read_json(const Readers& readers, const std::uint8_t* data, std::size_t size) {
    if (size == 0 || data[0] < 'a' || data[0] - std::size_t{'a'} >= readers.size()) {
        return;
    }
    const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
    const JsonFile file{file_with(data + 1, size - 1), text};
    expect_errors_only([&] { readers[data[0] - std::size_t{'a'}](file); });
}

}  // namespace shardweld::fuzz
