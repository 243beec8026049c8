#include "formats/shared/master_samples.hpp"

#include <bit>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "scratch.hpp"

namespace shardweld::formats {
namespace {

using catalogue::Catalogue;

/// One parameter, whose masters lie in the first file and whose weights in the second.
Catalogue sampled(DType dtype, Index count) {
    Catalogue catalogue;
    catalogue.files = {{"masters.pt", 0}, {"module.pt", 0}};
    add_sample("w", {0, count}, {0, DType::f32, 0}, {1, dtype, 0}, catalogue.samples);
    catalogue.samples.remedy = "look closer";
    return catalogue;
}

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
    std::vector<std::byte> bytes(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

void hold(DType dtype, const std::vector<float>& masters,
          const std::vector<std::uint16_t>& weights) {
    Catalogue catalogue = sampled(dtype, static_cast<Index>(masters.size()));
    hold_samples(catalogue, {{{1}, {0}, {}, bytes_of(weights)}, {{0}, {0}, {}, bytes_of(masters)}});
    EXPECT_EQ(catalogue.notes.size(), 1U);
    EXPECT_TRUE(catalogue.samples.all.empty());
}

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

float f32(std::uint32_t bits) {
    return std::bit_cast<float>(bits);
}

TEST(MasterSamples, round_to_nearest_and_ties_to_even) {
    hold(DType::bf16, {1, -0.0F, f32(0x3F808000), f32(0x3F808001), f32(0x3F818000), 3.4e38F},
         {0x3F80, 0x8000, 0x3F80, 0x3F81, 0x3F82, 0x7F80});
    hold(DType::f16, {1, -2, 65519, 65520, f32(0x33000000), f32(0x33000001), f32(0x3F801000)},
         {0x3C00, 0xC000, 0x7BFF, 0x7C00, 0x0000, 0x0001, 0x3C00});
    hold(DType::bf16, {kNan, kInfinity, -kInfinity}, {0xFFC1, 0x7F80, 0xFF80});
}

TEST(MasterSamples, name_the_first_element_that_does_not_round) {
    const auto refuse = [](DType dtype, float master, std::uint16_t weight,
                           const std::string& text) {
        expect_error(ErrorCode::mismatch, text, [&] { hold(dtype, {0, master}, {0, weight}); });
    };
    refuse(DType::bf16, f32(0x3F808000), 0x3F81,
           "weights: w; element 1 of w is 1.00390625 in masters.pt, but 1.0078125 in module.pt");
    refuse(DType::f16, 1, 0x3C01, "is 1 in masters.pt, but 1.00097656 in module.pt");
    refuse(DType::bf16, kNan, 0x3F80, "is nan in masters.pt, but 1 in module.pt");
    refuse(DType::bf16, 1, 0x7FC0, "is 1 in masters.pt, but nan in module.pt");
    refuse(DType::bf16, 0, 0x8000, "is 0 in masters.pt, but -0 in module.pt");
}

TEST(MasterSamples, are_the_first_64_elements_where_they_lie) {
    const Scratch scratch;
    std::vector<float> masters(100, 2);
    std::vector<std::uint16_t> weights(200, 0x4000);
    masters.back() = 5;  // no part of the sample
    const auto text = [](const std::vector<std::byte>& bytes) {
        return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    scratch.file("masters.pt", text(bytes_of(masters)));
    scratch.file("module.pt", text(bytes_of(weights)));
    Catalogue catalogue;
    catalogue.files = {{"masters.pt", 400}, {"module.pt", 400}};
    EXPECT_TRUE(
        add_sample("w", {100, 100}, {0, DType::f32, 0}, {1, DType::bf16, 0}, catalogue.samples));
    EXPECT_FALSE(
        add_sample("v", {0, 1}, {0, DType::f64, 0}, {1, DType::bf16, 0}, catalogue.samples));
    ASSERT_EQ(catalogue.samples.all.size(), 1U);
    Location location;
    location.directory = scratch.path();
    const std::vector<std::uint32_t> files = {0, 1};
    const Resolution read = read_samples(location, catalogue, files, [] {});
    EXPECT_EQ(read.samples.size(), 64 * 6U);
    hold_samples(catalogue, {read});
}

}  // namespace
}  // namespace shardweld::formats
