#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"
#include "formats/format.hpp"

#include "fsdp_builder.hpp"
#include "scratch.hpp"

namespace shardweld::formats {
namespace {

using catalogue::Catalogue;
using catalogue::Tensor;
using test::integer;
using test::unicode;

Catalogue read_save(const fs::path& directory, const std::string& prefix = "") {
    JobInput request;
    request.directory = directory;
    request.prefix = prefix;
    return read_catalogue(locate(request));
}

fs::path world_case(const std::string& name) {
    return fs::path(SHARDWELD_TEST_DATA) / "world" / name / "source";
}

const Tensor& tensor_called(const Catalogue& catalogue, const std::string& name) {
    const auto found = std::ranges::find(catalogue.tensors, name, &Tensor::name);
    EXPECT_NE(found, catalogue.tensors.end()) << name;
    return *found;
}

std::vector<std::string> boxes_of(const Tensor& tensor, std::uint32_t replica) {
    std::vector<std::string> boxes;
    for (const catalogue::Piece& piece : tensor.pieces) {
        if (piece.replica == replica) {
            boxes.push_back(layout::to_text(piece.patch));
        }
    }
    return boxes;
}

TEST(TorchCheckpointing, places_uneven_shards_and_their_copies) {
    const Catalogue tp = read_save(world_case("torch_checkpointing_tp"));
    EXPECT_EQ(tp.tensors.size(), 12U);
    EXPECT_EQ(tp.files.size(), 4U);
    EXPECT_EQ(tp.mesh.size(), 2U);
    // 13 rows of each tensor-parallel rank, by two: 7 and 6.
    const std::vector<std::string> gate = {"0 + [0,7)*16 [0,16)*1", "0 + [7,13)*16 [0,16)*1",
                                           "0 + [13,20)*16 [0,16)*1", "0 + [20,26)*16 [0,16)*1"};
    EXPECT_EQ(boxes_of(tensor_called(tp, "model.layers.0.mlp.gate_proj.weight"), 0), gate);
    const std::vector<std::string> halves = {"0 + [0,17)*16 [0,16)*1", "0 + [17,33)*16 [0,16)*1"};
    for (const char* form : {"tp", "safetensors", "plain"}) {
        const Catalogue got = read_save(world_case(std::string("torch_checkpointing_") + form));
        EXPECT_EQ(got.dialect, "hf_module") << form;
        for (const std::uint32_t replica : {0U, 1U}) {
            EXPECT_EQ(boxes_of(tensor_called(got, "lm_head.weight"), replica), halves) << form;
        }
    }
}

/// model_0.pt of a job of one rank, whose tensor of two elements says so.
void write_alone(const Scratch& scratch, const std::string& value) {
    scratch.file("model_0.pt", test::torch_file(value, {{"0", "12345678"}}));
}

std::string placed_tensor() {
    using namespace test::fsdp;
    return dtensor({2}, local_tensor("0", {2}),
                   mesh_215(layout_of({{"shape", test::counts({1})}}), {0}, 0),
                   {test::fsdp::shard(0)});
}

TEST(TorchCheckpointing, joins_the_keys_of_nested_dictionaries) {
    const Scratch scratch;
    const std::string module = "}" + unicode("weight") + placed_tensor() + "s";
    write_alone(scratch, "}(" + unicode("layers") + "}" + integer(7) + module + "s" +
                             unicode("norm") + module + "u");
    const Catalogue got = read_save(scratch.path());
    ASSERT_EQ(got.tensors.size(), 2U);
    EXPECT_EQ(got.tensors[0].name, "layers.7.weight");
    EXPECT_EQ(got.tensors[1].name, "norm.weight");
    EXPECT_EQ(got.tensors[0].shape, std::vector<Index>{2});
}

TEST(TorchCheckpointing, refuses_dictionaries_that_hold_themselves) {
    const Scratch scratch;
    write_alone(scratch, "}q\x01" + unicode("a.weight") + placed_tensor() + "s" + unicode("b") +
                             "h\x01" + unicode("c") + "h\x01ss");
    expect_error(ErrorCode::corrupt, "hold themselves", [&] { read_save(scratch.path()); });
}

TEST(TorchCheckpointing, asks_for_a_rank_that_some_job_has) {
    const Scratch scratch;
    scratch.file("model_99999999999.pt", "");
    expect_error(ErrorCode::mismatch, "the rank", [&] { read_save(scratch.path()); });
}

}  // namespace
}  // namespace shardweld::formats
