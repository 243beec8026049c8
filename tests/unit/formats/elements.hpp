// Elements of the pieces of a catalogue, read where it says.
// Knows fp32 tensors only.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"
#include "io/input_file.hpp"

namespace shardweld::formats {

// Calls visit(linear index, float in the file) for each element of a piece.
template <typename Visit>
void each_element(const catalogue::Tensor& tensor, const catalogue::Piece& piece,
                  const io::InputFile& file, const Visit& visit) {
    const auto& axes = piece.patch.axes;
    for (Index flat = 0; flat < piece.patch.volume(); ++flat) {
        Index rest = flat;
        Index address = piece.patch.offset;
        Index linear = 0;
        Index stride = 1;
        for (std::size_t k = axes.size(); k-- > 0;) {
            const Index i = rest % axes[k].extent;
            rest /= axes[k].extent;
            address += i * axes[k].stride;
            linear += (axes[k].lo + i) * stride;
            stride *= tensor.shape[k];
        }
        std::array<std::byte, 4> bytes{};
        file.read_at(piece.base + static_cast<Bytes>(address) * 4, bytes);
        float value = 0;
        std::memcpy(&value, bytes.data(), bytes.size());
        visit(static_cast<std::size_t>(linear), value);
    }
}

/// Checks a checkpoint whose elements are `first` of their tensor plus their row-major position:
/// every copy of every element lies where the catalogue says, and one of them is the primary.
template <typename First>
void expect_positions(const std::filesystem::path& directory, const catalogue::Catalogue& catalogue,
                      const First& first) {
    ASSERT_FALSE(catalogue.tensors.empty());
    for (const auto& tensor : catalogue.tensors) {
        const auto volume = static_cast<std::size_t>(volume_of(tensor.shape, "shape"));
        std::vector<int> n_primary(volume, 0);
        for (const auto& piece : tensor.pieces) {
            const auto file = io::InputFile::open(directory / catalogue.files[piece.file].path);
            each_element(tensor, piece, file, [&](std::size_t at, float value) {
                EXPECT_EQ(value, first(tensor.name) + static_cast<float>(at)) << tensor.name;
                n_primary[at] += piece.replica == 0 ? 1 : 0;
            });
        }
        EXPECT_EQ(std::count(n_primary.begin(), n_primary.end(), 1),
                  static_cast<std::ptrdiff_t>(volume))
            << tensor.name;
    }
}

}  // namespace shardweld::formats
