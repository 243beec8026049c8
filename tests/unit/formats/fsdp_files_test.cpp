#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"
#include "formats/format.hpp"

#include "fsdp_builder.hpp"
#include "scratch.hpp"

namespace shardweld::formats {
namespace {

using namespace test;
using namespace test::fsdp;

std::string name_of_rank(int rank, int world) {
    return "model_world_size_" + std::to_string(world) + "_rank_" + std::to_string(rank) + ".pt";
}

catalogue::Catalogue read_ranks(const std::vector<Fields>& ranks) {
    const Scratch scratch;
    const int world = static_cast<int>(ranks.size());
    for (int rank = 0; rank < world; ++rank) {
        scratch.file(name_of_rank(rank, world), rank_file(ranks[static_cast<std::size_t>(rank)]));
    }
    JobInput request;
    request.directory = scratch.path();
    return read_catalogue(locate(request));
}

void refused(ErrorCode code, const std::string& part, const std::vector<Fields>& ranks) {
    expect_error(code, part, [&] { read_ranks(ranks); });
}

/// Two rows of w [4, 2] over two ranks.
std::string half(const std::string& mesh) {
    return dtensor({4, 2}, local_tensor("a", {2, 2}), mesh, {shard(0)});
}

void expect_halves(const std::string& mesh0, const std::string& mesh1) {
    const auto catalogue = read_ranks({{{"w", half(mesh0)}}, {{"w", half(mesh1)}}});
    ASSERT_EQ(catalogue.tensors.size(), 1U);
    ASSERT_EQ(catalogue.tensors[0].pieces.size(), 2U);
    EXPECT_EQ(catalogue.tensors[0].pieces[1].patch.axes[0].lo, 2);
}

TEST(FsdpFiles, spell_meshes_in_many_ways) {
    expect_halves(mesh_24({2}, {0}, {0, 1}), mesh_24({2}, {1}, {0, 1}));
    for (const std::string& layout :
         {layout_of({{"axes", tuple({flat_layout(counts({2}))})}}),
          layout_of({{"axes", tuple({flat_layout(integer(2))})}}),
          layout_of({{"axes", tuple({flat_layout(counts({2, 1}))})}}),
          layout_of({{"shape", integer(2)}, {"stride", integer(1)}}),
          layout_of({{"shape", counts({2})}, {"stride", counts({1})}}),
          layout_of({{"shape", tuple({counts({2, 1})})}}),
          layout_of({{"sizes_and_strides", tuple({counts({2, 1})})}})}) {
        expect_halves(mesh_215(layout, {0}, 0), mesh_215(layout, {1}, 1));
    }
}

const std::string kTwo = layout_of({{"shape", counts({2})}});

TEST(FsdpFiles, spell_classes_in_many_ways) {
    for (const std::string type :
         {"torch.distributed._tensor.api DTensor", "torch.distributed.tensor DTensor",
          "torch.distributed.tensor._api DTensor"}) {
        std::vector<Fields> ranks;
        for (int rank = 0; rank < 2; ++rank) {
            const auto mesh = mesh_215(kTwo, {rank}, rank);
            ranks.push_back({{"module._orig_mod.w", dtensor({4, 2}, local_tensor("a", {2, 2}), mesh,
                                                            {shard(-2, kOld)}, {}, type)}});
        }
        const auto catalogue = read_ranks(ranks);
        EXPECT_EQ(catalogue.tensors.at(0).name, "w");
        EXPECT_EQ(catalogue.tensors.at(0).pieces.size(), 2U);
    }
}

std::string order(const Counts& mesh_dims) {
    return tuple({global("torch.distributed.tensor._dtensor_spec ShardOrderEntry") +
                  tuple({integer(0), counts(mesh_dims)}) + "\x81"});
}

TEST(FsdpFiles, say_the_order_of_shards) {
    const std::string grid = layout_of({{"shape", counts({2, 2})}});
    const auto rows_of_rank_1 = [&](const Fields& more) {
        std::vector<Fields> ranks;
        for (int rank = 0; rank < 4; ++rank) {
            ranks.push_back({{"w", dtensor({4}, local_tensor("a", {1}),
                                           mesh_215(grid, {rank / 2, rank % 2}, rank),
                                           {shard(0), shard(0)}, more)}});
        }
        const auto catalogue = read_ranks(ranks);
        for (const auto& piece : catalogue.tensors.at(0).pieces) {
            if (piece.file == 1) {
                return piece.patch.axes[0].lo;
            }
        }
        return Index{-1};
    };
    EXPECT_EQ(rows_of_rank_1({}), 1);
    EXPECT_EQ(rows_of_rank_1({{"shard_order", kNone}}), 1);
    EXPECT_EQ(rows_of_rank_1({{"shard_order", order({0, 1})}}), 1);
    EXPECT_EQ(rows_of_rank_1({{"shard_order", order({1, 0})}}), 2);
    for (const Counts& wrong : {Counts{1}, Counts{0, 0}, Counts{0, 2}}) {
        expect_error(ErrorCode::corrupt, "contradicts its placements", [&] {
            rows_of_rank_1({{"shard_order", order(wrong)}});
        });
    }
}

TEST(FsdpFiles, hold_strided_shards) {
    const std::string grid = layout_of({{"shape", counts({2, 2})}});
    std::vector<Fields> ranks;
    for (int rank = 0; rank < 4; ++rank) {
        ranks.push_back(
            {{"w", dtensor({8}, local_tensor("a", {2}), mesh_215(grid, {rank / 2, rank % 2}, rank),
                           {strided(0, 2), shard(0)})}});
    }
    const auto catalogue = read_ranks(ranks);
    // Rank (fsdp 0, tp 1) is second: the blocks of tensor parallelism are outermost.
    EXPECT_EQ(catalogue.tensors.at(0).pieces[2].file, 1U);
    EXPECT_EQ(catalogue.tensors.at(0).pieces[2].patch.axes[0].lo, 4);
}

TEST(FsdpFiles, hold_tensors_of_one_shape_that_lie_differently) {
    const auto state = [](std::int64_t rank) {
        const auto mesh = mesh_215(kTwo, {rank}, rank);
        const auto lying = [&](const std::string& key, const Counts& local,
                               const std::string& placement) {
            return dtensor({4, 4}, local_tensor(key, local), mesh, {placement});
        };
        return Fields{{"a", lying("a", {2, 4}, shard(0))},
                      {"b", lying("b", {4, 2}, shard(1))},
                      {"c", lying("a", {4, 4}, replicate())},
                      {"d", lying("b", {2, 4}, shard(0))}};
    };
    const auto catalogue = read_ranks({state(0), state(1)});
    ASSERT_EQ(catalogue.tensors.size(), 4U);
    const auto second = [&](std::size_t tensor) {
        return to_text(catalogue.tensors[tensor].pieces.at(1).patch);
    };
    EXPECT_EQ(second(0), second(3));
    EXPECT_EQ(second(0), "0 + [2,4)*4 [0,4)*1");
    EXPECT_EQ(second(1), "0 + [0,4)*2 [2,4)*1");
    EXPECT_EQ(second(2), "0 + [0,4)*4 [0,4)*1");
    EXPECT_EQ(catalogue.tensors[0].placement, "(Shard(0)) over the mesh 2");
    EXPECT_EQ(catalogue.tensors[2].placement, "(Replicate) over the mesh 2");
}

TEST(FsdpFiles, may_give_empty_parts_other_empty_shapes) {
    const auto part = [](std::int64_t rank, const Counts& local) {
        return Fields{{"w", dtensor({3, 1}, local_tensor("a", local), mesh_215(kTwo, {rank}, rank),
                                    {shard(1)})}};
    };
    EXPECT_EQ(read_ranks({part(0, {3, 1}), part(1, {0, 0})}).tensors.at(0).pieces.size(), 1U);
    refused(ErrorCode::mismatch, "its local tensor is [0]", {part(0, {3, 1}), part(1, {0})});
    refused(ErrorCode::mismatch, "its local tensor is [0, 1]", {part(0, {0, 1}), part(1, {3, 0})});
    refused(ErrorCode::mismatch, "its local tensor is [3, 1]", {part(0, {3, 1}), part(1, {3, 1})});
}

TEST(FsdpFiles, are_refused_where_only_the_second_of_two_alike_is_wrong) {
    const auto mesh = mesh_215(kTwo, {0}, 0);
    refused(ErrorCode::mismatch, "its local tensor is [3, 2]",
            {{{"a", dtensor({4, 2}, local_tensor("a", {2, 2}), mesh, {shard(0)})},
              {"b", dtensor({4, 2}, local_tensor("b", {3, 2}), mesh, {shard(0)})}},
             {}});
}

TEST(FsdpFiles, must_be_of_their_rank) {
    const auto mesh0 = mesh_215(kTwo, {0}, 0);
    const auto mesh1 = mesh_215(kTwo, {1}, 1);
    refused(ErrorCode::mismatch,
            "saved by rank 1 (at [1] of 2), which belongs in model_world_size_2_rank_1.pt; the "
            "file is named model_world_size_2_rank_0.pt",
            {{{"w", half(mesh1)}}, {{"w", half(mesh0)}}});
    refused(ErrorCode::mismatch, "saved by rank 1",
            {{{"w", half(mesh_24({2}, {1}, {0, 1}))}}, {{"w", half(mesh_24({2}, {0}, {0, 1}))}}});
    refused(ErrorCode::corrupt, "has shape [2] but puts this file's rank at [2]",
            {{{"w", half(mesh_215(kTwo, {2}, 0))}}, {}});
    refused(ErrorCode::corrupt, "has shape [0]",
            {{{"w", half(mesh_215(layout_of({{"shape", counts({0})}}), {0}, 0))}}, {}});
}

TEST(FsdpFiles, must_agree_with_themselves_about_the_shape) {
    const auto meta = [](const Counts& shape) {
        return global("torch.distributed.tensor._dtensor_spec TensorMeta") +
               tuple({counts(shape), counts({2, 1}), global("torch float32")}) + "\x81";
    };
    const auto of_rank = [&](std::int64_t rank, const Counts& shape) {
        return Fields{{"w", dtensor({4, 2}, local_tensor("a", {2, 2}), mesh_215(kTwo, {rank}, rank),
                                    {shard(0)}, {{"tensor_meta", meta(shape)}})}};
    };
    EXPECT_EQ(read_ranks({of_rank(0, {4, 2}), of_rank(1, {4, 2})}).tensors.size(), 1U);
    refused(ErrorCode::mismatch, "[4, 2] in the tensor but [2, 4] in its DTensorSpec",
            {of_rank(0, {4, 2}), of_rank(1, {2, 4})});
}

// torch numbers the parts by sorted rank in some ways of sharding, by coordinate in others.
TEST(FsdpFiles, must_be_sharded_over_ascending_ranks) {
    const std::string part = "it is sharded over dimension 0 of the mesh 2, along which the ranks";
    refused(ErrorCode::unsupported, part,
            {{{"w", half(mesh_of_ranks({2}, {1}, {1}, 0, {1, 0}))}},
             {{"w", half(mesh_of_ranks({2}, {1}, {0}, 1, {1, 0}))}}});
    const auto underscored = [](std::int64_t rank) {
        return half(mesh_of_ranks({2}, {1}, {1 - rank}, rank, {1, 0}, "\x89", "_axes"));
    };
    refused(ErrorCode::unsupported, part, {{{"w", underscored(0)}}, {{"w", underscored(1)}}});
    refused(ErrorCode::unsupported, part,
            {{{"w", half(mesh_24({2}, {1}, {1, 0}))}}, {{"w", half(mesh_24({2}, {0}, {1, 0}))}}});
    const std::string whole = local_tensor("a", {4, 2});
    read_ranks({{{"w", dtensor({4, 2}, whole, mesh_24({2}, {1}, {1, 0}), {replicate()})}},
                {{"w", dtensor({4, 2}, whole, mesh_24({2}, {0}, {1, 0}), {replicate()})}}});
    expect_halves(mesh_of_ranks({2}, {1}, {0}, 0, {0, 1}), mesh_of_ranks({2}, {1}, {1}, 1, {0, 1}));
    // The lower half of a mesh of four ranks in columns: 0 2 / 1 3.
    expect_halves(mesh_of_ranks({2}, {2}, {0}, 0, {0, 2, 1, 3}),
                  mesh_of_ranks({2}, {2}, {1}, 1, {0, 2, 1, 3}));
    // Groups that keep the mesh's order number the parts by coordinate.
    const auto kept = [](std::int64_t rank) {
        return half(mesh_of_ranks({2}, {1}, {1 - rank}, rank, {1, 0}, "\x88"));
    };
    const auto catalogue = read_ranks({{{"w", kept(0)}}, {{"w", kept(1)}}});
    for (const auto& piece : catalogue.tensors.at(0).pieces) {
        EXPECT_EQ(piece.patch.axes[0].lo, piece.file == 0 ? 2 : 0);
    }
    refused(ErrorCode::corrupt, "at [1], which contradicts its list of 2 ranks",
            {{{"w", half(mesh_of_ranks({2}, {1}, {1}, 0, {0, 1}))}}, {}});
    refused(ErrorCode::corrupt, "at [0], which contradicts its list of 2 ranks",
            {{{"w", half(mesh_of_ranks({2}, {2}, {0}, 0, {0, 1}))}}, {}});
}

Fields both(const std::string& name, const std::string& value) {
    return {{name, value}};
}

TEST(FsdpFiles, must_agree) {
    const auto mesh0 = mesh_215(kTwo, {0}, 0);
    const auto mesh1 = mesh_215(kTwo, {1}, 1);
    const Fields first = both("w", half(mesh0));
    refused(ErrorCode::mismatch, "w is F32 in model_world_size_2_rank_0.pt but I32 in",
            {first, both("w", dtensor({4, 2}, local_tensor("a", {2, 2}, "torch IntStorage"), mesh1,
                                      {shard(0)}))});
    refused(ErrorCode::mismatch,
            "w is [4, 2] in model_world_size_2_rank_0.pt but "
            "[3, 2] in model_world_size_2_rank_1.pt",
            {first, both("w", dtensor({3, 2}, local_tensor("a", {1, 2}), mesh1, {shard(0)}))});
    refused(ErrorCode::mismatch,
            "w is part of a sharded tensor in model_world_size_2_rank_0.pt "
            "but a plain tensor in",
            {first, both("w", local_tensor("a", {2, 2}))});
    refused(ErrorCode::mismatch,
            "w is in model_world_size_2_rank_0.pt but not in "
            "model_world_size_2_rank_1.pt",
            {first, both("x", local_tensor("a", {2}))});
    refused(ErrorCode::mismatch, "b is in model_world_size_2_rank_0.pt but not in",
            {{{"w", half(mesh0)}, {"b", local_tensor("a", {2})}}, {{"w", half(mesh1)}}});
    refused(ErrorCode::mismatch,
            "its local tensor is [1, 2], but (Shard(0)) of [4, 2] over the "
            "mesh 2 gives [2, 2] to the rank at [1]",
            {first, both("w", dtensor({4, 2}, local_tensor("a", {1, 2}), mesh1, {shard(0)}))});
    refused(ErrorCode::mismatch,
            "w is (Shard(0)) over the mesh 2 in model_world_size_2_rank_0.pt but (Shard(1)) "
            "over the mesh 2 in model_world_size_2_rank_1.pt",
            {first, both("w", dtensor({4, 2}, local_tensor("a", {4, 1}), mesh1, {shard(1)}))});
    const auto sharded = [](const Counts& sizes, const std::string& where) {
        const std::string shard = local_shard(local_tensor("a", sizes), where);
        return both("w", sharded_tensor({4, 2}, {shard}, {where}));
    };
    refused(ErrorCode::mismatch, "but a ShardedTensor in model_world_size_2_rank_1.pt",
            {first, sharded({2, 2}, place({2, 0}, {2, 2}, 1))});
    refused(ErrorCode::mismatch, "hold parts that overlap: [2, 2] at [0, 0] and [4, 1] at [0, 1]",
            {sharded({2, 2}, place({0, 0}, {2, 2}, 0)), sharded({4, 1}, place({0, 1}, {4, 1}, 1))});
}

TEST(FsdpFiles, hold_every_element) {
    const std::string three = layout_of({{"shape", counts({3})}});
    const auto part = [&](int rank, int at) {
        return both("w",
                    dtensor({3}, local_tensor("a", {1}), mesh_215(three, {at}, rank), {shard(0)}));
    };
    EXPECT_EQ(read_ranks({part(0, 0), part(1, 1), part(2, 2)}).tensors.at(0).pieces.size(), 3U);
    refused(ErrorCode::mismatch, "w of shape [3]: no file holds the elements between [2] and [3]",
            {part(0, 0), part(1, 1), part(2, 1)});
    // A copy is no part that is missed.
    const auto copy = [&](int rank) {
        return both("w", dtensor({3}, local_tensor("a", {3}), mesh_215(three, {rank}, rank),
                                 {replicate()}));
    };
    const auto catalogue = read_ranks({copy(0), {}, copy(2)});
    EXPECT_EQ(catalogue.tensors.at(0).pieces.size(), 2U);
    EXPECT_NE(
        catalogue.warnings.at("tensor_not_everywhere").find("1 tensor is not in every rank's file"),
        std::string::npos);
}

TEST(FsdpFiles, refuse_what_is_no_weight) {
    const auto mesh = mesh_215(kTwo, {0}, 0);
    for (const std::string type : {"Partial", "_Partial", "_MaskPartial"}) {
        refused(ErrorCode::unsupported, "it is placed as " + type + ": each rank holds a part",
                {both("w", dtensor({2}, local_tensor("a", {2}), mesh,
                                   {made(kNew + type, dict({{"reduce_op", unicode("sum")}}))})),
                 {}});
    }
    refused(ErrorCode::unsupported, "has the placement",
            {both("w", dtensor({2}, local_tensor("a", {2}), mesh,
                               {made(kNew + "RaggedShard", dict({}))})),
             {}});
    refused(ErrorCode::unsupported, "LOCAL_STATE_DICT",
            {both("_fsdp_wrapped_module._flat_param", local_tensor("a", {2})), {}});
    refused(ErrorCode::unsupported, "AffineQuantizedTensor",
            {both("w", wrapper("torchao.dtypes AffineQuantizedTensor", {2}, dict({}))), {}});
    refused(ErrorCode::unsupported, "where a tensor of plain elements is expected",
            {both("w", dict({{"a", local_tensor("a", {2})}})), {}});
    refused(ErrorCode::unsupported, "meta device",
            {both("w", tensor_v2(storage("torch FloatStorage", "a", 4, "meta"), 0, {4}, {1})), {}});
    refused(ErrorCode::mismatch, "keys _orig_mod.w and w both name tensor w",
            {{{"w", local_tensor("a", {2})}, {"_orig_mod.w", local_tensor("a", {2})}}});
    refused(ErrorCode::corrupt, "occurs twice",
            {{{"w", local_tensor("a", {2})}, {"w", local_tensor("a", {2})}}});
    refused(ErrorCode::corrupt, "shards dimension 1 of a tensor with 1 dimension",
            {both("w", dtensor({2}, local_tensor("a", {1}), mesh, {shard(1)})), {}});
    refused(
        ErrorCode::corrupt, "over the mesh 2",
        {both("w", dtensor({2}, local_tensor("a", {2}), mesh, {replicate(), replicate()})), {}});
}

TEST(FsdpFiles, leave_states_aside) {
    const auto catalogue = read_ranks({{{"w", local_tensor("a", {2})},
                                        {"layers.0.n", integer(3)},
                                        {"layers.1.n", integer(4)},
                                        {"layers.0._extra_state", call("_io BytesIO", {})},
                                        {"flag", "\x88"},
                                        {"none", kNone},
                                        {"empty", local_tensor("a", {0})}}});
    EXPECT_EQ(catalogue.tensors.size(), 1U);
    constexpr const char* kUnread = "(storages): no tensor of the model lies in these bytes";
    std::map<std::string, Index> rows;
    for (const auto& row : catalogue.ignored) {
        rows[row.pattern + ": " + row.reason] = row.count;
    }
    EXPECT_EQ(rows, (std::map<std::string, Index>{{"layers.*.n: not a tensor", 2},
                                                  {"layers.*._extra_state: extra state", 1},
                                                  {"flag: not a tensor", 1},
                                                  {"none: not a tensor", 1},
                                                  {"empty: empty tensor", 1},
                                                  {kUnread, 1}}));
}

TEST(FsdpFiles, hold_sharded_tensors) {
    const std::vector<std::string> places = {place({0, 0}, {2, 2}, 0), place({2, 0}, {1, 2}, 1)};
    const auto on = [&](const std::string& tensor, const std::string& where) {
        return both("w", sharded_tensor({3, 2}, {local_shard(tensor, where)}, places));
    };
    const Fields first = on(local_tensor("a", {2, 2}), places[0]);
    const Fields second = on(local_tensor("a", {1, 2}), places[1]);
    EXPECT_EQ(read_ranks({first, second}).tensors.at(0).pieces.size(), 2U);
    refused(ErrorCode::mismatch, "saved by rank 1, which belongs in model_world_size_2_rank_1.pt",
            {second, first});
    refused(ErrorCode::mismatch,
            "its shard at [2, 0] is [2, 2] in the tensor but [1, 2] in its metadata",
            {first, on(local_tensor("a", {2, 2}), places[1])});
    refused(ErrorCode::corrupt, "has a shard of [2, 2] at [2, 0]",
            {first, on(local_tensor("a", {2, 2}), place({2, 0}, {2, 2}, 1))});
    refused(ErrorCode::mismatch, "gives the shard of [1, 2] at [2, 0] to this rank, which does not",
            {first, both("w", sharded_tensor({3, 2}, {}, places))});
    refused(ErrorCode::mismatch, "gives the shard of [1, 2] at [2, 0] to this rank, which does not",
            {first, on(local_tensor("a", {1, 2}), place({1, 0}, {1, 2}, 1))});
    // All on one rank: the other has an empty list.
    const std::vector<std::string> one = {place({0}, {1}, 0)};
    EXPECT_EQ(read_ranks({both("w", sharded_tensor(
                                        {1}, {local_shard(local_tensor("a", {1}), one[0])}, one)),
                          both("w", sharded_tensor({1}, {}, one))})
                  .tensors.at(0)
                  .pieces.size(),
              1U);
}

// HYBRID_SHARD without a mesh: ranks 0 and 2 share one copy, 1 and 3 the other. A shard's own
// number is that in its group, the list of all shards counts in the group (torch 2.2) or in the job
// (2.8).
TEST(FsdpFiles, hold_copies_of_sharded_tensors) {
    const auto rank_file_of = [](int rank, bool in_job, int saved_by) {
        const int group = rank % 2;
        const int at = rank / 2;
        const std::vector<std::string> places = {place({0, 0}, {2, 2}, in_job ? group : 0),
                                                 place({2, 0}, {1, 2}, in_job ? group + 2 : 1)};
        const std::string shard = local_shard(local_tensor("a", {at == 0 ? 2 : 1, 2}),
                                              place({2 * at, 0}, {at == 0 ? 2 : 1, 2}, at));
        return Fields{{"w", sharded_tensor({3, 2}, {shard}, places, group_state(at, saved_by))}};
    };
    for (const bool in_job : {false, true}) {
        std::vector<Fields> ranks;
        for (int rank = 0; rank < 4; ++rank) {
            ranks.push_back(rank_file_of(rank, in_job, rank));
        }
        const auto catalogue = read_ranks(ranks);
        ASSERT_EQ(catalogue.tensors.at(0).pieces.size(), 4U);
        for (const auto& piece : catalogue.tensors[0].pieces) {
            EXPECT_EQ(piece.patch.axes[0].lo, piece.file < 2 ? 0 : 2);
            EXPECT_EQ(piece.replica, piece.file % 2);
        }
        ranks[3] = rank_file_of(3, in_job, 1);
        refused(ErrorCode::mismatch, "it was saved by rank 1, which belongs in", ranks);
    }
}

TEST(FsdpFiles, hold_whole_tensors_on_the_first_rank) {
    const auto catalogue = read_ranks({both("w", local_tensor("a", {2, 2})), {}});
    EXPECT_EQ(catalogue.tensors.size(), 1U);
    EXPECT_TRUE(catalogue.shards.empty());
}

TEST(FsdpFiles, make_up_one_world) {
    const Scratch scratch;
    const auto locate_here = [&] {
        JobInput request;
        request.directory = scratch.path();
        return locate(request);
    };
    scratch.file("fsdp_config.json", R"({"FSDP_version": 2, "world_size": 2})");
    expect_error(ErrorCode::not_found, "no rank file (model_world_size_2_rank_0.pt...)",
                 [&] { locate_here(); });
    scratch.file("model_world_size_2_rank_0.pt");
    scratch.file("model_world_size_1_rank_0.pt");
    scratch.file("model_world_size_2_rank_x.pt");
    EXPECT_EQ(locate_here().shard_files.size(), 1U);
    scratch.file("fsdp_config.json", R"({"FSDP_version": 2, "world_size": 3})");
    expect_error(ErrorCode::mismatch, "world_size is 3 in fsdp_config.json but 1 in",
                 [&] { locate_here(); });
    for (const std::string text :
         {R"({"FSDP_version": 2, "world)", "", "[]", R"({"world_size": "2"})",
          R"({"world_size": 0})", R"({"world_size": 1e30})"}) {
        scratch.file("fsdp_config.json", text);
        expect_error(ErrorCode::corrupt, "fsdp_config.json", [&] { locate_here(); });
    }
    fs::remove(scratch.path() / "fsdp_config.json");
    expect_error(ErrorCode::mismatch, "rank files of several world sizes", [&] { locate_here(); });
    fs::remove(scratch.path() / "model_world_size_1_rank_0.pt");
    EXPECT_NE(
        locate_here().warnings.at("world_size_from_names").find("fsdp_config.json is missing"),
        std::string::npos);
    scratch.file("model_world_size_2_rank_00.pt", rank_file({}));
    expect_error(ErrorCode::corrupt, "empty", [&] { read_catalogue(locate_here()); });
    scratch.file("model_world_size_2_rank_0.pt", rank_file({}));
    expect_error(ErrorCode::mismatch, "are the same rank", [&] { read_catalogue(locate_here()); });
    fs::remove(scratch.path() / "model_world_size_2_rank_00.pt");
    scratch.file("model_world_size_2_rank_5.pt", rank_file({}));
    expect_error(ErrorCode::mismatch, "but 6 in the files", [&] { read_catalogue(locate_here()); });
}

// Work is bounded by the file's size, whatever its values share.
TEST(FsdpFiles, have_accelerates_names) {
    const Scratch scratch;
    JobInput request;
    request.directory = scratch.path();
    const auto locate_here = [&] { return locate(request); };
    for (const char* name : {"pytorch_model_fsdp.bin", "pytorch_model_fsdp_1.bin",
                             "pytorch_model_fsdp_x_rank0.bin", "pytorch_model_fsdp_rank.bin"}) {
        scratch.file(name, "");
    }
    expect_error(ErrorCode::not_found, "HuggingFace model already", [&] { locate_here(); });
    scratch.file("pytorch_model_fsdp_0_rank10.bin", "");
    scratch.file("pytorch_model_fsdp_0_rank9.bin", "");
    EXPECT_EQ(locate_here().format, "accelerate fsdp");
    EXPECT_EQ(locate_here().shard_files,
              (std::vector<std::string>{"pytorch_model_fsdp_0_rank9.bin",
                                        "pytorch_model_fsdp_0_rank10.bin"}));
    scratch.file("pytorch_model_fsdp_rank0.bin", "");
    expect_error(ErrorCode::mismatch, "rank files of several models lie in one directory",
                 [&] { locate_here(); });
    fs::remove(scratch.path() / "pytorch_model_fsdp_rank0.bin");
    scratch.file("pytorch_model_fsdp_0_rank9223372036854775807.bin", "");
    EXPECT_ANY_THROW(read_catalogue(locate_here()));
}

TEST(FsdpFiles, are_read_in_bounded_time) {
    const auto mesh = mesh_215(layout_of({{"shape", counts({1})}}), {0}, 0);
    Counts many(2000, 1);
    refused(ErrorCode::corrupt, "expected a short tuple",
            {both("w", dtensor(many, local_tensor("a", {1}), mesh, {replicate()}))});
    refused(ErrorCode::unsupported, "into 100000 parts",
            {both("w", dtensor({100000}, local_tensor("a", {1}), mesh, {strided(0, 100000)}))});
    std::vector<std::string> parts(2000, replicate());
    refused(ErrorCode::corrupt, "expected a short tuple",
            {both("w", dtensor({1}, local_tensor("a", {1}), mesh, parts))});
}

}  // namespace
}  // namespace shardweld::formats
