// PEFT's names taken apart; facts from models that peft 0.21 made and saved.
#include "adapters/separate.hpp"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"
#include "support/error_text.hpp"

namespace shardweld::adapters {
namespace {

using catalogue::Catalogue;

Catalogue holding(const std::vector<std::string>& names) {
    Catalogue catalogue;
    catalogue.dialect = "hf_module";
    catalogue.files.push_back({"rank_0.pt", 100});
    for (const std::string& name : names) {
        catalogue.tensors.push_back({name, DType::f32, {2, 2}, {}});
    }
    return catalogue;
}

std::vector<std::string> names(const Catalogue& catalogue) {
    std::vector<std::string> list;
    for (const catalogue::Tensor& tensor : catalogue.tensors) {
        list.push_back(tensor.name);
    }
    for (const catalogue::Shard& shard : catalogue.shards) {
        list.push_back(shard.name.text() + "!");
    }
    return list;
}

using List = std::vector<std::string>;

Separated of(const List& stored, Biases biases = Biases::none,
             WholeModules whole = WholeModules::original) {
    return separate(holding(stored), {biases, whole});
}

TEST(Separate, LinearLayersAreCleanedAndFactorsLoseTheAdaptersName) {
    const Separated parts =
        of({"base_model.model.model.norm.weight", "base_model.model.model.q.base_layer.weight",
            "base_model.model.model.q.base_layer.bias",
            "base_model.model.model.q.lora_A.default.weight",
            "base_model.model.model.q.lora_B.default.weight",
            "base_model.model.model.q.lora_B.default.bias",
            "base_model.model.model.q.lora_magnitude_vector.default.weight"});
    EXPECT_EQ(names(parts.base), (List{"model.norm.weight", "model.q.bias", "model.q.weight"}));
    EXPECT_EQ(names(parts.adapter), (List{"base_model.model.model.q.lora_A.weight",
                                          "base_model.model.model.q.lora_B.bias",
                                          "base_model.model.model.q.lora_B.weight",
                                          "base_model.model.model.q.lora_magnitude_vector"}));
    EXPECT_EQ(parts.adapter.files.size(), 1U);
    EXPECT_EQ(parts.adapter.dialect, "hf_module");
}

TEST(Separate, EmbeddingsAreParametersAndSavedWithTheirBase) {
    const Separated parts = of({"base_model.model.model.embed_tokens.base_layer.weight",
                                "base_model.model.model.embed_tokens.lora_embedding_A.mine",
                                "base_model.model.model.embed_tokens.lora_embedding_B.mine",
                                "base_model.model.model.norm.weight"});
    EXPECT_EQ(names(parts.base), (List{"model.embed_tokens.weight", "model.norm.weight"}));
    EXPECT_EQ(names(parts.adapter), (List{"base_model.model.model.embed_tokens.base_layer.weight",
                                          "base_model.model.model.embed_tokens.lora_embedding_A",
                                          "base_model.model.model.embed_tokens.lora_embedding_B"}));
}

// The prefix goes once: a model may have a module of that name itself.
TEST(Separate, OnlyTheFirstPrefixGoes) {
    const Separated parts =
        of({"base_model.model.base_model.model.q.weight", "base_model.model.x.base_layer.weight",
            "base_model.model.x.lora_A.default.weight"});
    EXPECT_EQ(names(parts.base), (List{"base_model.model.q.weight", "x.weight"}));
}

TEST(Separate, WholeModulesAreTheOriginalsOrTheTrainedOnes) {
    const List stored{"base_model.model.score.original_module.weight",
                      "base_model.model.score.modules_to_save.default.weight",
                      "base_model.model.q.lora_A.default.weight"};
    const Separated split = of(stored);
    EXPECT_EQ(names(split.base), (List{"score.weight"}));
    EXPECT_EQ(names(split.adapter),
              (List{"base_model.model.q.lora_A.weight", "base_model.model.score.weight"}));
    EXPECT_EQ(split.whole_modules, (List{"score"}));
    Catalogue catalogue = holding(stored);
    catalogue.tensors[0].shape = {7};  // the original
    const Separated folded = separate(catalogue, {Biases::none, WholeModules::trained});
    ASSERT_EQ(names(folded.base), (List{"score.weight"}));
    EXPECT_EQ(folded.base.tensors[0].shape, (std::vector<Index>{2, 2}));
}

TEST(Separate, TrainedBiasesBelongToBoth) {
    const List stored{"base_model.model.norm.bias", "base_model.model.q.base_layer.bias",
                      "base_model.model.q.base_layer.weight",
                      "base_model.model.q.lora_A.default.weight"};
    EXPECT_EQ(names(of(stored, Biases::all).adapter),
              (List{"base_model.model.norm.bias", "base_model.model.q.base_layer.bias",
                    "base_model.model.q.lora_A.weight"}));
    EXPECT_EQ(names(of(stored, Biases::of_wrapped).adapter),
              (List{"base_model.model.q.base_layer.bias", "base_model.model.q.lora_A.weight"}));
    EXPECT_EQ(names(of(stored, Biases::all).base), (List{"norm.bias", "q.bias", "q.weight"}));
}

TEST(Separate, PlainTensorsOfRanksAreDealtOutToo) {
    Catalogue catalogue = holding({"base_model.model.q.base_layer.weight"});
    catalogue.shards.push_back(
        {"base_model.model.q.lora_A.default.weight", DType::f32, {1}, {}, {}});
    const Separated parts = separate(catalogue, {});
    EXPECT_EQ(names(parts.adapter), (List{"base_model.model.q.lora_A.weight!"}));
    EXPECT_EQ(names(parts.base), (List{"q.weight"}));
}

TEST(Separate, TellsWhatACheckpointHolds) {
    EXPECT_FALSE(holds_adapter(holding({"model.q.weight", "model.q.bias"})));
    EXPECT_TRUE(holds_adapter(holding({"model.q.weight", "model.q.lora_A.default.weight"})));
    EXPECT_TRUE(holds_adapter_only(holding({"base_model.model.q.lora_A.default.weight"})));
    EXPECT_FALSE(
        holds_adapter_only(holding({"base_model.model.q.lora_A.default.weight", "q.weight"})));
    EXPECT_FALSE(holds_adapter_only(holding(
        {"base_model.model.q.lora_A.default.weight", "base_model.model.q.base_layer.weight"})));
    EXPECT_FALSE(holds_adapter_only(holding({})));
}

// PEFT names what it saves beside the factors as the base has it.
TEST(Separate, what_is_saved_with_an_adapter_alone_is_the_adapters) {
    const List stored{"base_model.model.q.lora_A.weight", "base_model.model.q.lora_B.weight",
                      "base_model.model.lm_head.weight", "base_model.model.q.base_layer.bias",
                      "base_model.model.embed_tokens.base_layer.weight"};
    EXPECT_TRUE(holds_adapter_only(holding(stored)));
    EXPECT_FALSE(holds_wrapped(holding(stored)));
    EXPECT_EQ(names(of(stored).adapter),
              (List{"base_model.model.embed_tokens.base_layer.weight",
                    "base_model.model.lm_head.weight", "base_model.model.q.base_layer.bias",
                    "base_model.model.q.lora_A.weight", "base_model.model.q.lora_B.weight"}));
    List with_base = stored;
    for (const char* name : {"embed_tokens.weight", "lm_head.weight", "q.bias", "q.weight"}) {
        with_base.emplace_back(name);
    }
    EXPECT_FALSE(holds_adapter_only(holding(with_base)));
    const Separated folded = of(with_base, Biases::none, WholeModules::trained);
    EXPECT_EQ(names(folded.base),
              (List{"embed_tokens.weight", "lm_head.weight", "q.bias", "q.weight"}));
    EXPECT_EQ(folded.replaced.size(), 3U);
    EXPECT_EQ(folded.in_both.size(), 3U);
    EXPECT_EQ(names(of(with_base).base), names(folded.base));
    EXPECT_TRUE(of(with_base).replaced.empty());
}

// Where the vocabulary grew, PEFT saves a trained embedding under three names, two of them alike.
TEST(Separate, an_embedding_that_is_saved_thrice_is_the_trained_one) {
    const List stored{"base_model.model.lm_head.weight",
                      "base_model.model.model.embed_tokens.modules_to_save.weight",
                      "base_model.model.model.embed_tokens.original_module.weight",
                      "base_model.model.model.embed_tokens.weight",
                      "base_model.model.q.lora_A.weight"};
    EXPECT_TRUE(holds_adapter_only(holding(stored)));
    EXPECT_EQ(changed_weights(holding(stored)).as_whole,
              (std::set<std::string>{"lm_head.weight", "model.embed_tokens.weight"}));
    Catalogue catalogue = holding(stored);
    for (catalogue::Tensor& tensor : catalogue.tensors) {
        tensor.pieces.push_back({});
    }
    for (const WholeModules whole : {WholeModules::original, WholeModules::trained}) {
        const Separated parts = separate(catalogue, {Biases::none, whole});
        const Catalogue& trained = whole == WholeModules::original ? parts.adapter : parts.base;
        const auto embedding =
            std::ranges::find_if(trained.tensors, [](const catalogue::Tensor& tensor) {
                return tensor.name.ends_with("embed_tokens.weight");
            });
        ASSERT_NE(embedding, trained.tensors.end());
        ASSERT_EQ(embedding->pieces.size(), 2U);
        EXPECT_EQ(embedding->pieces[1].replica, 1U);
        EXPECT_EQ(trained.tensors.size(), whole == WholeModules::original ? 3U : 2U);
        ASSERT_EQ(parts.replaced.size(), 1U);
        EXPECT_EQ(parts.replaced[0].reason, "what the base had before the training");
    }
    catalogue.tensors[1].shape = {3, 2};
    EXPECT_NE(test::error_text([&] { (void)separate(catalogue, {}); }).find("holds"),
              std::string::npos);
    EXPECT_EQ(separate(catalogue, {Biases::none, WholeModules::original, true}).base.tensors.size(),
              0U);
}

TEST(Separate, drops_adapters_of_any_kind) {
    const List stored{"base_model.model.e.token_adapter.base_layer.weight",
                      "base_model.model.e.token_adapter.trainable_tokens_delta.default",
                      "base_model.model.x.base_layer.base_layer.gate_up_proj",
                      "base_model.model.x.base_layer.lora_A.default.weight",
                      "base_model.model.x.lora_A.other.weight"};
    const Separated parts = separate(holding(stored), {Biases::none, WholeModules::original, true});
    EXPECT_EQ(names(parts.base), (List{"e.weight", "x.gate_up_proj"}));
    EXPECT_EQ(parts.adapter.tensors.size(), 3U);
}

TEST(Separate, a_part_of_the_adapter_that_is_no_tensor_is_no_silence) {
    Catalogue catalogue = holding(
        {"base_model.model.q.base_layer.weight", "base_model.model.q.lora_A.default.weight"});
    catalogue.ignored.push_back(
        {"base_model.model.q.lora_magnitude_vector.default.weight", "not a tensor", 1, 0});
    EXPECT_NE(test::error_text([&] {
                  separate(catalogue, {});
              }).find("lora_magnitude_vector.default.weight is a part of the adapter"),
              std::string::npos);
    EXPECT_EQ(names(separate(catalogue, {Biases::none, WholeModules::original, true}).base),
              List{"q.weight"});
}

TEST(Separate, TellsModulesThatLackTheirFactors) {
    const List stored = {
        "base_model.model.a.q.base_layer.weight", "base_model.model.a.q.lora_A.default.weight",
        "base_model.model.a.q.lora_B.default.weight", "base_model.model.a.v.base_layer.weight",
        "base_model.model.a.v.base_layer.bias"};
    EXPECT_EQ(of(stored).bare_modules, List{"a.v"});
    EXPECT_TRUE(holds_wrapped(holding(stored)));
    EXPECT_FALSE(
        holds_wrapped(holding({"base_model.model.a.q.lora_A.default.weight", "a.q.weight"})));
}

TEST(Separate, RefusesWhatItCannotRead) {
    EXPECT_EQ(test::error_text([] {
                  of({"m.q.lora_A.one.weight", "m.q.lora_A.two.weight", "m.q.weight"});
              }),
              "unsupported: the checkpoint holds 2 adapters (one, two), but only one can be read; "
              "save it again with the one adapter to merge, or leave them out with --lora drop");
    for (const char* name :
         {"base_model.model.experts.base_layer.x.lora_A.default.weight", "m.q.lora_E.default",
          "m.embed.token_adapter.trainable_tokens_mask.default", "m.q.ia3_l.default"}) {
        EXPECT_NE(test::error_text([&] {
                      of({name, "m.q.lora_A.default.weight"});
                  }).find(std::string("unsupported: ") + name),
                  std::string::npos)
            << name;
    }
}

}  // namespace
}  // namespace shardweld::adapters
