#include <algorithm>

#include <gtest/gtest.h>

#include "core/crc32.hpp"
#include "formats/containers/dcp_metadata.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/containers/zip.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"
#include "support/temporary_directory.hpp"
#include "support/training_saves.hpp"

namespace shardweld::outputs {
namespace {

using test::MadeSave;

struct Made {
    explicit Made(MadeSave of)
        : made(std::move(of)),
          format(training_format_of(made.save)),
          placement(format->place(made.tensors, 0)) {}
    Frame frame(std::size_t file) { return format->framer()(placement, file, made.tensors); }

    MadeSave made;
    std::shared_ptr<const OutputFormat> format;
    Placement placement;
};

std::vector<MadeSave> all_saves() {
    return {test::rank_files(), test::alike_files(), test::mesh_files({{"fsdp"}, {3}}),
            test::mesh_files({{"ddp", "fsdp"}, {2, 2}}), test::dcp_files()};
}

/// Parts and tensors of a file that have bytes, in order.
std::vector<std::pair<Bytes, Bytes>> ranges_of(const Made& made, std::size_t at,
                                               const Frame& frame) {
    std::vector<std::pair<Bytes, Bytes>> ranges;
    for (const FileBytes& part : frame.parts) {
        ranges.emplace_back(part.offset, part.offset + part.bytes.size());
    }
    for (const std::uint32_t i : made.placement.files[at].tensors) {
        const Bytes begin = made.placement.slots[i].offset;
        EXPECT_EQ(made.placement.slots[i].file, at);
        if (made.made.tensors[i].bytes() > 0) {
            ranges.emplace_back(begin, begin + made.made.tensors[i].bytes());
        }
    }
    std::sort(ranges.begin(), ranges.end());
    return ranges;
}

TEST(TrainingFormat, tiles_files_without_gaps) {
    for (MadeSave& save : all_saves()) {
        Made made(std::move(save));
        EXPECT_TRUE(made.placement.is_settled);
        for (std::size_t at = 0; at < made.placement.files.size(); ++at) {
            Bytes reached = 0;
            const Frame frame = made.frame(at);
            for (const auto& [begin, end] : ranges_of(made, at, frame)) {
                EXPECT_EQ(begin, reached) << made.placement.files[at].name;
                reached = end;
            }
            EXPECT_EQ(reached, made.placement.files[at].size);
        }
    }
}

TEST(TrainingFormat, tells_where_each_checksum_belongs) {
    for (MadeSave& save : all_saves()) {
        Made made(std::move(save));
        for (std::size_t at = 0; at < made.placement.files.size(); ++at) {
            const Frame frame = made.frame(at);
            std::vector<std::uint32_t> tensors;
            for (const ChecksumPlace& place : frame.checksums) {
                tensors.push_back(place.tensor);
            }
            EXPECT_TRUE(std::ranges::is_sorted(frame.checksums, {}, &ChecksumPlace::offset));
            auto expected = made.placement.files[at].tensors;
            expected.insert(expected.end(), expected.begin(), expected.end());
            std::sort(expected.begin(), expected.end());
            std::sort(tensors.begin(), tensors.end());
            EXPECT_EQ(tensors, expected);
        }
    }
}

/// Puts the sums of the tensors where the frames say.
void put_checksums(const MadeSave& save, const fs::path& directory) {
    Made made(save);
    for (std::size_t at = 0; at < made.placement.files.size(); ++at) {
        auto out = io::OutputFile::open_existing(directory / made.placement.files[at].name);
        for (const ChecksumPlace& place : made.frame(at).checksums) {
            const std::uint32_t sum = crc32(test::bytes_of(made.made.tensors, place.tensor));
            out.write_at(place.offset, std::as_bytes(std::span(&sum, 1)));
        }
        out.close();
    }
}

std::vector<std::byte> stored_bytes(const io::InputFile& file,
                                    const formats::StoredTensor& tensor) {
    std::vector<std::byte> bytes(tensor.storage_bytes);
    file.read_at(tensor.storage_offset, bytes);
    return bytes;
}

TEST(TrainingFormat, checksums_complete_the_archives) {
    const test::TemporaryDirectory directory;
    const MadeSave made = test::rank_files();
    test::write_files(made, directory.path());
    const fs::path path = directory.path() / made.save.files.front();
    const auto sums = [&] {
        const auto file = io::InputFile::open(path);
        const auto archive = formats::ZipArchive::read(file, 0, file.size());
        EXPECT_TRUE(archive.is_as_torch_lays_out);
        std::vector<std::uint32_t> stated;
        for (const auto& [name, entry] : archive.entries) {
            std::vector<std::byte> bytes(entry.size);
            file.read_at(entry.offset, bytes);
            formats::require_crc32(name, bytes, entry.crc32);
            stated.push_back(entry.crc32);
        }
        return stated;
    };
    EXPECT_NE(std::ranges::count(sums(), 0U), 1);
    put_checksums(made, directory.path());
    EXPECT_EQ(std::ranges::count(sums(), 0U), 1);  // of the record without bytes
    formats::TorchFile::read(io::InputFile::open(path)).require_unchanged();
}

TEST(TrainingFormat, our_reader_finds_the_tensors_of_rank_files) {
    for (const MadeSave& made : all_saves()) {
        if (made.save.is_dcp) {
            continue;
        }
        const test::TemporaryDirectory directory;
        test::write_files(made, directory.path());
        for (std::size_t i = 0; i < made.tensors.size(); ++i) {
            const TrainingTensor& place = made.save.tensors[i];
            const auto file = io::InputFile::open(directory.path() / place.file.text());
            const auto torch = formats::TorchFile::read(file, 0, std::nullopt, true);
            const formats::PickleValue* value = &torch.root();
            for (const std::string& key : place.path) {
                value = value->find(key);
                ASSERT_NE(value, nullptr) << key;
            }
            if (!place.whole.empty() && !place.is_plain) {
                continue;  // DTensors are read by what knows of their meshes
            }
            const auto tensor = torch.tensor(*value);
            ASSERT_TRUE(tensor) << place.path.back().text();
            EXPECT_EQ(tensor->dtype, made.tensors[i].dtype);
            EXPECT_EQ(tensor->shape, made.tensors[i].shape);
            EXPECT_EQ(stored_bytes(file, *tensor), test::bytes_of(made.tensors, i));
        }
    }
}

TEST(TrainingFormat, our_reader_finds_the_chunks_of_dcp) {
    const test::TemporaryDirectory directory;
    const MadeSave made = test::dcp_files();
    test::write_files(made, directory.path());
    const auto metadata = formats::DcpMetadata::read(directory.path() / "dist/.metadata");
    EXPECT_EQ(metadata.objects.size(), 1U);
    EXPECT_EQ(metadata.paths.at("model.nested.weight"),
              (std::vector<std::string>{"model", "nested.weight"}));
    std::size_t n_chunks = 0;
    for (const formats::DcpTensor& tensor : metadata.tensors) {
        for (const formats::DcpChunk& chunk : tensor.chunks) {
            const auto file =
                io::InputFile::open(directory.path() / "dist" / metadata.files[chunk.file].path);
            const auto torch = formats::TorchFile::read(file, chunk.offset, chunk.length, true);
            const auto stored = torch.tensor(torch.root());
            ASSERT_TRUE(stored);
            EXPECT_EQ(stored->dtype, tensor.dtype);
            EXPECT_TRUE(std::ranges::equal(stored->shape, chunk.sizes));
            ++n_chunks;
        }
    }
    EXPECT_EQ(n_chunks, made.tensors.size());
}

TEST(TrainingFormat, places_more_than_4_gib) {
    MadeSave made;
    const Index large = Index{5} << 30;
    made.add({"a.pt", {"first"}, {}, {}}, DType::u8, {large});
    made.add({"a.pt", {"second"}, {}, {}}, DType::bf16, {3});
    Made placed(made);
    const test::TemporaryDirectory directory;
    const fs::path path = directory.path() / "a.pt";
    auto out = io::OutputFile::create(path);
    out.resize(placed.placement.files.front().size);
    const Frame frame = placed.frame(0);
    for (const FileBytes& part : frame.parts) {
        out.write_at(part.offset, part.bytes);
    }
    out.close();
    const auto file = io::InputFile::open(path);
    const auto torch = formats::TorchFile::read(file);
    for (std::size_t i = 0; i < made.tensors.size(); ++i) {
        const auto tensor = torch.tensor(*torch.root().find(i == 0 ? "first" : "second"));
        ASSERT_TRUE(tensor);
        EXPECT_EQ(tensor->storage_offset, placed.placement.slots[i].offset);
        EXPECT_EQ(tensor->storage_offset % 64, 0U);
        EXPECT_EQ(tensor->storage_bytes, made.tensors[i].bytes());
    }
    EXPECT_TRUE(formats::ZipArchive::read(file, 0, file.size()).is_as_torch_lays_out);
}

TEST(TrainingFormat, same_bytes_each_time) {
    for (const MadeSave& save : all_saves()) {
        Made one(save);
        Made two(save);
        EXPECT_EQ(one.placement.side_files.size(), two.placement.side_files.size());
        for (std::size_t at = 0; at < one.placement.files.size(); ++at) {
            const Frame a = one.frame(at);
            const Frame b = two.frame(at);
            ASSERT_EQ(a.parts.size(), b.parts.size());
            for (std::size_t i = 0; i < a.parts.size(); ++i) {
                EXPECT_TRUE(std::ranges::equal(a.parts[i].bytes, b.parts[i].bytes));
            }
        }
    }
}

TEST(TrainingFormat, refuses_what_has_no_place) {
    MadeSave made = test::rank_files();
    made.tensors.push_back({"unknown", DType::f32, {1}});
    EXPECT_THROW((void)training_format_of(made.save)->place(made.tensors, 0), Error);
    MadeSave twice = test::rank_files();
    twice.add({twice.save.files.front(), {"model0", "last"}, {}, {}}, DType::f32, {1});
    EXPECT_THROW((void)training_format_of(twice.save)->place(twice.tensors, 0), Error);
    MadeSave chunks = test::dcp_files();
    chunks.add({"dist/__0_0.distcp", {"cut"}, {5, 7}, {0, 0}}, DType::bf16, {1, 1});
    EXPECT_THROW((void)training_format_of(chunks.save)->place(chunks.tensors, 0), Error);
}

}  // namespace
}  // namespace shardweld::outputs
