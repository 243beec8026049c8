#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"
#include "catalogue/provenance.hpp"
#include "formats/format.hpp"

#include "deepspeed_builder.hpp"
#include "elements.hpp"
#include "scratch.hpp"

namespace shardweld::formats {
namespace {

using test::deepspeed::FlatParameter;
using test::deepspeed::Save;
namespace ds = test::deepspeed;

fs::path deepspeed_case(const std::string& name) {
    return fs::path(SHARDWELD_TEST_DATA) / "deepspeed" / name / "source";
}

catalogue::Catalogue read_deepspeed(const fs::path& directory,
                                    WeightsFrom weights = WeightsFrom::automatic) {
    JobInput request;
    request.directory = directory;
    request.weights = weights;
    return read_catalogue(locate(request));
}

const catalogue::Tensor& tensor_of(const catalogue::Catalogue& catalogue, const std::string& name) {
    const auto at = std::find_if(catalogue.tensors.begin(), catalogue.tensors.end(),
                                 [&](const auto& tensor) { return tensor.name == name; });
    EXPECT_NE(at, catalogue.tensors.end()) << name;
    return at == catalogue.tensors.end() ? catalogue.tensors.at(0) : *at;
}

Bytes ignored_bytes(const catalogue::Catalogue& catalogue, const std::string& reason) {
    Bytes bytes = 0;
    for (const auto& row : catalogue.ignored) {
        bytes += row.reason == reason ? row.bytes : 0;
    }
    return bytes;
}

// Sizes that no number of ranks divides, and tensors smaller than that.
Save odd_save(int stage, Index ranks) {
    Save save;
    save.stage = stage;
    save.ranks = ranks;
    save.groups = {{{"p1", {7, 5}}, {"p2", {3}}, {"p3", {2, 3, 5}}, {"p4", {1}}},
                   {{"p5", {11, 4}}, {"p6", {13}}}};
    return save;
}

TEST(DeepSpeed, finds_every_element_at_any_number_of_ranks) {
    for (const int stage : {1, 2, 3}) {
        for (const Index ranks : {1, 2, 3, 5, 12}) {
            const Scratch scratch;
            ds::write(scratch, odd_save(stage, ranks));
            const auto catalogue = read_deepspeed(scratch.path());
            EXPECT_EQ(catalogue.tensors.size(), 6U);
            EXPECT_EQ(tensor_of(catalogue, "p3").shape, (std::vector<Index>{2, 3, 5}));
            EXPECT_EQ(catalogue.facts.at("dp_world_size"), ranks);
            EXPECT_EQ(catalogue.facts.at("zero_stage"), stage);
            expect_positions(scratch.path(), catalogue, ds::first_of);
        }
    }
}

TEST(DeepSpeed, skips_the_gaps_of_aligned_parameters) {
    const Scratch scratch;
    Save save = odd_save(2, 3);
    save.groups[0][0].gap = 5;
    save.groups[0][3].gap = 7;
    save.groups[1][0].gap = 4;
    ds::write(scratch, save);
    const auto catalogue = read_deepspeed(scratch.path());
    expect_positions(scratch.path(), catalogue, ds::first_of);
    // 69 elements and 12 of gaps are 84 with padding; 57 and 4 are 66.
    EXPECT_EQ(ignored_bytes(catalogue, "padding of flat partitions"), (84 - 69 + 66 - 57) * 4U);
}

TEST(DeepSpeed, names_a_missing_rank_and_what_is_lost_with_it) {
    for (const int stage : {2, 3}) {
        const Scratch scratch;
        ds::write(scratch, odd_save(stage, 3));
        fs::remove(scratch.path() / "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt");
        const std::string lost = stage == 2 ? "p1 [7, 5] elements 24 to 35; p2 [3] elements 0 to 3"
                                            : "p1 [7, 5] elements 12 to 24; p2 [3] elements 1 to 2";
        expect_error(ErrorCode::not_found,
                     "1 of 3 optimizer files are missing: "
                     "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt [lost " +
                         lost,
                     [&] { read_deepspeed(scratch.path()); });
        fs::remove(scratch.path() / "bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt");
        expect_error(ErrorCode::not_found, "2 of 3 optimizer files are missing",
                     [&] { read_deepspeed(scratch.path()); });
    }
}

TEST(DeepSpeed, reads_partitions_whose_padding_is_cut_off) {
    for (const Index ranks : {2, 3, 5}) {
        const Scratch scratch;
        Save save = odd_save(1, ranks);
        save.is_cut = true;
        ds::write(scratch, save);
        const auto catalogue = read_deepspeed(scratch.path());
        expect_positions(scratch.path(), catalogue, ds::first_of);
        EXPECT_EQ(ignored_bytes(catalogue, "padding of flat partitions"), 0U);
    }
}

// Experts 0 and 1 of each rank are 2 and 3 of all on the second expert-parallel one.
TEST(DeepSpeed, numbers_experts_and_joins_their_masters) {
    for (const bool data_first : {false, true}) {
        for (const auto& [ranks, n_expert] :
             std::vector<std::pair<Index, Index>>{{2, 2}, {4, 2}, {6, 3}, {4, 4}, {3, 1}}) {
            const Scratch scratch;
            Save save = odd_save(2, ranks);
            save.groups.push_back({{"moe.experts.deepspeed_experts.0.w", {3, 5}},
                                   {"moe.experts.deepspeed_experts.1.w", {3, 5}}});
            save.expert_ranks = {{2, n_expert}};
            save.data_first = data_first;
            save.more_states = {{"ds_config", ds::dict({{"use_data_before_expert_parallelism",
                                                         data_first ? "\x88" : "\x89"}})}};
            ds::write(scratch, save);
            const auto catalogue = read_deepspeed(scratch.path());
            EXPECT_EQ(catalogue.tensors.size(), static_cast<std::size_t>(6 + 2 * n_expert));
            expect_positions(scratch.path(), catalogue, ds::first_of);
            EXPECT_EQ(catalogue.facts.at("dp_world_size"), ranks);
        }
    }
}

TEST(DeepSpeed, refuses_divided_groups_that_are_no_experts) {
    const auto refused = [](const std::string& name, ErrorCode code) {
        const Scratch scratch;
        Save save = odd_save(2, 4);
        save.groups.push_back({{name, {4, 4}}});
        save.expert_ranks = {{2, 2}};
        ds::write(scratch, save);
        expect_error(code, name + " is divided among fewer ranks than others",
                     [&] { read_deepspeed(scratch.path()); });
    };
    refused("p9", ErrorCode::mismatch);
    refused("mlp.experts.w1", ErrorCode::unsupported);
}

bool has_note(const catalogue::Catalogue& catalogue, const std::string& part) {
    return std::any_of(catalogue.notes.begin(), catalogue.notes.end(),
                       [&](const auto& note) { return note.find(part) != std::string::npos; });
}

// The first 64 elements of each parameter, and of each rank's part of it.
TEST(DeepSpeed, holds_masters_against_the_weights_of_the_module) {
    Save save;
    save.groups = {{{"p1", {3, 3}}, {"p2", {40, 10}}}, {{"p3", {5}}}};
    for (const auto& group : save.groups) {
        for (const FlatParameter& parameter : group) {
            save.module[parameter.name] = ds::values_of(parameter);
        }
    }
    const auto read = [](const Save& of) {
        const Scratch scratch;
        ds::write(scratch, of);
        return read_deepspeed(scratch.path());
    };
    EXPECT_TRUE(has_note(read(save), "masters of 3 parameters round to the module's weights"));
    // 409 elements are padded to 412: the second rank's part begins with element 197 of p2.
    for (const std::size_t at : {0U, 63U, 64U, 196U, 197U, 260U, 261U, 399U}) {
        Save other = save;
        other.module["p2"][at] += 1;
        if (at < 64 || (at >= 197 && at < 261)) {
            expect_error(ErrorCode::mismatch, "weights: p2; element " + std::to_string(at) + " of",
                         [&] { read(other); });
        } else {
            EXPECT_TRUE(has_note(read(other), "masters of 3 parameters"));
        }
    }
    std::swap(save.module["p1"], save.module["p3"]);
    save.module["p1"].resize(9);
    save.module["p3"].resize(5);
    expect_error(ErrorCode::mismatch,
                 "the fp32 masters do not round to the module's weights: p1, p3; element 0 of p1 "
                 "is 10000 in bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt, but 30000 in "
                 "mp_rank_00_model_states.pt",
                 [&] { read(save); });
    save.module = {{"p1", ds::values_of(save.groups[0][0])}};
    const auto catalogue = read(save);
    EXPECT_TRUE(has_note(catalogue, "masters of 1 parameter round"));
    EXPECT_TRUE(has_note(catalogue,
                         "unchecked: the files have no weights of the module for the "
                         "fp32 masters of p2, p3"));
    EXPECT_TRUE(catalogue.samples.all.empty());
}

// In the model states of each tensor-parallel rank, in files of layers and of experts.
TEST(DeepSpeed, finds_the_weights_of_the_module_wherever_they_are_saved) {
    const auto is_held = [](const std::string& name, const std::string& count) {
        return has_note(read_deepspeed(deepspeed_case(name)),
                        "masters of " + count + " parameters");
    };
    EXPECT_TRUE(is_held("autotp_zero1_tp2dp2", "21"));
    EXPECT_TRUE(is_held("pipe_w2", "13"));
    EXPECT_TRUE(is_held("pipe_tied_w2", "7"));
    EXPECT_TRUE(is_held("moe_zero1_w4", "37"));
    const auto none =
        "unchecked: the files have no weights of the module for the fp32 masters of "
        "any parameter";
    EXPECT_TRUE(has_note(read_deepspeed(deepspeed_case("zero3_w2_buffers")), none));
    EXPECT_TRUE(has_note(read_deepspeed(deepspeed_case("universal_tp2")), none));
}

TEST(DeepSpeed, refuses_files_that_contradict_each_other) {
    const auto text_with = [](const std::function<void(Save&)>& change, ErrorCode code) {
        const Scratch scratch;
        Save save = odd_save(2, 3);
        change(save);
        ds::write(scratch, save);
        const auto [got, text] = error_of([&] { read_deepspeed(scratch.path()); });
        EXPECT_EQ(name_of(got), name_of(code)) << text;
        return text;
    };
    const auto has = [](const std::string& text, const std::string& part) {
        EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    has(text_with([](Save& save) { save.counted = 2; }, ErrorCode::mismatch),
        "the number of data-parallel ranks is 2 in");
    has(text_with([](Save& save) { save.counted = 1 << 30; }, ErrorCode::mismatch),
        "the number of data-parallel ranks is 1073741824 in");
    has(text_with([](Save& save) { save.said_stage = 3; }, ErrorCode::mismatch),
        "says that it is of ZeRO stage 3 but holds single_partition_of_fp32_groups");
    has(text_with([](Save& save) { save.padding = 1; }, ErrorCode::mismatch),
        "are padding, but element 23 of 24 is not zero");
    has(text_with(
            [](Save& save) {
                save.more_states = {{"dp_world_size", test::integer(2)}};
            },
            ErrorCode::mismatch),
        "dp_world_size is 2");
    has(text_with(
            [](Save& save) {
                save.more_states = {{"dp_world_size", test::unicode("three")}};
            },
            ErrorCode::corrupt),
        "its dp_world_size is a text, expected a whole number");
}

TEST(DeepSpeed, refuses_partitions_of_two_saves) {
    const Scratch scratch;
    const Scratch other;
    ds::write(scratch, odd_save(2, 3));
    Save larger = odd_save(2, 3);
    larger.groups[0][0].shape = {70, 5};
    ds::write(other, larger);
    const auto take = [&](const std::string& file) {
        fs::copy(other.path() / file, scratch.path() / file, fs::copy_options::overwrite_existing);
    };
    take("mp_rank_00_model_states.pt");
    expect_error(ErrorCode::mismatch, "but 72 in the partitions",
                 [&] { read_deepspeed(scratch.path()); });
    take("bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt");
    expect_error(ErrorCode::mismatch, "in the partitions", [&] { read_deepspeed(scratch.path()); });
    // The same rank twice, of another precision.
    fs::copy(other.path() / "bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt",
             scratch.path() / "zero_pp_rank_2_mp_rank_00_optim_states.pt");
    expect_error(ErrorCode::mismatch, "are the same rank", [&] { read_deepspeed(scratch.path()); });
    // Both stages' model states.
    const Scratch both;
    ds::write(both, odd_save(3, 2));
    both.file("mp_rank_00_model_states.pt", ds::model_states(odd_save(3, 2)));
    expect_error(ErrorCode::mismatch, "stage is 1 or 2 in", [&] { read_deepspeed(both.path()); });
}

TEST(DeepSpeed, joins_frozen_parameters_of_all_ranks) {
    const Scratch scratch;
    const FlatParameter frozen{"p9", {5, 3}};
    const Save save = odd_save(3, 4);
    ds::write(scratch, save);
    const auto values = ds::values_of(frozen);
    for (Index rank = 0; rank < 4; ++rank) {
        std::vector<float> part(4, -1);
        for (Index i = 0; i < 4 && rank * 4 + i < 15; ++i) {
            part[static_cast<std::size_t>(i)] = values[static_cast<std::size_t>(rank * 4 + i)];
        }
        const auto states =
            ds::Fields{{"module", ds::dict({})},
                       {"param_shapes",
                        ds::list({ds::shapes_of(save.groups[0]), ds::shapes_of(save.groups[1])})},
                       {"frozen_param_shapes", ds::shapes_of({frozen})},
                       {"frozen_param_fragments", ds::dict({{"p9", ds::local_tensor("9", {4})}})},
                       {"shared_params",
                        ds::dict({{"q6", test::unicode("p6")}, {"q9", test::unicode("p9")}})}};
        scratch.file("zero_pp_rank_" + std::to_string(rank) + "_mp_rank_00_model_states.pt",
                     test::torch_file(ds::dict(states), {{"9", ds::bytes_of(part)}}));
    }
    const auto catalogue = read_deepspeed(scratch.path());
    EXPECT_EQ(catalogue.tensors.size(), 9U);
    EXPECT_EQ(tensor_of(catalogue, "q9").pieces.size(), tensor_of(catalogue, "p9").pieces.size());
    expect_positions(scratch.path(), catalogue, ds::first_of);
    fs::remove(scratch.path() / "zero_pp_rank_2_mp_rank_00_model_states.pt");
    expect_error(ErrorCode::not_found, "zero_pp_rank_2_mp_rank_00_model_states.pt",
                 [&] { read_deepspeed(scratch.path()); });
}

// Two tensor-parallel ranks: one parameter for each rule.
struct TensorParallelSave {
    std::vector<Save> ranks;
    std::string info;
};

void write_tensor_parallel(const Scratch& scratch, const TensorParallelSave& saved) {
    for (std::size_t mp = 0; mp < saved.ranks.size(); ++mp) {
        const Save& save = saved.ranks[mp];
        scratch.file("mp_rank_" + ds::two_digits(static_cast<Index>(mp)) + "_model_states.pt",
                     ds::model_states(save, {{"mp_world_size", test::integer(2)},
                                             {"universal_checkpoint_info", saved.info}}));
        ds::write_partitions(scratch, save, static_cast<Index>(mp));
    }
}

std::string patterns(const std::vector<std::string>& texts) {
    std::vector<std::string> quoted;
    quoted.reserve(texts.size());
    for (const std::string& text : texts) {
        quoted.push_back(test::unicode(text));
    }
    return ds::list(quoted);
}

TEST(DeepSpeed, joins_tensor_parallel_ranks_by_patterns) {
    TensorParallelSave saved;
    for (const Index rank : {0, 1}) {
        Save save;
        save.ranks = 2;
        save.groups = {{{"rows.1", {rank == 0 ? 4 : 3, 5}},
                        {"columns.2", {6, rank == 0 ? 3 : 2}},
                        {"whole.3", {7}}}};
        saved.ranks.push_back(save);
    }
    saved.info =
        ds::dict({{"parameter_with_row_parallelism_patterns", patterns({"columns\\.\\d+"})},
                  {"tp_replicated_parameter_patterns", patterns({"^whole\\.3$"})}});
    const Scratch scratch;
    write_tensor_parallel(scratch, saved);
    const auto catalogue = read_deepspeed(scratch.path());
    EXPECT_EQ(tensor_of(catalogue, "rows.1").shape, (std::vector<Index>{7, 5}));
    EXPECT_EQ(tensor_of(catalogue, "columns.2").shape, (std::vector<Index>{6, 5}));
    EXPECT_EQ(tensor_of(catalogue, "whole.3").shape, std::vector<Index>{7});
    Index n_replicas = 0;
    for (const auto& piece : tensor_of(catalogue, "whole.3").pieces) {
        n_replicas += piece.replica > 0 ? piece.patch.volume() : 0;
    }
    EXPECT_EQ(n_replicas, 7);
    saved.info = ds::dict({{"autotp_unsupported_parameter_patterns",
                            ds::dict({{"^rows\\.1$", test::unicode("of another shape")}})}});
    const Scratch unsupported;
    write_tensor_parallel(unsupported, saved);
    expect_error(ErrorCode::unsupported, "cannot be joined: of another shape",
                 [&] { read_deepspeed(unsupported.path()); });
    const Scratch bare;
    saved.info = "N";
    write_tensor_parallel(bare, saved);
    expect_error(ErrorCode::unsupported, "nothing says how the parts of",
                 [&] { read_deepspeed(bare.path()); });
}

/// One box of an affine map: rows [source, source + count) of the whole tensor of `width` columns
/// lie from row `dest` of the local one on.
std::string rows_piece(Index source, Index dest, Index count, Index width,
                       const ds::Counts& locations) {
    const auto place = [&](Index row) {
        return ds::list({test::integer(row * width), ds::list_of({width, 1})});
    };
    return ds::dict({{"shape", ds::list_of({count, width})},
                     {"source", place(source)},
                     {"dest", place(dest)},
                     {"locations", ds::list_of(locations)}});
}

// Three query heads of two rows and one key head, which both ranks have: uneven, fused, partly
// replicated. The whole tensor is [q0 q1 q2 k], the ranks' are [q0 q1 k] and [q2 k].
TEST(DeepSpeed, joins_fused_tensor_parallel_parts_as_the_affine_map_says) {
    const Index width = 3;
    const std::vector<std::vector<std::array<Index, 3>>> rows = {{{0, 0, 4}, {6, 4, 2}},
                                                                 {{4, 0, 2}, {6, 2, 2}}};
    std::string ranks = "}(";
    TensorParallelSave saved;
    for (const Index rank : {0, 1}) {
        const Index n_rows = rank == 0 ? 6 : 4;
        std::vector<std::string> pieces;
        for (const auto& [source, dest, count] : rows[static_cast<std::size_t>(rank)]) {
            pieces.push_back(rows_piece(source, dest, count, width,
                                        source == 6 ? ds::Counts{0, 1} : ds::Counts{rank}));
        }
        ranks += test::integer(rank) + ds::dict({{"shard_shape", ds::list_of({n_rows, width})},
                                                 {"pieces", ds::list(pieces)}});
        Save save;
        save.ranks = 3;
        save.groups = {{{"qk.1", {n_rows, width}}}};
        saved.ranks.push_back(save);
    }
    const std::string entry =
        ds::dict({{"logical_shape", ds::list_of({8, width})}, {"ranks", ranks + "u"}});
    saved.info =
        ds::dict({{"affine_map", ds::dict({{"params", ds::dict({{"^qk\\.1$", entry}})}})}});
    const Scratch scratch;
    write_tensor_parallel(scratch, saved);
    const auto catalogue = read_deepspeed(scratch.path());
    const auto& tensor = tensor_of(catalogue, "qk.1");
    EXPECT_EQ(tensor.shape, (std::vector<Index>{8, width}));
    for (const auto& piece : tensor.pieces) {
        const std::string& path = catalogue.files[piece.file].path;
        const auto& boxes = rows[path.find("mp_rank_01") == std::string::npos ? 0U : 1U];
        each_element(tensor, piece, io::InputFile::open(scratch.path() / path),
                     [&](std::size_t at, float value) {
                         const auto row = static_cast<Index>(at) / width;
                         const auto& [source, dest, count] = boxes[row >= 6 ? 1 : 0];
                         const Index local = row - source + dest;
                         EXPECT_EQ(value, static_cast<float>(10000 + local * width +
                                                             static_cast<Index>(at) % width));
                         EXPECT_EQ(piece.replica > 0, row >= 6 && dest == 2);
                     });
    }
}

TEST(DeepSpeed, reads_universal_checkpoints) {
    const Scratch scratch;
    scratch.copy(deepspeed_case("universal_tp2"));
    const auto catalogue = read_deepspeed(scratch.path());
    EXPECT_EQ(catalogue.format, "deepspeed universal");
    EXPECT_EQ(catalogue.tensors.size(), 21U);
    EXPECT_EQ(tensor_of(catalogue, "lm_head.weight").shape, (std::vector<Index>{251, 32}));
    expect_error(ErrorCode::unsupported, "this universal checkpoint holds fp32 weights only",
                 [&] { read_deepspeed(scratch.path(), WeightsFrom::model); });
    // No list of parameters names what has moments alone.
    scratch.file("global_step1_universal/zero/lost.weight/exp_avg.pt", "moments");
    expect_error(ErrorCode::not_found, "zero/lost.weight/fp32.pt",
                 [&] { read_deepspeed(scratch.path()); });
    fs::remove_all(scratch.path() / "global_step1_universal/zero/lost.weight");
    fs::remove_all(scratch.path() / "global_step1_universal/zero/model.norm.weight");
    expect_error(ErrorCode::not_found, "zero/model.norm.weight/fp32.pt",
                 [&] { read_deepspeed(scratch.path()); });
}

// What DeepSpeed's tool finds no optimizer state of, it takes from the module, rounded.
TEST(DeepSpeed, shares_parameters_of_universal_checkpoints_instead_of_rounded_copies) {
    const Scratch scratch;
    const auto write_parameter = [&](const std::string& name, float first) {
        scratch.file("zero/" + name + "/fp32.pt",
                     test::torch_file(ds::dict({{"param", ds::local_tensor("0", {2})}}),
                                      {{"0", ds::bytes_of({first, first + 1})}}));
    };
    write_parameter("p1", 10000);
    write_parameter("q2", -1);  // another name of p1
    write_parameter("r3", 30000);
    Save save;
    save.groups = {{{"p1", {2}}}};
    scratch.file(
        "mp_rank_00_model_states.pt",
        ds::model_states(save, {{"shared_params", ds::dict({{"q2", test::unicode("p1")}})}}));
    const auto catalogue = read_deepspeed(scratch.path());
    ASSERT_EQ(catalogue.tensors.size(), 3U);
    EXPECT_EQ(tensor_of(catalogue, "q2").pieces.front().file,
              tensor_of(catalogue, "p1").pieces.front().file);
    EXPECT_EQ(ignored_bytes(catalogue, "rounded copies of shared parameters"), 8U);
}

// ZeRO-3 saves flat tensors, and frozen parameters stay in parts on all ranks.
TEST(DeepSpeed, reads_universal_checkpoints_of_zero3) {
    const Scratch scratch;
    const FlatParameter trained{"p1", {2, 3}};
    scratch.file("zero/p1/fp32.pt",
                 test::torch_file(ds::local_tensor("0", {6}),
                                  {{"0", ds::bytes_of(ds::values_of(trained))}}));
    const FlatParameter frozen{"p9", {3}};
    const auto values = ds::values_of(frozen);
    for (Index rank = 0; rank < 2; ++rank) {
        const std::vector<float> part = rank == 0 ? std::vector<float>{values[0], values[1]}
                                                  : std::vector<float>{values[2], -1};
        const ds::Fields states = {
            {"module", ds::dict({})},
            {"param_shapes", ds::list({ds::shapes_of({trained})})},
            {"frozen_param_shapes", ds::shapes_of({frozen})},
            {"frozen_param_fragments", ds::dict({{"p9", ds::local_tensor("9", {2})}})}};
        scratch.file("zero_pp_rank_" + std::to_string(rank) + "_mp_rank_00_model_states.pt",
                     test::torch_file(ds::dict(states), {{"9", ds::bytes_of(part)}}));
    }
    const auto catalogue = read_deepspeed(scratch.path());
    ASSERT_EQ(catalogue.tensors.size(), 2U);
    EXPECT_EQ(tensor_of(catalogue, "p1").shape, (std::vector<Index>{2, 3}));
    expect_positions(scratch.path(), catalogue, ds::first_of);
    fs::remove(scratch.path() / "zero_pp_rank_1_mp_rank_00_model_states.pt");
    expect_error(ErrorCode::not_found, "no file holds the elements",
                 [&] { read_deepspeed(scratch.path()); });
}

// Masters and layers' files have the same names.
TEST(DeepSpeed, numbers_the_layers_of_pipelines) {
    const auto masters = read_deepspeed(deepspeed_case("pipe_w2"));
    const auto layers = read_deepspeed(deepspeed_case("pipe_w2"), WeightsFrom::model);
    ASSERT_EQ(masters.tensors.size(), 13U);
    ASSERT_EQ(layers.tensors.size(), 13U);
    for (std::size_t i = 0; i < 13; ++i) {
        EXPECT_EQ(masters.tensors[i].name, layers.tensors[i].name);
        EXPECT_EQ(masters.tensors[i].shape, layers.tensors[i].shape);
        EXPECT_EQ(masters.tensors[i].dtype, DType::f32);
        EXPECT_EQ(layers.tensors[i].dtype, DType::bf16);
    }
    const char* const copies = "copies of weights that are taken from the optimizer's partitions";
    EXPECT_EQ(ignored_bytes(masters, copies), (1296 + 814) * 2U);
}

// The master, which is declared once and by its key, is each layer that is tied.
TEST(DeepSpeed, gives_the_layers_of_a_pipeline_that_are_tied_the_one_master) {
    const auto masters = read_deepspeed(deepspeed_case("pipe_tied_w2"));
    const auto layers = read_deepspeed(deepspeed_case("pipe_tied_w2"), WeightsFrom::model);
    ASSERT_EQ(masters.tensors.size(), 8U);
    ASSERT_EQ(layers.tensors.size(), 8U);
    for (std::size_t i = 0; i < 8; ++i) {
        EXPECT_EQ(masters.tensors[i].name, layers.tensors[i].name);
        EXPECT_EQ(masters.tensors[i].dtype, DType::f32);
    }
    const auto& first = tensor_of(masters, "0.weight");
    const auto& last = tensor_of(masters, "4.weight");
    ASSERT_EQ(first.pieces.size(), last.pieces.size());
    for (std::size_t i = 0; i < first.pieces.size(); ++i) {
        EXPECT_EQ(first.pieces[i].file, last.pieces[i].file);
        EXPECT_EQ(first.pieces[i].base, last.pieces[i].base);
        EXPECT_TRUE(masters.files[first.pieces[i].file].path.ends_with("_optim_states.pt"));
    }
}

TEST(DeepSpeed, says_which_weights_it_takes) {
    const auto note = [](const std::string& name, WeightsFrom weights) {
        return read_deepspeed(deepspeed_case(name), weights).notes.at(1);
    };
    EXPECT_EQ(note("moe_w2", WeightsFrom::automatic),
              "weights: those of the module: there are no fp32 masters in partitions "
              "(*_optim_states.pt)");
    EXPECT_EQ(note("zero3_w2_buffers", WeightsFrom::model),
              "weights: the fp32 masters in the optimizer's partitions, rounded to the module's "
              "dtype: ZeRO-3 keeps no other copy");
    expect_error(ErrorCode::not_found, "optimizer files are missing",
                 [&] { note("moe_w2", WeightsFrom::master); });
    JobInput request;
    request.directory = fixture("llama-tp4-legacy-bf16");
    request.weights = WeightsFrom::model;
    expect_error(ErrorCode::usage, "--weights is about DeepSpeed's checkpoints",
                 [&] { (void)locate(request); });
}

}  // namespace
}  // namespace shardweld::formats
