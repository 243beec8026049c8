#include "checkpoint.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "core/crc32.hpp"
#include "formats/containers/dcp_metadata.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/containers/zip.hpp"
#include "formats/shared/dcp_pieces.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

#include "check.hpp"
#include "torch_writer.hpp"

namespace {

namespace fs = std::filesystem;
namespace bench = shardweld::bench;
namespace formats = shardweld::formats;
namespace io = shardweld::io;
using bench::Checkpoint;
using shardweld::Bytes;
using shardweld::DType;
using shardweld::Error;
using shardweld::Index;
using Shape = std::vector<Index>;

class Directory {
  public:
    Directory() {
        std::string name = (fs::temp_directory_path() / "shardweld_bench_XXXXXX").string();
        path_ = ::mkdtemp(name.data());
    }
    Directory(const Directory&) = delete;
    Directory& operator=(const Directory&) = delete;
    ~Directory() { fs::remove_all(path_); }
    [[nodiscard]] const fs::path& path() const { return path_; }

  private:
    fs::path path_;
};

Checkpoint tiny(DType dtype = DType::bf16) {
    Checkpoint checkpoint;
    checkpoint.grid = {2, 2, 2};
    checkpoint.values = {dtype, 7, false};
    checkpoint.model = bench::model_of_size(1e6, dtype, checkpoint.grid);
    return checkpoint;
}

std::vector<std::byte> expected(const Checkpoint& checkpoint, const std::string& name, Index first,
                                Index n_elements) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(n_elements) *
                                 size_of(checkpoint.values.dtype));
    bench::fill(checkpoint.values, name, static_cast<std::uint64_t>(first), bytes);
    return bytes;
}

std::vector<std::byte> read(const fs::path& path, Bytes offset, std::size_t size) {
    std::vector<std::byte> bytes(size);
    io::InputFile::open(path).read_at(offset, bytes);
    return bytes;
}

TEST(BenchValues, depend_on_name_place_and_seed_and_are_finite) {
    const bench::Values values{DType::bf16, 1, false};
    std::array<std::uint16_t, 5000> whole{};
    bench::fill(values, "a", 0, std::as_writable_bytes(std::span(whole)));
    std::array<std::uint16_t, 100> part{};
    bench::fill(values, "a", 4321, std::as_writable_bytes(std::span(part)));
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 4321));
    std::array<std::uint16_t, 100> other{};
    bench::fill(values, "b", 4321, std::as_writable_bytes(std::span(other)));
    EXPECT_NE(part, other);
    bench::fill({DType::bf16, 2, false}, "a", 4321, std::as_writable_bytes(std::span(other)));
    EXPECT_NE(part, other);
    bench::fill(values, "a", (std::uint64_t{1} << 32U) + 4321,
                std::as_writable_bytes(std::span(other)));
    EXPECT_NE(part, other);
    for (const std::uint16_t bits : whole) {
        EXPECT_NE(bits & 0x7F80U, 0x7F80U);
        EXPECT_NE(bits & 0x7F80U, 0U);
    }
}

TEST(BenchValues, cross_the_border_of_32_bits) {
    const bench::Values values{DType::f32, 1, false};
    const std::uint64_t border = std::uint64_t{1} << 32U;
    std::array<std::uint32_t, 20> across{};
    bench::fill(values, "a", border - 10, std::as_writable_bytes(std::span(across)));
    std::array<std::uint32_t, 10> after{};
    bench::fill(values, "a", border, std::as_writable_bytes(std::span(after)));
    EXPECT_TRUE(std::equal(after.begin(), after.end(), across.begin() + 10));
}

TEST(BenchBandStream, gives_rows_of_a_rectangle_in_any_steps) {
    const bench::Values values{DType::bf16, 3, false};
    const std::vector<bench::Band> bands = {{"m", 10, 2, 3, 4, 5}, {"n", 4, 1, 2, 0, 4}};
    std::vector<std::byte> whole(std::size_t{2} * (15 + 8));
    bench::BandStream(bands, values).read(whole);
    std::vector<std::byte> by_hand;
    for (const Index first : {24, 34, 44}) {
        std::vector<std::byte> row(10);
        bench::fill(values, "m", static_cast<std::uint64_t>(first), row);
        by_hand.insert(by_hand.end(), row.begin(), row.end());
    }
    std::vector<std::byte> rest(16);
    bench::fill(values, "n", 4, rest);
    by_hand.insert(by_hand.end(), rest.begin(), rest.end());
    EXPECT_EQ(whole, by_hand);
    std::vector<std::byte> stepped;
    bench::BandStream stream(bands, values);
    for (const std::size_t n : {3U, 7U, 1U, 12U}) {
        std::vector<std::byte> step(2 * n);
        stream.read(step);
        stepped.insert(stepped.end(), step.begin(), step.end());
    }
    EXPECT_EQ(stepped, by_hand);
}

TEST(BenchModel, fills_the_stages_and_reaches_the_size) {
    const auto model = bench::model_of_size(4e9, DType::bf16, {4, 2, 1});
    EXPECT_EQ(model.layers, 8);
    EXPECT_EQ(bench::padded_vocab(model, {4, 2, 1}), 32256);
    Bytes bytes = 0;
    for (const auto& tensor : bench::hub_tensors(model)) {
        bytes += 2 * static_cast<Bytes>(shardweld::volume_of(tensor.shape, "a shape"));
    }
    EXPECT_NEAR(static_cast<double>(bytes), 4e9, 0.3e9);
    EXPECT_THROW(bench::model_of_size(1e6, DType::bf16, {3, 1, 1}), Error);
}

TEST(BenchLegacy, is_read_by_the_torch_reader) {
    const Directory directory;
    const Checkpoint checkpoint = tiny();
    bench::write_legacy(directory.path(), checkpoint, 2);
    const fs::path path =
        directory.path() / "source/iter_0000001/mp_rank_01_001/model_optim_rng.pt";
    const auto input = io::InputFile::open(path);
    const auto file = formats::TorchFile::read(input);
    const auto* model = file.root().find("model1");
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(file.root().find("checkpoint_version")->real, 3.0);

    // Stage 1 of chunk 1 is the last of four with one layer each.
    ASSERT_EQ(checkpoint.model.layers, 4);
    const auto fc1 = file.tensor(*model->find("decoder.layers.0.mlp.linear_fc1.weight"));
    ASSERT_TRUE(fc1.has_value());
    EXPECT_EQ(fc1->shape, (Shape{896, 256}));
    EXPECT_TRUE(fc1->is_contiguous());
    EXPECT_EQ(fc1->storage_offset % 64, 0U);
    const Index half =
        Index{448} * 256;  // tp rank 1 has the second half of the rows of gate and of up
    const std::size_t bytes = std::size_t{2} * half;
    EXPECT_EQ(read(path, fc1->storage_offset, bytes),
              expected(checkpoint, "model.layers.3.mlp.gate_proj.weight", half, half));
    EXPECT_EQ(read(path, fc1->storage_offset + bytes, bytes),
              expected(checkpoint, "model.layers.3.mlp.up_proj.weight", half, half));
    std::vector<std::byte> data(2 * bytes);
    input.read_at(fc1->storage_offset, data);
    EXPECT_EQ(shardweld::crc32(data), fc1->crc32);

    // tp rank 1 has the second of two groups: 4 query heads of 32 rows, its key, its value.
    const auto qkv = file.tensor(*model->find("decoder.layers.0.self_attention.linear_qkv.weight"));
    EXPECT_EQ(qkv->shape, (Shape{192, 256}));
    const Index head = Index{32} * 256;
    EXPECT_EQ(read(path, qkv->storage_offset, 4 * 2 * head),
              expected(checkpoint, "model.layers.3.self_attn.q_proj.weight", 4 * head, 4 * head));
    EXPECT_EQ(read(path, qkv->storage_offset + 4 * 2 * head, 2 * head),
              expected(checkpoint, "model.layers.3.self_attn.k_proj.weight", head, head));
    EXPECT_EQ(read(path, qkv->storage_offset + 5 * 2 * head, 2 * head),
              expected(checkpoint, "model.layers.3.self_attn.v_proj.weight", head, head));
    EXPECT_EQ(file.tensor(*model->find("decoder.layers.0.mlp.linear_fc1._extra_state"))->shape,
              Shape{0});
    EXPECT_EQ(model->find("output_layer._extra_state")->kind, formats::PickleKind::none);
}

TEST(BenchTorchDist, is_read_by_the_index_and_archive_readers) {
    const Directory directory;
    const Checkpoint checkpoint = tiny(DType::f32);
    bench::write_torch_dist(directory.path(), checkpoint, 2);
    const fs::path source = directory.path() / "source/iter_0000001";
    const auto metadata = formats::DcpMetadata::read(source / ".metadata");
    EXPECT_EQ(metadata.files.size(), 8U);
    EXPECT_EQ(metadata.objects.size(), 4U * 4U);
    std::map<std::string, std::pair<Shape, std::size_t>> found;
    for (const auto& tensor : metadata.tensors) {
        found[tensor.name] = {tensor.shape, tensor.chunks.size()};
        EXPECT_EQ(tensor.dtype, DType::f32);
        formats::check_tiling(formats::tensor_of(tensor));
        for (const auto& chunk : tensor.chunks) {
            const auto input = io::InputFile::open(source / metadata.files[chunk.file].path);
            const auto archive = formats::TorchFile::read(input, chunk.offset, chunk.length);
            EXPECT_TRUE(std::ranges::equal(archive.tensor(archive.root())->shape, chunk.sizes));
        }
    }
    const std::map<std::string, std::pair<Shape, std::size_t>> wanted = {
        {"decoder.final_layernorm.weight", {{256}, 1}},
        {"decoder.layers.mlp.linear_fc1.layer_norm_weight", {{4, 256}, 4}},
        {"decoder.layers.mlp.linear_fc1.weight", {{4, 1792, 256}, 16}},
        {"decoder.layers.mlp.linear_fc2.weight", {{4, 256, 896}, 8}},
        {"decoder.layers.self_attention.linear_proj.weight", {{4, 256, 256}, 8}},
        {"decoder.layers.self_attention.linear_qkv.layer_norm_weight", {{4, 256}, 4}},
        {"decoder.layers.self_attention.linear_qkv.weight", {{4, 384, 256}, 8}},
        {"embedding.word_embeddings.weight", {{1024, 256}, 2}},
        {"output_layer.weight", {{1024, 256}, 2}},
    };
    EXPECT_EQ(found, wanted);
}

TEST(BenchTorchWriter, goes_beyond_4_gib_in_one_storage) {
    const Directory directory;
    bench::TorchPickle content;
    content.pickle.op(bench::PickleOp::empty_list).op(bench::PickleOp::mark);
    const Index large = (Index{5} << 30) + 8;
    content.tensor({DType::u8, {large}, {}});
    content.tensor({DType::u8, {24}, {}});
    content.pickle.op(bench::PickleOp::appends);
    bench::AppendFile out(directory.path() / "x.pt");
    out.write("shifted");
    bench::append_archive(out, "x", content, {DType::bf16, 0, true});
    out.close();
    const auto input = io::InputFile::open(directory.path() / "x.pt");
    const auto file = formats::TorchFile::read(input, 7);
    const auto first = file.tensor(*file.root().elements()[0]);
    const auto second = file.tensor(*file.root().elements()[1]);
    EXPECT_EQ(first->storage_bytes, static_cast<Bytes>(large));
    EXPECT_EQ(second->storage_bytes, 24U);
    EXPECT_EQ((first->storage_offset - 7) % 64, 0U);
    EXPECT_EQ((second->storage_offset - 7) % 64, 0U);
    EXPECT_GT(second->storage_offset, static_cast<Bytes>(large));
}

// The merge that shardweld should make, as one safetensors file.
fs::path write_merge(const Directory& directory, const Checkpoint& checkpoint) {
    nlohmann::ordered_json header;
    Bytes size = 0;
    std::string data;
    for (const auto& tensor : bench::hub_tensors(checkpoint.model)) {
        const Index n = shardweld::volume_of(tensor.shape, "a shape");
        const auto bytes = expected(checkpoint, tensor.name, 0, n);
        header[tensor.name] = {{"dtype", "BF16"},
                               {"shape", tensor.shape},
                               {"data_offsets", {size, size + bytes.size()}}};
        size += bytes.size();
        data.resize(size);
        std::memcpy(data.data() + size - bytes.size(), bytes.data(), bytes.size());
    }
    const std::string text = header.dump();
    std::string prefix(8, '\0');
    const std::uint64_t length = text.size();
    std::memcpy(prefix.data(), &length, sizeof(length));
    std::ofstream(directory.path() / "model.safetensors", std::ios::binary)
        << prefix << text << data;
    return directory.path() / "model.safetensors";
}

TEST(BenchCheckMerge, accepts_the_right_model_and_names_a_wrong_element) {
    const Directory directory;
    const Checkpoint checkpoint = tiny();
    const fs::path path = write_merge(directory, checkpoint);
    const auto good =
        bench::check_merge(directory.path(), checkpoint, checkpoint.values.dtype, false, 2);
    EXPECT_EQ(good.differences, std::vector<std::string>{});
    EXPECT_EQ(good.n_tensors, 3 + 9 * checkpoint.model.layers);
    EXPECT_GT(good.compared_bytes, 5'000'000U);

    // The last element of the last tensor.
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x7f');
    file.close();
    for (const bool is_sample : {false, true}) {
        const auto bad =
            bench::check_merge(directory.path(), checkpoint, checkpoint.values.dtype, is_sample, 2);
        ASSERT_EQ(bad.differences.size(), 1U);
        EXPECT_EQ(bad.differences[0].rfind("tensor model.layers.3.mlp.down_proj.weight: element "
                                           "229375 has bits ",
                                           0),
                  0U)
            << bad.differences[0];
    }
}

TEST(BenchCheckMerge, misses_and_refuses_tensors_by_name) {
    const Directory directory;
    Checkpoint checkpoint = tiny();
    write_merge(directory, checkpoint);
    checkpoint.model.layers = 5;
    const auto fewer =
        bench::check_merge(directory.path(), checkpoint, checkpoint.values.dtype, true, 1);
    ASSERT_EQ(fewer.differences.size(), 9U);
    EXPECT_EQ(fewer.differences[0], "tensor model.layers.4.input_layernorm.weight: is missing");
    checkpoint.model.layers = 3;
    const auto more =
        bench::check_merge(directory.path(), checkpoint, checkpoint.values.dtype, true, 1);
    ASSERT_EQ(more.differences.size(), 9U);
    EXPECT_EQ(more.differences[0], "tensor model.layers.3.input_layernorm.weight: is not expected");
}

}  // namespace
