// Containers written by real torch and Megatron, with facts taken by torch itself.
#include <algorithm>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "core/crc32.hpp"
#include "core/text.hpp"
#include "formats/containers/dcp_metadata.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/containers/zip.hpp"
#include "formats/shared/dcp_pieces.hpp"
#include "io/input_file.hpp"

namespace shardweld::formats {
namespace {

namespace fs = std::filesystem;

const fs::path kMegatron = fs::path(SHARDWELD_TEST_DATA) / "megatron";
const fs::path kTorchDist = kMegatron / "llama-tp2-optim-torchdist-bf16/source/iter_0000010";
const fs::path kLegacy =
    kMegatron / "llama-tp4-legacy-bf16/source/iter_0000010/mp_rank_00/model_optim_rng.pt";

TEST(ContainerFixtures, every_record_has_its_checksum) {
    const io::InputFile file = io::InputFile::open(kLegacy);
    const ZipArchive archive = ZipArchive::read(file, 0, file.size());
    EXPECT_EQ(archive.prefix, "model_optim_rng/");
    for (const auto& [name, entry] : archive.entries) {
        std::vector<std::byte> data(entry.size);
        file.read_at(entry.offset, data);
        EXPECT_EQ(crc32(data), entry.crc32) << name;
    }
}

TEST(ContainerFixtures, a_legacy_file_gives_its_dictionary) {
    const io::InputFile file = io::InputFile::open(kLegacy);
    const TorchFile torch_file = TorchFile::read(file);
    const PickleValue& root = torch_file.root();
    EXPECT_EQ(root.find("checkpoint_version")->real, 3.0);
    EXPECT_EQ(root.find("iteration")->integer, 10);
    const PickleValue* const args = root.find("args");
    EXPECT_EQ(args->class_name(), "argparse Namespace");
    EXPECT_EQ(args->attribute("tensor_model_parallel_size")->integer, 4);
    const PickleValue* const model = root.find("model");
    ASSERT_NE(model, nullptr);
    EXPECT_TRUE(model->is_mapping());
    const auto embedding = torch_file.tensor(*model->find("embedding.word_embeddings.weight"));
    ASSERT_TRUE(embedding.has_value());
    EXPECT_EQ(embedding->dtype, DType::bf16);
    EXPECT_TRUE(embedding->is_contiguous());
}

// Every chunk's blob holds a tensor of the chunk's shape and the tensor's type.
TEST(ContainerFixtures, metadata_and_blobs_agree) {
    const DcpMetadata metadata = DcpMetadata::read(kTorchDist / ".metadata");
    EXPECT_EQ(metadata.tensors.size(), 36U);
    EXPECT_EQ(metadata.objects.size(), 10U);
    EXPECT_EQ(metadata.files.size(), 8U);
    EXPECT_EQ(metadata.files.front().path, "__0_0.distcp");
    std::size_t n_chunks = 0;
    for (const DcpTensor& tensor : metadata.tensors) {
        EXPECT_NO_THROW(check_tiling(tensor_of(tensor)));
        for (const DcpChunk& chunk : tensor.chunks) {
            const io::InputFile file =
                io::InputFile::open(kTorchDist / metadata.files[chunk.file].path);
            const TorchFile blob = TorchFile::read(file, chunk.offset, chunk.length);
            const auto stored = blob.tensor(blob.root());
            ASSERT_TRUE(stored.has_value()) << tensor.name;
            EXPECT_TRUE(std::ranges::equal(stored->shape, chunk.sizes)) << tensor.name;
            EXPECT_EQ(stored->dtype, tensor.dtype) << tensor.name;
            ++n_chunks;
        }
    }
    EXPECT_EQ(n_chunks, 116U);
}

TEST(ContainerFixtures, common_state_reads) {
    const TorchFile common = TorchFile::read(io::InputFile::open(kTorchDist / "common.pt"));
    EXPECT_TRUE(common.root().is_mapping());
    EXPECT_EQ(common.root().find("iteration")->integer, 10);
}

// The directories of verl and the legacy files of other splits read as well.
TEST(ContainerFixtures, every_checkpoint_file_reads) {
    int n_files = 0;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kMegatron)) {
        if (entry.path().extension() == ".pt") {
            EXPECT_NO_THROW(TorchFile::read(io::InputFile::open(entry.path()))) << entry.path();
            ++n_files;
        } else if (entry.path().filename() == ".metadata") {
            EXPECT_NO_THROW(DcpMetadata::read(entry.path())) << entry.path();
            ++n_files;
        }
    }
    EXPECT_GE(n_files, 6);
}

}  // namespace
}  // namespace shardweld::formats
