// What stands in a model's part of a save and is no tensor, in every reader: what may be a weight
// is refused by name, what is harmless has a row with its bytes.
#include "formats/shared/model_values.hpp"

#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"
#include "formats/format.hpp"

#include "dcp_builder.hpp"
#include "scratch.hpp"

namespace shardweld::formats::model_values {
namespace {

using catalogue::Catalogue;
using test::call;
using test::global;
using test::integer;
using test::items;
using test::Pairs;
using test::tuple;
using test::unicode;

const std::string kTensor =
    test::tensor_v2(test::storage("torch FloatStorage", "1", 2), 0, {2}, {1});
const std::string kFirst =
    test::tensor_v2(test::storage("torch FloatStorage", "0", 2), 0, {2}, {1});
const std::string kNumber = "G\x3f\xe0" + std::string(6, '\0');  // 0.5
const std::string kBytes =
    "C\x04"
    "abcd";
const std::string kNumpy =
    call("numpy._core.multiarray _reconstruct", {global("numpy ndarray"), tuple({integer(0)}),
                                                 "C\x01"
                                                 "b"}) +
    tuple({integer(1), tuple({integer(1)}), "N", "\x89", kBytes}) + "b";
const std::string kFloat8 =
    call("transformer_engine.pytorch.tensor.float8_tensor _make_float8_tensor_in_reduce_ex",
         {kTensor, "N"});
const std::string kWrapper =
    call("torch._tensor _rebuild_from_type_v2",
         {global("torch._utils _rebuild_wrapper_subclass"),
          global("torchao.dtypes AffineQuantizedTensor"), tuple({kTensor}), "N"});
const std::string kText = unicode("x");

std::string file_of(const std::string& value) {
    return test::torch_file(value, {{"0", std::string(8, 'a')}, {"1", std::string(8, 'b')}});
}

Catalogue read_here(const Scratch& scratch, const std::string& backend) {
    JobInput request;
    request.directory = scratch.path();
    request.backend = backend;
    return read_catalogue(locate(request));
}

/// A model of one tensor and one other entry; both names are pickled keys.
Catalogue read_hf(const Pairs& entries) {
    const Scratch scratch;
    scratch.file("pytorch_model.bin", file_of(items(entries)));
    return read_here(scratch, "hf");
}

Catalogue read_fsdp(const Pairs& entries) {
    const Scratch scratch;
    scratch.file("model_world_size_1_rank_0.pt", file_of(items(entries)));
    return read_here(scratch, "fsdp");
}

Catalogue read_root(const Scratch& scratch, const std::string& file, const std::string& backend,
                    const Pairs& root) {
    scratch.file(file, file_of(items(root)));
    return read_here(scratch, backend);
}

Catalogue read_deepspeed_root(const Pairs& root) {
    const Scratch scratch;
    return read_root(scratch, "mp_rank_00_model_states.pt", "deepspeed", root);
}

Catalogue read_module(const Pairs& entries) {
    return read_deepspeed_root({{unicode("module"), items(entries)}});
}

Catalogue read_legacy_root(const Pairs& root) {
    const Scratch scratch;
    return read_root(scratch, "mp_rank_00/model_optim_rng.pt", "megatron", root);
}

Catalogue read_legacy(const Pairs& entries) {
    return read_legacy_root({{unicode("model"), items(entries)}});
}

/// A DCP save with a tensor under `first` and objects; paths are the keys, unless given.
Catalogue read_objects(const std::string& first, const Pairs& objects, const Pairs& more = {},
                       const std::string& backend = "auto") {
    const Scratch scratch;
    std::string shard = file_of(kFirst);
    Pairs entries = {
        {unicode(first), test::tensor_of({2}, {test::chunk_of({0}, {2})}, "torch float32")}};
    Pairs places = {{test::index_of(first, test::size_of_counts({0})),
                     test::place_of("__0_0.distcp", 0, static_cast<std::int64_t>(shard.size()))}};
    for (const auto& [name, value] : objects) {
        const std::string blob = file_of(value);
        entries.emplace_back(unicode(name), test::object(test::kDcp + "BytesStorageMetadata", {}));
        places.emplace_back(test::index_of(name, "N"),
                            test::place_of("__0_0.distcp", static_cast<std::int64_t>(shard.size()),
                                           static_cast<std::int64_t>(blob.size())));
        shard += blob;
    }
    scratch.file("__0_0.distcp", shard);
    scratch.file(".metadata", test::metadata_of(entries, places, more));
    return read_here(scratch, backend);
}

Catalogue read_dcp_object(const std::string& name, const std::string& value) {
    return read_objects("blocks.0.weight", {{name, value}});
}

Catalogue read_megatron_object(const std::string& name, const std::string& value) {
    return read_objects("decoder.final_layernorm.weight",
                        {{name + "/shard_0_1", "](" + value + "e"}});
}

struct Reader {
    const char* name;
    std::function<Catalogue(const std::string& name, const std::string& value)> read;
};

std::vector<Reader> readers() {
    const auto of = [](Catalogue (*read)(const Pairs&), const char* first) {
        return [read, first](const std::string& name, const std::string& value) {
            return read({{unicode(first), kFirst}, {unicode(name), value}});
        };
    };
    return {{"hf", of(read_hf, "a.weight")},
            {"fsdp", of(read_fsdp, "a.weight")},
            {"deepspeed", of(read_module, "a.weight")},
            {"legacy", of(read_legacy, "decoder.final_layernorm.weight")},
            {"dcp", read_dcp_object},
            {"torch_dist", read_megatron_object}};
}

TEST(ModelValues, refuse_what_may_be_a_weight) {
    const std::map<std::string, std::pair<std::string, std::string>> values = {
        {"tuple", {tuple({kTensor}), "a tuple that holds a tensor"}},
        {"list", {"](" + kTensor + kFirst + "e", "a list that holds a tensor"}},
        {"number", {kNumber, "a number"}},
        {"integer", {integer(3), "a number"}},
        {"bytes", {kBytes, "a byte string"}},
        {"numpy", {kNumpy, "'numpy._core.multiarray _reconstruct'"}},
        {"Float8Tensor", {kFloat8, "float8_tensor _make_float8_tensor_in_reduce_ex'"}},
        {"wrapper", {kWrapper, "of class 'torchao.dtypes AffineQuantizedTensor'"}},
        {"dictionary", {items({}), "a dict"}},
        {"object", {test::object("acme Weight", {{"x", "N"}}), "'acme Weight'"}}};
    for (const Reader& reader : readers()) {
        for (const auto& [kind, value] : values) {
            SCOPED_TRACE(std::string(reader.name) + ", " + kind);
            if (std::string(reader.name) == "fsdp" && kind == "wrapper") {
                continue;  // has words of its own: FsdpFiles.refuse_what_is_no_weight
            }
            const auto [code, text] =
                error_of([&] { reader.read("decoder.layers.0.q.bias", value.first); });
            EXPECT_EQ(name_of(code), name_of(ErrorCode::unsupported)) << text;
            EXPECT_NE(text.find("decoder.layers.0.q.bias"), std::string::npos) << text;
            EXPECT_NE(text.find(value.second), std::string::npos) << text;
        }
    }
}

TEST(ModelValues, leave_harmless_ones_aside) {
    const std::vector<std::pair<std::string, std::string>> values = {
        {"decoder.layers.0.q.bias", "N"},
        {"decoder.layers.0.q.flag", "\x88"},
        {"decoder.layers.0.q.note", kText},
        {"decoder.layers.0.q.list", "]"},
        {"decoder.layers.0.q._extra_state", kBytes},
        {"decoder.layers.0.q.count", integer(3)},
        {"epoch", integer(3)},
        {"losses", "](" + kNumber + "e"}};
    for (const Reader& reader : readers()) {
        for (const auto& [name, value] : values) {
            SCOPED_TRACE(std::string(reader.name) + ", " + name);
            const Catalogue got = reader.read(name, value);
            EXPECT_EQ(got.tensors.size() + got.shards.size(), 1U);
            ASSERT_FALSE(got.ignored.empty());
        }
    }
}

// Megatron's [tensor], as an object of a torch_dist save.
TEST(ModelValues, refuse_tensors_stored_as_objects) {
    expect_error(ErrorCode::unsupported, "it is a tensor that is stored as an object",
                 [] { read_megatron_object("decoder.layers.0.q.bias", kTensor); });
}

// Nothing of a file is called 0 bytes.
TEST(ModelValues, count_the_bytes_of_what_is_left_aside) {
    const auto rows_of = [](const Catalogue& catalogue) {
        std::map<std::string, Bytes> rows;
        for (const auto& row : catalogue.ignored) {
            rows[row.pattern] = row.bytes;
        }
        return rows;
    };
    using Rows = std::map<std::string, Bytes>;
    const std::pair<std::string, std::string> first = {unicode("a.weight"), kFirst};
    EXPECT_EQ(rows_of(read_hf({first, {unicode("b._extra_state"), tuple({kTensor})}})),
              (Rows{{"b._extra_state", 8}}));
    EXPECT_EQ(rows_of(read_hf({first})), (Rows{{"(storages)", 8}}));
    EXPECT_EQ(rows_of(read_fsdp({first})), (Rows{{"(storages)", 8}}));
    EXPECT_EQ(
        rows_of(read_deepspeed_root({{unicode("module"), items({first})},
                                     {unicode("ema"), items({{unicode("a.weight"), kTensor}})}})),
        (Rows{{"ema", 8}}));
    EXPECT_EQ(rows_of(read_legacy_root({{unicode("model"), items({first})},
                                        {unicode("optimizer"), tuple({kTensor, kTensor})}})),
              (Rows{{"optimizer", 8}}));
    const std::string half =
        test::tensor_v2(test::storage("torch FloatStorage", "1", 2), 1, {1}, {1});
    EXPECT_EQ(rows_of(read_hf({first, {unicode("b.weight"), half}})), (Rows{{"(storages)", 4}}));
}

TEST(ModelValues, refuse_tensors_without_a_name) {
    const std::pair<std::string, std::string> first = {unicode("a.weight"), kFirst};
    expect_error(ErrorCode::unsupported, "its key is a number, where a name is expected", [&] {
        read_hf({first, {integer(0), kTensor}});
    });
    expect_error(ErrorCode::unsupported,
                 "its key is a byte string, where a name is expected [tensor a.bias", [&] {
                     read_hf({first,
                              {"C\x06"
                               "a.bias",
                               kTensor}});
                 });
    EXPECT_EQ(read_hf({first, {integer(0), "N"}}).tensors.size(), 1U);
    expect_error(ErrorCode::unsupported, "a dict that holds a tensor", [&] {
        read_hf({first, {unicode("vision_tower"), items({{unicode("weight"), kTensor}})}});
    });
}

// {"model": {...}, "lm_head": {...}}.
TEST(ModelValues, refuse_parts_of_the_model_that_lie_beside_it) {
    const std::pair<std::string, std::string> model = {unicode("a.weight"), kFirst};
    const std::string head = items({{unicode("weight"), kTensor}});
    for (const std::string key : {"lm_head", "scaler", "loops", "state"}) {
        expect_error(
            ErrorCode::unsupported, "tensor " + key + ".weight lies beside the model's", [&] {
                read_deepspeed_root({{unicode("module"), items({model})}, {unicode(key), head}});
            });
        expect_error(
            ErrorCode::unsupported, "tensor " + key + ".weight lies beside the model's", [&] {
                read_legacy_root({{unicode("model"), items({model})}, {unicode(key), head}});
            });
    }
    // An average has the model's names.
    const std::string copy = items({{unicode("shadow"), items({{unicode("a.weight"), kTensor}})}});
    EXPECT_EQ(read_legacy_root({{unicode("model"), items({model})}, {unicode("ema"), copy}})
                  .shards.size(),
              1U);
    EXPECT_EQ(read_legacy_root({{unicode("model"), items({model})}, {unicode("optimizer"), head}})
                  .shards.size(),
              1U);
}

}  // namespace
}  // namespace shardweld::formats::model_values
