// A fixture's merged model, to compare elements with.
// Knows safetensors files only.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "formats/containers/safetensors_header.hpp"
#include "io/input_file.hpp"

#include "scratch.hpp"

namespace shardweld::formats {

/// The bytes of one tensor of expected/model.safetensors, or of expected/some.safetensors where the
/// fixture keeps digests for all tensors and only some in full.
inline std::vector<std::byte> expected_bytes(const std::string& name, const std::string& tensor) {
    const auto directory = fixture(name) / "expected";
    const bool is_whole = std::filesystem::exists(directory / "model.safetensors");
    const auto file =
        io::InputFile::open(directory / (is_whole ? "model.safetensors" : "some.safetensors"));
    const auto stored = read_safetensors_header(file).at(tensor);
    std::vector<std::byte> bytes(stored.storage_bytes);
    file.read_at(stored.storage_offset, bytes);
    return bytes;
}

}  // namespace shardweld::formats
