#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"
#include "catalogue/provenance.hpp"
#include "formats/format.hpp"
#include "io/input_file.hpp"
#include "io/whole_file.hpp"

#include "elements.hpp"
#include "scratch.hpp"
#include "torch_builder.hpp"

namespace shardweld::formats {
namespace {

fs::path data(const std::string& name) {
    return fs::path(SHARDWELD_TEST_DATA) / name;
}

catalogue::Catalogue read_fsdp(const fs::path& directory, const Mesh& mesh = {}) {
    JobInput request;
    request.directory = directory;
    request.mesh = mesh;
    return read_catalogue(locate(request));
}

// Files by torch itself, whose elements are their own row-major positions.
void expect_positions(const std::string& name) {
    const fs::path directory = data("torch_meshes/" + name);
    formats::expect_positions(directory, read_fsdp(directory),
                              [](const std::string&) { return 0.0F; });
}

TEST(Fsdp, reads_meshes_of_three_dimensions_and_parts_of_them) {
    expect_positions("three_dims");
}

TEST(Fsdp, reads_meshes_in_any_order) {
    expect_positions("swapped_dims");
}

// Uneven: 20 rows are 7, 7, 6 for the tp ranks, and these cut 7 into 3, 3, 1 and 6 into 2, 2, 2.
TEST(Fsdp, cuts_what_the_tensor_parallel_rank_holds) {
    expect_positions("fsdp_over_tp");
}

TEST(Fsdp, reads_old_and_new_spellings_alike) {
    for (const std::string name : {"old_torch241_hsdp1_w4", "old_torch260_hsdp1_w4",
                                   "hsdp1_w4_bf16_llama", "hsdp2_w4_bf16_llama"}) {
        const auto catalogue = read_fsdp(data("torch/" + name + "/source"));
        EXPECT_EQ(catalogue.format, "verl fsdp");
        EXPECT_EQ(catalogue.dialect, "hf_module");
        EXPECT_EQ(catalogue.facts.at("world"), 4);
        EXPECT_EQ(catalogue.tensors.size(), 21U) << name;
        const auto& pieces = catalogue.tensors.front().pieces;  // lm_head.weight [97, 40]
        ASSERT_EQ(pieces.size(), 4U);
        for (std::size_t i = 0; i < pieces.size(); ++i) {
            // By box, then by rank: ranks 0 and 2 hold the upper half.
            EXPECT_EQ(pieces[i].replica, i % 2) << name;
            EXPECT_EQ(pieces[i].file, std::vector<std::uint32_t>({0, 2, 1, 3})[i]) << name;
        }
    }
}

TEST(Fsdp, orders_ranks_by_number) {
    const auto catalogue = read_fsdp(data("torch/fsdp2_w12_bf16_qwen2/source"));
    EXPECT_EQ(catalogue.files.at(2).path, "model_world_size_12_rank_2.pt");
    EXPECT_EQ(catalogue.files.at(11).path, "model_world_size_12_rank_11.pt");
    for (const auto& tensor : catalogue.tensors) {
        for (std::size_t i = 0; i < tensor.pieces.size(); ++i) {
            EXPECT_EQ(tensor.pieces[i].file, i) << tensor.name;
        }
    }
}

TEST(Fsdp, gives_plain_tensors_their_ranks) {
    const fs::path plain = data("torch/plain_w2_fp32_llama/source");
    const auto catalogue = read_fsdp(plain);
    EXPECT_TRUE(catalogue.tensors.empty());
    EXPECT_EQ(catalogue.shards.size(), 42U);
    EXPECT_EQ(catalogue.facts.at("fsdp"), 2);
    EXPECT_FALSE(catalogue.facts.contains("mesh_by_hand"));
    for (const auto& shard : catalogue.shards) {
        EXPECT_EQ(shard.at.fsdp, static_cast<int>(shard.piece.file));
    }
    const auto copies = read_fsdp(plain, {{"ddp", "tp"}, {1, 2}});
    EXPECT_EQ(copies.facts.at("fsdp"), 1);
    EXPECT_EQ(copies.facts.at("tp"), 2);
    EXPECT_EQ(copies.facts.at("mesh_by_hand"), 1);
    for (const auto& shard : copies.shards) {
        EXPECT_EQ(shard.at.fsdp, 0);
        EXPECT_EQ(shard.at.tp, static_cast<int>(shard.piece.file));
    }
    // Alone in the world, a plain tensor is whole.
    const Scratch scratch;
    fs::copy(plain / "model_world_size_2_rank_0.pt",
             scratch.path() / "model_world_size_1_rank_0.pt");
    EXPECT_EQ(read_fsdp(scratch.path()).tensors.size(), 21U);
}

TEST(Fsdp, is_found_at_every_level) {
    const Scratch scratch;
    scratch.copy(data("torch/fsdp1_w2_fp32_llama/source"), "ckpt/global_step_7/actor");
    scratch.file("ckpt/latest_checkpointed_iteration.txt", "7");
    const fs::path actor = scratch.path() / "ckpt" / "global_step_7" / "actor";
    for (const fs::path& directory : {actor, actor.parent_path(), scratch.path() / "ckpt"}) {
        JobInput request;
        request.directory = directory;
        request.backend = "fsdp";
        const Location location = locate(request);
        EXPECT_EQ(location.directory, actor);
        EXPECT_EQ(location.hf_directory, actor / "huggingface");
        EXPECT_EQ(location.facts.at("iteration"), 7);
    }
    // Before there was huggingface/.
    fs::rename(actor / "huggingface" / "config.json", actor / "config.json");
    fs::remove_all(actor / "huggingface");
    JobInput request;
    request.directory = actor;
    EXPECT_EQ(locate(request).hf_directory, actor);
}

TEST(Fsdp, does_without_replicas) {
    const Scratch scratch;
    scratch.copy(data("torch/hsdp2_w4_bf16_llama/source"));
    fs::remove(scratch.path() / "model_world_size_4_rank_0.pt");
    fs::remove(scratch.path() / "model_world_size_4_rank_3.pt");
    const auto catalogue = read_fsdp(scratch.path());
    EXPECT_NE(catalogue.warnings.at("replica_absent").find("2 of 4 rank files are missing"),
              std::string::npos);
    EXPECT_EQ(catalogue.tensors.front().pieces.size(), 2U);
    fs::remove(scratch.path() / "model_world_size_4_rank_2.pt");
    expect_error(ErrorCode::not_found,
                 "3 of 4 rank files are missing: model_world_size_4_rank_0.pt, "
                 "model_world_size_4_rank_2.pt, model_world_size_4_rank_3.pt",
                 [&] { read_fsdp(scratch.path()); });
}

TEST(Fsdp, takes_the_mesh_said_by_hand) {
    const fs::path hsdp = data("torch/hsdp2_w4_bf16_llama/source");
    const auto usual = read_fsdp(hsdp);
    const auto by_hand = read_fsdp(hsdp, {{"ddp", "fsdp"}, {2, 2}});
    EXPECT_EQ(by_hand.tensors.front().pieces.size(), usual.tensors.front().pieces.size());
    expect_error(ErrorCode::usage, "has 8 ranks, but the checkpoint has 4", [&] {
        read_fsdp(hsdp, {{"ddp", "fsdp"}, {2, 4}});
    });
    expect_error(ErrorCode::mismatch, "say it by hand: --mesh_dim_names and --mesh_shape", [&] {
        read_fsdp(hsdp, {{"ddp", "fsdp"}, {1, 4}});
    });
    // A tensor on a part of the mesh finds its dimension by name.
    const fs::path tp = data("torch/fsdp2_tp_2x2_bf16_qwen2/source");
    EXPECT_EQ(read_fsdp(tp, {{"fsdp", "tp"}, {2, 2}}).tensors.size(), read_fsdp(tp).tensors.size());
    expect_error(ErrorCode::mismatch, "over the mesh dimension 'fsdp'", [&] {
        read_fsdp(tp, {{"dp", "tp"}, {2, 2}});
    });
}

void judge(const Scratch& scratch) {
    const auto catalogue = read_fsdp(scratch.path());
    (void)catalogue::compare_statements(catalogue.files, catalogue.statements);
}

// Tensors without a mesh: the archive's name tells.
TEST(Fsdp, rank_files_are_what_their_names_say) {
    const std::string first = "model_world_size_2_rank_0.pt";
    const std::string second = "model_world_size_2_rank_1.pt";
    const Scratch scratch;
    scratch.copy(data("torch/plain_w2_fp32_llama/source"));
    judge(scratch);
    fs::copy_file(scratch.path() / first, scratch.path() / second,
                  fs::copy_options::overwrite_existing);
    expect_error(ErrorCode::mismatch, "rank is 1 in " + second + " (its name) but 0 in " + second,
                 [&] { judge(scratch); });
    fs::copy_file(data("torch/plain_w2_fp32_llama/source") / second, scratch.path() / first,
                  fs::copy_options::overwrite_existing);
    expect_error(ErrorCode::mismatch, "rank is 0 in " + first, [&] { judge(scratch); });
}

// Schedulers count their steps on all ranks alike.
TEST(Fsdp, training_state_tells_ranks_of_other_steps) {
    const std::string state = "extra_state_world_size_2_rank_1.pt";
    const Scratch scratch;
    scratch.copy(data("torch/fsdp2_value_w2_bf16_qwen2/source"));
    judge(scratch);
    std::string bytes = io::read_text(scratch.path() / state, 1U << 20U);
    const std::string zero("last_epochq\x05K\x00", 14);
    const auto at = bytes.find(zero);
    ASSERT_NE(at, std::string::npos);
    bytes[at + zero.size() - 1] = 20;
    scratch.file(state, bytes);
    expect_error(ErrorCode::mismatch,
                 "lr_scheduler.last_epoch is 0 in extra_state_world_size_2_rank_0.pt",
                 [&] { judge(scratch); });
    const std::size_t n_notes = read_fsdp(scratch.path()).notes.size();
    scratch.file(state, "damaged");
    judge(scratch);
    const auto notes = read_fsdp(scratch.path()).notes;
    ASSERT_EQ(notes.size(), n_notes + 1);
    EXPECT_TRUE(notes.back().starts_with(state)) << notes.back();
}

// So do optimizers: of the first parameter that was stepped, or of their groups.
TEST(Fsdp, optimizers_tell_ranks_of_other_steps) {
    using namespace test;
    const auto optimizer = [](const std::string& step) {
        const std::string frozen = integer(0) + "}";
        const std::string stepped = integer(1) + "}(" + unicode("step") + step + "u";
        return "}(" + unicode("state") + "}(" + frozen + stepped + "u" + "u";
    };
    const auto tensor = [&](const std::string& bytes) {
        return torch_file(optimizer(tensor_v2(storage("torch FloatStorage", "0", 1), 0, {}, {})),
                          {{"0", bytes}});
    };
    const std::string one("\0\0\x80\x3f", 4);
    const std::string eleven("\0\0\x30\x41", 4);
    const std::string no_count("\1\0\x80\x3f", 4);
    const Scratch scratch;
    scratch.copy(data("torch/plain_w2_fp32_llama/source"));
    const auto put = [&](int rank, const std::string& bytes) {
        scratch.file("optim_world_size_2_rank_" + std::to_string(rank) + ".pt", bytes);
    };
    put(0, tensor(one));
    for (const std::string& same : {tensor(one), torch_file(optimizer(integer(1)), {})}) {
        put(1, same);
        judge(scratch);
    }
    for (const std::string& other :
         {tensor(eleven), tensor(no_count), torch_file(optimizer(integer(2)), {}),
          torch_file("}(" + unicode("param_groups") + "](}(" + unicode("step") + integer(9) + "ueu",
                     {})}) {
        put(1, other);
        expect_error(ErrorCode::mismatch,
                     "optimizer step is 1 in optim_world_size_2_rank_0.pt (its optimizer) but ",
                     [&] { judge(scratch); });
    }
}

}  // namespace
}  // namespace shardweld::formats
