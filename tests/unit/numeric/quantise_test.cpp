// Held against what the real libraries made of the same tensors (tests/data/quant/edge).
#include "numeric/quantise.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <openssl/sha.h>

#include "numeric/quantise_kernels.hpp"
#include "shardweld/error.hpp"
#include "support/temporary_directory.hpp"

#include "samples.hpp"

namespace shardweld::numeric {
namespace {

struct SavedTensor {
    DType dtype = DType::u8;
    std::vector<Index> shape;
    std::vector<std::byte> bytes;
};
using SavedTensors = std::map<std::string, SavedTensor>;

SavedTensors read(const std::string& name) {
    const std::string text =
        test::content_of(SHARDWELD_TEST_DATA "/quant/edge/" + name + ".safetensors");
    std::uint64_t length = 0;
    std::memcpy(&length, text.data(), sizeof(length));
    SavedTensors tensors;
    const auto header = nlohmann::json::parse(text.substr(8, length));
    for (const auto& [key, entry] : header.items()) {
        if (key == "__metadata__") {
            continue;
        }
        const auto at = entry["data_offsets"].get<std::vector<std::size_t>>();
        const auto* first = reinterpret_cast<const std::byte*>(text.data()) + 8 + length;
        tensors[key] = {dtype_from_safetensors(entry["dtype"].get<std::string>()).value(),
                        entry["shape"].get<std::vector<Index>>(),
                        {first + at[0], first + at[1]}};
    }
    return tensors;
}

using Digests = std::map<std::string, std::string>;

/// SHA-256 of each tensor in the library's file `name`.
Digests digests_of(const std::string& name) {
    std::ifstream file(std::string(SHARDWELD_TEST_DATA) + "/quant/edge/expected.json");
    return nlohmann::json::parse(file).at(name).get<Digests>();
}

std::string digest_of(std::span<const std::byte> bytes) {
    std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
    SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
    std::string text;
    for (const unsigned char byte : digest) {
        constexpr std::string_view kDigits = "0123456789abcdef";
        text += {kDigits[byte >> 4U], kDigits[byte & 15U]};
    }
    return text;
}

struct Quantised {
    std::vector<std::byte> codes, scales;
};

QuantisedRows rows_of(Encoding encoding, const SavedTensor& tensor) {
    const auto divisor = facts_of(encoding).divisor;
    const float largest = largest_magnitude(tensor.dtype, tensor.bytes);
    return {encoding, tensor.dtype, tensor.shape[0], tensor.shape[1],
            divisor == nullptr ? 1 : divisor(largest, tensor.dtype)};
}

Quantised quantised(const QuantisedRows& rows, const SavedTensor& tensor) {
    const EncodingFacts& facts = facts_of(rows.encoding);
    Quantised out;
    out.codes.resize(static_cast<std::size_t>(rows.n_rows * facts.code_columns(rows.n_columns)) *
                     size_of(facts.codes));
    out.scales.resize(static_cast<std::size_t>(facts.scale_rows(rows.n_rows) *
                                               facts.scale_columns(rows.n_columns)) *
                      size_of(facts.scale_type(rows.weight)));
    quantise(rows, tensor.bytes, out.codes, out.scales);
    return out;
}

class QuantiseEdge : public testing::TestWithParam<std::pair<Encoding, const char*>> {};

/// The integers' codes of this file come from a division in bf16: only their scales are compared.
TEST_P(QuantiseEdge, gives_the_bytes_of_the_libraries) {
    const auto [encoding, file] = GetParam();
    const EncodingFacts& facts = facts_of(encoding);
    const Digests expected = digests_of(file);
    SavedTensors inputs = read("input");
    inputs.merge(read("fp4-input"));
    int n_compared = 0;
    for (const auto& [name, tensor] : inputs) {
        const std::string codes = name + std::string(facts.codes_ending);
        const std::string scales = name + std::string(facts.scales_ending);
        if (!expected.contains(codes) || name.starts_with("nan") || name.starts_with("inf")) {
            continue;
        }
        // What the libraries make NaN or zeros of: see keeps_safe_edges.
        const bool is_unsafe =
            (encoding == encoding_from("mxfp4").value() &&
             (name == "finite.weight" || name == "huge.weight")) ||
            (encoding == encoding_from("fp8-block").value() && name == "tiny.weight") ||
            (encoding == encoding_from("fp8-block-ue8m0").value() && name == "tiny.weight");
        if (is_unsafe) {
            continue;
        }
        const QuantisedRows rows = rows_of(encoding, tensor);
        const Quantised found = quantised(rows, tensor);
        EXPECT_EQ(digest_of(found.scales), expected.at(scales)) << name;
        if ((facts.code_bits == 4 && facts.codes == DType::u8) || !facts.takes_part_rows) {
            EXPECT_EQ(digest_of(found.codes), expected.at(codes)) << name;
        }
        if (facts.divisor != nullptr) {
            EXPECT_EQ(digest_of(std::as_bytes(std::span(&rows.global, 1))),
                      expected.at(name + "_global_scale"))
                << name;
        }
        ++n_compared;
    }
    EXPECT_GE(n_compared, 3);
}

INSTANTIATE_TEST_SUITE_P(
    files, QuantiseEdge,
    testing::Values(std::pair(encoding_from("fp8-block").value(), "fp8-block"),
                    std::pair(encoding_from("fp8-block-ue8m0").value(), "fp8-block-ue8m0"),
                    std::pair(encoding_from("fp8-channel").value(), "ct-fp8-dynamic"),
                    std::pair(encoding_from("w8a16").value(), "ct-w8a16-g128"),
                    std::pair(encoding_from("w4a16").value(), "ct-w4a16-g128"),
                    std::pair(encoding_from("nvfp4a16").value(), "ct-nvfp4a16"),
                    std::pair(encoding_from("mxfp4").value(), "ct-mxfp4")));

class GgmlEdge : public testing::TestWithParam<std::pair<Encoding, const char*>> {};

TEST_P(GgmlEdge, gives_the_bytes_of_gguf_py) {
    const auto [encoding, file] = GetParam();
    SavedTensors inputs = read("input");
    inputs.merge(read("gguf-input"));
    int n_compared = 0;
    for (const auto& [name, expected] : digests_of(file)) {
        const SavedTensor& tensor = inputs.at(name);
        if (name.starts_with("nan") || name.starts_with("inf")) {
            continue;
        }
        // Scales beyond F16's range; gguf-py writes infinities.
        if (name.starts_with("finite") || name.starts_with("over")) {
            EXPECT_THROW((void)quantised(rows_of(encoding, tensor), tensor), Error) << name;
            continue;
        }
        with_each_instruction_set([&, encoding = encoding] {
            const Quantised found = quantised(rows_of(encoding, tensor), tensor);
            EXPECT_EQ(digest_of(found.codes), expected) << name;
            EXPECT_TRUE(found.scales.empty());
        });
        ++n_compared;
    }
    EXPECT_GE(n_compared, 3);
}

INSTANTIATE_TEST_SUITE_P(
    files, GgmlEdge,
    testing::Values(std::pair(encoding_from("gguf:q8_0").value(), "gguf-q8_0-bytes"),
                    std::pair(encoding_from("gguf:q5_1").value(), "gguf-q5_1-bytes"),
                    std::pair(encoding_from("gguf:q5_0").value(), "gguf-q5_0-bytes"),
                    std::pair(encoding_from("gguf:q4_1").value(), "gguf-q4_1-bytes"),
                    std::pair(encoding_from("gguf:q4_0").value(), "gguf-q4_0-bytes")));

SavedTensor filled(Index rows, Index columns, float value) {
    SavedTensor tensor{DType::f32, {rows, columns}, {}};
    tensor.bytes.resize(static_cast<std::size_t>(rows * columns) * sizeof(float));
    for (std::size_t at = 0; at < tensor.bytes.size(); at += sizeof(float)) {
        std::memcpy(tensor.bytes.data() + at, &value, sizeof(value));
    }
    return tensor;
}

TEST(Quantise, keeps_safe_edges) {
    const SavedTensor tiny = filled(128, 128, 0x1p-121F);
    const Quantised found = quantised(rows_of(encoding_from("fp8-block").value(), tiny), tiny);
    EXPECT_EQ(found.codes, std::vector<std::byte>(128UL * 128, std::byte{0}));
    float scale = 0;
    std::memcpy(&scale, found.scales.data(), sizeof(scale));
    EXPECT_EQ(scale, 1.0F);
    const SavedTensor huge = filled(1, 32, 3e38F);
    const Quantised at_the_end = quantised(rows_of(encoding_from("mxfp4").value(), huge), huge);
    EXPECT_EQ(at_the_end.scales, std::vector<std::byte>(1, std::byte{252}));
    EXPECT_EQ(at_the_end.codes, std::vector<std::byte>(16, std::byte{0x77}));
}

TEST(Quantise, refuses_what_has_no_code) {
    for (const Encoding encoding :
         {encoding_from("fp8-block").value(), encoding_from("fp8-channel").value(),
          encoding_from("w8a16").value(), encoding_from("nvfp4a16").value(),
          encoding_from("mxfp4").value(), encoding_from("gptoss-mxfp4").value(),
          encoding_from("gguf:q8_0").value(), encoding_from("gguf:q4_1").value(),
          encoding_from("gguf:f32").value()}) {
        for (const float value : {std::nanf(""), -std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
            SavedTensor tensor = filled(128, 128, 1.0F);
            std::memcpy(tensor.bytes.data() + 400, &value, sizeof(value));
            EXPECT_THROW((void)quantised(rows_of(encoding, tensor), tensor), Error)
                << facts_of(encoding).name << value;
        }
    }
}

/// The F16 words in front of a block's codes, which zeros decide: gguf-py 0.19 with numpy 2.5.5.
TEST(Quantise, gives_zeros_of_both_signs_the_words_of_gguf_py) {
    using Words = std::vector<std::uint16_t>;
    struct ZeroCase {
        float all, at_5, last;
        Words first_counts;  ///< of the scale of q4_0 and q5_0
        Words minimum;       ///< scale and minimum of q4_1 and q5_1
    };
    for (const ZeroCase& zeros : {ZeroCase{0.0F, 0.0F, 0.0F, {0x8000}, {0, 0}},
                                  ZeroCase{-0.0F, -0.0F, -0.0F, {0}, {0, 0x8000}},
                                  ZeroCase{0.0F, 0.0F, -0.0F, {0x8000}, {0, 0x8000}},
                                  ZeroCase{-0.0F, -0.0F, 0.0F, {0}, {0, 0}},
                                  ZeroCase{0.0F, -0.0F, 0.0F, {0x8000}, {0, 0}}}) {
        for (const auto& [encoding, expected] :
             {std::pair(encoding_from("gguf:q8_0").value(), Words{0}),
              std::pair(encoding_from("gguf:q4_0").value(), zeros.first_counts),
              std::pair(encoding_from("gguf:q5_0").value(), zeros.first_counts),
              std::pair(encoding_from("gguf:q4_1").value(), zeros.minimum),
              std::pair(encoding_from("gguf:q5_1").value(), zeros.minimum)}) {
            SavedTensor tensor = filled(1, 32, zeros.all);
            std::memcpy(tensor.bytes.data() + 5 * sizeof(float), &zeros.at_5, sizeof(float));
            std::memcpy(tensor.bytes.data() + 31 * sizeof(float), &zeros.last, sizeof(float));
            const Quantised found = quantised(rows_of(encoding, tensor), tensor);
            Words words(expected.size());
            std::memcpy(words.data(), found.codes.data(), words.size() * sizeof(std::uint16_t));
            EXPECT_EQ(words, expected)
                << facts_of(encoding).name << zeros.all << zeros.at_5 << zeros.last;
        }
    }
    // Where other values stand among them, the last zero's sign.
    SavedTensor tensor = filled(1, 32, 1.0F);
    const std::array<float, 2> pair{0.0F, -0.0F};
    std::memcpy(tensor.bytes.data() + 29 * sizeof(float), pair.data(), sizeof(pair));
    const Quantised found = quantised(rows_of(encoding_from("gguf:q4_1").value(), tensor), tensor);
    EXPECT_EQ(found.codes[3], std::byte{0x80});
}

/// What fits a code exactly comes back as it was, whatever the encoding.
TEST(Quantise, gives_back_what_fits) {
    for (const std::string& name : encoding_names()) {
        const Encoding encoding = encoding_from(name).value();
        SavedTensor tensor = filled(128, 256, 0.0F);
        tensor.dtype = DType::bf16;
        tensor.bytes.resize(tensor.bytes.size() / 2);
        for (std::size_t i = 0; i < tensor.bytes.size() / 2; ++i) {
            // 0, 1, -1 and -0 among powers of two that every scale meets.
            constexpr std::array<std::uint16_t, 4> kBits{0x0000, 0x3F80, 0xBF80, 0x3F80};
            std::memcpy(tensor.bytes.data() + 2 * i, &kBits[i % 4], 2);
        }
        const QuantisedRows rows = rows_of(encoding, tensor);
        const Quantised found = quantised(rows, tensor);
        std::vector<std::byte> back(tensor.bytes.size());
        dequantise(rows, found.codes, found.scales, back);
        const bool is_coarse =
            facts_of(encoding).codes == DType::i32 || facts_of(encoding).is_ggml();
        const float tolerance = is_coarse ? 0.13F : 0.01F;
        for (std::size_t i = 0; i < back.size() / 2; ++i) {
            std::uint16_t bits = 0;
            std::memcpy(&bits, back.data() + 2 * i, 2);
            const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
            const float wanted = i % 4 == 0 ? 0.0F : i % 4 == 2 ? -1.0F : 1.0F;
            ASSERT_NEAR(value, wanted, tolerance) << name << " " << i;
        }
    }
}

/// Every loop over values of all magnitudes, ties among them, at lengths that fill no register.
TEST(Quantise, gives_the_same_bits_on_every_instruction_set) {
    std::vector<float> values;
    for (std::uint32_t bits = 0; bits < 0x7F800000U; bits += 0x0001FFFDU) {
        values.push_back(std::bit_cast<float>(bits));
        values.push_back(-values.back());
    }
    for (int i = -2048; i < 2048; ++i) {
        values.push_back(static_cast<float>(i) / 8);
    }
    const std::size_t n = values.size() - 3;
    std::vector<const QuantiseKernels*> sets;
    with_each_instruction_set([&] { sets.push_back(&best_quantise_kernels()); });
    const QuantiseKernels& plain = *sets.front();
    for (const QuantiseKernels* kernels : sets) {
        const auto same = [&](auto&& loop) {
            std::vector<std::uint8_t> wanted(n + 1), found(n + 1);
            loop(plain, wanted.data());
            loop(*kernels, found.data());
            EXPECT_EQ(wanted, found);
        };
        EXPECT_EQ(kernels->largest(values.data(), n), plain.largest(values.data(), n));
        for (const float operand : {1.0F, 0.37F, 0x1p-126F, 0x1p100F}) {
            same([&](const QuantiseKernels& of, std::uint8_t* out) {
                of.e4m3_of_product(values.data(), operand, out, n);
            });
            same([&](const QuantiseKernels& of, std::uint8_t* out) {
                of.e4m3_of_quotient(values.data(), operand, out, n);
            });
            same([&](const QuantiseKernels& of, std::uint8_t* out) {
                of.integer_of_quotient(values.data(), operand, 128, out, n);
            });
            same([&](const QuantiseKernels& of, std::uint8_t* out) {
                of.integer_of_quotient(values.data(), operand, 8, out, n);
            });
            same([&](const QuantiseKernels& of, std::uint8_t* out) {
                of.e2m1_of_quotient(values.data(), operand, 0x1p-134F, out, n);
            });
            same([&](const QuantiseKernels& of, std::uint8_t* out) {
                of.e2m1_of_product(values.data(), operand, out, n);
            });
        }
        std::vector<std::uint8_t> codes(256);
        std::iota(codes.begin(), codes.end(), std::uint8_t{0});
        const auto read = [&](const QuantiseKernels& of) {
            std::vector<float> x(4 * codes.size() - 4);
            std::vector<std::uint8_t> nibbles(2 * codes.size());
            of.of_e4m3(codes.data(), x.data(), 253);
            of.unpack_nibbles(codes.data(), nibbles.data(), codes.size());
            of.of_e2m1(nibbles.data(), x.data() + 253, 511);
            of.of_integer(codes.data(), 128, x.data() + 764, 253);
            of.multiply(x.data() + 1, 0.37F, 1000);
            std::vector<std::uint32_t> bits(x.size());
            std::memcpy(bits.data(), x.data(), bits.size() * sizeof(float));
            return bits;
        };
        EXPECT_EQ(read(*kernels), read(plain));
        for (const std::size_t count : {std::size_t{1}, std::size_t{16}, std::size_t{37}, n}) {
            for (const std::size_t tile : {std::size_t{16}, std::size_t{37}, n}) {
                const std::size_t n_tiles = n / tile + 1;
                std::vector<float> steps(n_tiles, 0.75F);
                std::vector<float> most(n_tiles, 2.5F);
                steps.back() = 0.5F;
                most.back() = 1.5F;
                const auto compare = [&](const QuantiseKernels& of) {
                    std::vector<double> squares(2 * n_tiles, 1.0);
                    Quality found;
                    of.compare(values.data(), values.data() + 1, steps.data(), most.data(), tile,
                               count, squares.data(), &found);
                    return std::tuple(squares, found.n_saturated, found.n_zeroed);
                };
                EXPECT_EQ(compare(*kernels), compare(plain));
            }
        }
        same([&](const QuantiseKernels& of, std::uint8_t* out) {
            std::vector<std::uint8_t> unpacked(n);
            of.e2m1_of_product(values.data(), 1, unpacked.data(), n);
            of.pack_nibbles(unpacked.data(), out, n / 2);
        });
    }
}

/// Blocks of small integers and eighths, ties among their quotients, and of values far apart.
TEST(Quantise, makes_and_reads_the_same_blocks_on_every_instruction_set) {
    SavedTensor tensor = filled(64, 256, 0.0F);
    std::vector<float> values(64 * 256);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t row = i / 256;
        values[i] = row < 32 ? static_cast<float>(static_cast<int>(i * 7919 % 4096) - 2048) / 8
                             : std::sin(static_cast<float>(i)) *
                                   std::ldexp(1.0F, static_cast<int>(i * 31 % 48) - 40);
    }
    std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
    for (const std::string& name : encoding_names()) {
        const Encoding encoding = encoding_from(name).value();
        if (facts_of(encoding).blocks == nullptr) {
            continue;
        }
        const QuantisedRows rows = rows_of(encoding, tensor);
        std::vector<std::vector<std::byte>> all;
        with_each_instruction_set([&] {
            all.push_back(quantised(rows, tensor).codes);
            std::vector<std::byte> back(tensor.bytes.size() / 2);
            dequantise(rows, all.front(), {}, back);
            all.push_back(back);
        });
        for (std::size_t i = 2; i < all.size(); ++i) {
            EXPECT_EQ(all[i], all[i % 2]) << name;
        }
    }
}

TEST(Quantise, rounds_halves_of_q8_0_away_from_zero) {
    SavedTensor tensor = filled(256, 32, 0.0F);
    for (std::size_t i = 0; i < 256UL * 32; ++i) {
        // Steps of 1: quotients are the values themselves.
        const float half = static_cast<float>(static_cast<int>(i % 253) - 126) / 2;
        const float beside = i % 3 == 0 ? half : std::nextafter(half, i % 3 == 1 ? 0.0F : 200.0F);
        const float value = i % 32 == 0 ? 127.0F : beside;
        std::memcpy(tensor.bytes.data() + 4 * i, &value, sizeof(value));
    }
    with_each_instruction_set([&] {
        const auto codes =
            quantised(rows_of(encoding_from("gguf:q8_0").value(), tensor), tensor).codes;
        for (std::size_t i = 0; i < 256UL * 32; ++i) {
            float value = 0;
            std::memcpy(&value, tensor.bytes.data() + 4 * i, sizeof(value));
            const auto code = std::to_integer<std::int8_t>(codes[i / 32 * 34 + 2 + i % 32]);
            ASSERT_EQ(static_cast<float>(code), std::round(value)) << value;
        }
    });
}

/// What is told of a tile, worked out one value after the other.
TEST(Quantise, tells_how_near_codes_are) {
    const SavedTensor tensor = [] {
        SavedTensor made = filled(2, 256, 0.0F);
        for (std::size_t i = 0; i < 512; ++i) {
            const float value = std::sin(static_cast<float>(i)) * (i < 384 ? 1.0F : 1e-5F);
            std::memcpy(made.bytes.data() + 4 * i, &value, sizeof(value));
        }
        const float outlier = 3.0F;
        std::memcpy(made.bytes.data() + 4UL * 300, &outlier, sizeof(outlier));
        return made;
    }();
    for (const Encoding encoding :
         {encoding_from("fp8-channel").value(), encoding_from("w4a16").value(),
          encoding_from("mxfp4").value()}) {
        const QuantisedRows rows = rows_of(encoding, tensor);
        const Quantised made = quantised(rows, tensor);
        const Quality found = quality_of(rows, 10, tensor.bytes, made.codes, made.scales);
        std::vector<std::byte> back(tensor.bytes.size() / 2);
        dequantise(rows, made.codes, made.scales, back);
        double errors = 0;
        double squares = 0;
        Index n_zeroed = 0;
        for (std::size_t i = 0; i < 512; ++i) {
            float value = 0;
            std::uint16_t half = 0;
            std::memcpy(&value, tensor.bytes.data() + 4 * i, sizeof(value));
            std::memcpy(&half, back.data() + 2 * i, sizeof(half));
            const float read = std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16U);
            errors += std::pow(static_cast<double>(value) - static_cast<double>(read), 2);
            squares += std::pow(static_cast<double>(value), 2);
            n_zeroed += value != 0 && read == 0 ? 1 : 0;
        }
        EXPECT_NEAR(found.relative_error() / std::sqrt(errors / squares), 1, 0.05);
        EXPECT_EQ(found.n_zeroed, n_zeroed) << facts_of(encoding).name;
        EXPECT_EQ(found.worst.row, 11) << facts_of(encoding).name;
    }
}

TEST(Quality, the_worst_tile_is_the_first_of_the_largest_errors) {
    Quality found;
    Quality::Tile worst;
    for (Index i = 0; i < 2000; ++i) {
        // Many equal errors, and some that differ by little.
        const auto values = static_cast<double>(i * 7919 % 101);
        const double errors = values * static_cast<double>(i % 13 + 1) *
                              (1 + 1e-4 * static_cast<double>(i * 31 % 17));
        found.add_tile(errors, values, i, 2 * i);
        if (Quality::error_of(errors, values) > worst.error) {
            worst = {i, 2 * i, Quality::error_of(errors, values)};
        }
    }
    EXPECT_EQ(found.worst.error, worst.error);
    EXPECT_EQ(found.worst.row, worst.row);
    EXPECT_EQ(found.worst.column, worst.column);
}

}  // namespace
}  // namespace shardweld::numeric
