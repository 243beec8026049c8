// Small training checkpoints of every container and dtype, written by what makes their layouts,
// with bytes that tell tensors and places apart.
#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "io/output_file.hpp"
#include "io/whole_file.hpp"
#include "outputs/training.hpp"

namespace shardweld::test {

struct MadeSave {
    outputs::TrainingSave save;
    std::vector<outputs::OutputTensor> tensors;

    void add(outputs::TrainingTensor place, DType dtype, const std::vector<Index>& shape) {
        const SharedText name(place.file.text() + ":" + std::to_string(tensors.size()));
        tensors.push_back({name, dtype, shape});
        save.tensors.push_back(std::move(place));
    }
};

/// What a tensor holds: no two neighbours begin alike; of booleans only 0 and 1.
inline std::vector<std::byte> bytes_of(const std::vector<outputs::OutputTensor>& tensors,
                                       std::size_t i) {
    std::vector<std::byte> bytes(tensors[i].bytes());
    for (std::size_t k = 0; k < bytes.size(); ++k) {
        const bool is_boolean = tensors[i].dtype == DType::boolean;
        bytes[k] = static_cast<std::byte>((7 * i + k) % (is_boolean ? 2 : 251));
    }
    return bytes;
}

inline outputs::PlainValue plain(std::int64_t value) {
    outputs::PlainValue plain;
    plain.kind = outputs::PlainKind::integer;
    plain.integer = value;
    return plain;
}

inline outputs::PlainValue plain(std::string value) {
    outputs::PlainValue plain;
    plain.kind = outputs::PlainKind::text;
    plain.text = std::move(value);
    return plain;
}

inline outputs::PlainValue plain(std::vector<outputs::PlainValue::Entry> entries) {
    outputs::PlainValue plain;
    plain.kind = outputs::PlainKind::dictionary;
    plain.entries = std::move(entries);
    return plain;
}

inline const std::vector<DType>& all_dtypes() {
    static const std::vector<DType> all = {
        DType::boolean, DType::u8,          DType::i8,          DType::u16,     DType::i16,
        DType::u32,     DType::i32,         DType::u64,         DType::i64,     DType::f8_e4m3,
        DType::f8_e5m2, DType::f8_e4m3fnuz, DType::f8_e5m2fnuz, DType::f8_e8m0, DType::f16,
        DType::bf16,    DType::f32,         DType::f64,         DType::c64};
    return all;
}

/// As Megatron's ranks write: values beside the tensors, two models, every dtype.
inline MadeSave rank_files() {
    MadeSave made;
    const std::string file = "iter_0000001/mp_rank_00/model_optim_rng.pt";
    made.save.files = {file, "iter_0000001/mp_rank_01/model_optim_rng.pt"};
    made.save.beside[file] =
        plain({{"checkpoint_version", plain(3)},
               {"model0", plain({{"_extra_state", {}}})},
               {"args", plain({{"name", plain("a")}, {"many", plain(70000)}})}});
    for (const DType dtype : all_dtypes()) {
        made.add({file, {"model0", std::string(torch_name(dtype))}, {}, {}}, dtype, {3, 5});
    }
    made.add({file, {"model1", "scalar"}, {}, {}}, DType::f32, {});
    made.add({file, {"model1", "empty"}, {}, {}}, DType::bf16, {0, 4});
    made.add({file, {"model0", "last"}, {}, {}}, DType::bf16, {2, 3, 4, 5});
    return made;
}

/// Ranks that hold the same but for the bytes, and ranks that differ from the one before in a
/// shape, a type, a key, a value and the number of tensors.
inline MadeSave alike_files() {
    MadeSave made;
    const auto file_of = [](Index rank) { return "rank_" + std::to_string(rank) + "/model.pt"; };
    constexpr Index kRanks = 8;
    for (Index rank = 0; rank < kRanks; ++rank) {
        made.save.files.push_back(file_of(rank));
        made.save.beside[file_of(rank)] = plain({{"version", plain(rank < 6 ? 3 : 400)}});
    }
    const auto add = [&](Index rank, const std::string& key, DType dtype, Index rows) {
        made.add({file_of(rank), {"model", key}, {}, {}}, dtype, {rows, 2});
    };
    for (Index rank = 0; rank < kRanks; ++rank) {
        add(rank, "a", DType::bf16, rank < 3 ? 64 : 300);
    }
    for (Index rank = 0; rank < kRanks; ++rank) {
        add(rank, rank < 5 ? "b" : "a_much_longer_name", rank < 4 ? DType::bf16 : DType::f32, 5);
    }
    add(kRanks - 1, "c", DType::bf16, 1);
    return made;
}

/// As verl's ranks write them: DTensors over ranks of which three have 2 rows, 2 and none, and a
/// plain one.
inline MadeSave mesh_files(outputs::DeviceMesh mesh) {
    MadeSave made;
    const Index n_ranks = volume_of(mesh.shape, "mesh");
    const Index n_shards = mesh.shape.back();
    for (Index rank = 0; rank < n_ranks; ++rank) {
        const std::string file =
            "model_world_size_" + std::to_string(n_ranks) + "_rank_" + std::to_string(rank) + ".pt";
        made.save.files.push_back(file);
        const Index begin = std::min<Index>(rank % n_shards * 2, 4);
        const Index end = std::min<Index>(begin + 2, 4);
        for (const DType dtype : {DType::bf16, DType::f32, DType::f8_e4m3}) {
            made.add({file, {"model." + std::string(torch_name(dtype))}, {4, 4}, {begin, 0}}, dtype,
                     {end - begin, 4});
        }
        made.add({file, {"buffer"}, {2}, {0}, true}, DType::i64, {2});
    }
    made.save.mesh = {std::move(mesh)};
    return made;
}

/// Chunks of one tensor in two files, every dtype, and byte objects.
inline MadeSave dcp_files() {
    MadeSave made;
    made.save.is_dcp = true;
    made.save.directory = "dist";
    made.save.objects["rng"] = plain({{"seed", plain(7)}});
    for (const DType dtype : all_dtypes()) {
        made.add({"dist/__0_0.distcp", {std::string(torch_name(dtype))}, {2, 4}, {0, 0}}, dtype,
                 {2, 4});
    }
    made.add({"dist/__0_0.distcp", {"cut"}, {5, 6}, {0, 0}}, DType::bf16, {3, 6});
    made.add({"dist/__10_0.distcp", {"cut"}, {5, 6}, {3, 4}}, DType::bf16, {2, 2});
    made.add({"dist/__2_0.distcp", {"cut"}, {5, 6}, {3, 0}}, DType::bf16, {2, 4});
    made.add({"dist/__2_0.distcp", {"scalar"}, {}, {}}, DType::i64, {});
    made.add({"dist/__2_0.distcp", {"model", "nested.weight"}, {4}, {0}}, DType::f32, {4});
    made.save.beside["dist/common.pt"] = plain({{"iteration", plain(1)}});
    return made;
}

/// Writes a placement's files whole.
inline void write_files(const MadeSave& made, const std::filesystem::path& directory) {
    const auto format = outputs::training_format_of(made.save);
    outputs::Placement placement = format->place(made.tensors, 0);
    const outputs::Framer framer = format->framer();
    for (std::size_t at = 0; at < placement.files.size(); ++at) {
        const outputs::PlacedFile& file = placement.files[at];
        std::filesystem::create_directories((directory / file.name).parent_path());
        auto out = io::OutputFile::create(directory / file.name);
        out.resize(file.size);
        for (const std::uint32_t i : file.tensors) {
            out.write_at(placement.slots[i].offset, bytes_of(made.tensors, i));
        }
        const outputs::Frame frame = framer(placement, at, made.tensors);
        for (const outputs::FileBytes& part : frame.parts) {
            out.write_at(part.offset, part.bytes);
        }
        out.close();
    }
    for (const outputs::SideFile& side : placement.side_files) {
        io::write_text(directory / side.name, side.text, false);
    }
}

}  // namespace shardweld::test
