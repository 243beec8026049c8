#include "formats/shared/module_names.hpp"

#include <gtest/gtest.h>

#include "scratch.hpp"

namespace shardweld::formats {
namespace {

TEST(ModuleNames, lose_their_wrappers) {
    EXPECT_EQ(without_wrappers("model.norm.weight"), "model.norm.weight");
    EXPECT_EQ(without_wrappers("module.module.model.norm.weight"), "model.norm.weight");
    EXPECT_EQ(without_wrappers("_orig_mod.model.layers.0._checkpoint_wrapped_module.mlp.w"),
              "model.layers.0.mlp.w");
    EXPECT_EQ(without_wrappers("_fsdp_wrapped_module._orig_mod.module.w._fsdp_wrapped_module"),
              "w");
    EXPECT_EQ(without_wrappers("module.0.auto_model.encoder.layer.0.w"), "encoder.layer.0.w");
    EXPECT_EQ(without_wrappers("0.model.w"), "0.model.w");
    EXPECT_EQ(without_wrappers("model.module.w"), "model.module.w");
    EXPECT_EQ(without_wrappers("model._orig_module.w"), "model._orig_module.w");
    EXPECT_EQ(without_wrappers("base_model.model.q_proj.lora_A.default.weight"),
              "base_model.model.q_proj.lora_A.default.weight");
    EXPECT_EQ(without_wrappers("module.pretrained_model.base_model.model.module.model.w"),
              "base_model.model.model.w");
    EXPECT_EQ(without_wrappers("model_state.model.base_model.model.w"), "model.base_model.model.w");
    // PEFT's model wrapped by PEFT.
    EXPECT_EQ(without_wrappers("base_model.model.base_model.model.model.w"),
              "base_model.model.model.w");
    EXPECT_EQ(without_wrappers("model._fpw_module.w"), "model.w");
    // Nothing is left: the name stays.
    EXPECT_EQ(without_wrappers("module"), "module");
    EXPECT_EQ(without_wrappers(""), "");
}

}  // namespace
}  // namespace shardweld::formats

namespace shardweld::formats::unwrapped_names {
namespace {

using Names = std::vector<std::string>;

catalogue::Catalogue holding(const Names& tensors, const Names& shards = {}) {
    catalogue::Catalogue catalogue;
    for (const std::string& name : tensors) {
        catalogue.tensors.emplace_back().name = name;
    }
    for (const std::string& name : shards) {
        catalogue.shards.emplace_back().name = name;
    }
    return catalogue;
}

Names names_of(const catalogue::Catalogue& catalogue) {
    Names names;
    for (const auto& tensor : catalogue.tensors) {
        names.push_back(tensor.name);
    }
    for (const auto& shard : catalogue.shards) {
        names.push_back(shard.name.text());
    }
    return names;
}

Names unwrapped(catalogue::Catalogue catalogue) {
    remove_wrappers(catalogue);
    return names_of(catalogue);
}

TEST(UnwrappedNames, are_those_of_the_model) {
    EXPECT_EQ(unwrapped(holding({"_orig_mod.b", "a._checkpoint_wrapped_module.w"},
                                {"module.c", "module.c"})),
              (Names{"a.w", "b", "c", "c"}));
    EXPECT_EQ(unwrapped(holding({"text_model.model.w", "thinker.w"})),
              (Names{"text_model.model.w", "thinker.w"}));
    auto catalogue = holding({"module.a"});
    remove_wrappers(catalogue);
    EXPECT_EQ(catalogue.tensors[0].stored_as, "module.a");
}

TEST(UnwrappedNames, have_nothing_in_front_of_pefts) {
    auto catalogue = holding({"net.x.base_model.model.a.lora_A.w", "net.x.base_model.model.b"});
    remove_wrappers(catalogue);
    const Names bare{"base_model.model.a.lora_A.w", "base_model.model.b"};
    EXPECT_EQ(names_of(catalogue), bare);
    ASSERT_EQ(catalogue.notes.size(), 1U);
    EXPECT_TRUE(catalogue.notes[0].starts_with("all names begin with net.x.,"));
    EXPECT_EQ(unwrapped(catalogue), bare);
    expect_error(ErrorCode::mismatch,
                 "tensor net.base_model.model.a has net. in front of PEFT's base_model.model., "
                 "tensor loss.w has not; --prefix net",
                 [] {
                     unwrapped(holding({"loss.w", "net.base_model.model.a"}));
                 });
}

TEST(UnwrappedNames, are_told_apart) {
    expect_error(ErrorCode::mismatch, "keys a and module.a both name tensor a", [] {
        unwrapped(holding({"a", "module.a"}));
    });
    expect_error(ErrorCode::mismatch, "keys _orig_mod.a and module.a both name tensor a", [] {
        unwrapped(holding({"_orig_mod.a"}, {"module.a", "module.a"}));
    });
}

TEST(Prefix, takes_what_lies_below_it) {
    std::vector<catalogue::Catalogue> files{holding({"net.a", "loss.b"}),
                                            holding({}, {"_orig_mod.net.c", "nets.d"})};
    keep_below("net.", {&files[0], &files[1]});
    EXPECT_EQ(names_of(files[0]), Names{"a"});
    EXPECT_EQ(names_of(files[1]), Names{"c"});
    EXPECT_EQ(files[0].ignored.at(0).pattern, "loss*");
    EXPECT_EQ(files[1].ignored.at(0).reason, "outside --prefix");
    expect_error(ErrorCode::not_found,
                 "no tensor lies below --prefix ne; give one of those that the checkpoint holds: "
                 "a (1 tensors), c (1 tensors)",
                 [&] {
                     keep_below("ne", {&files[0], &files[1]});
                 });
}

}  // namespace
}  // namespace shardweld::formats::unwrapped_names
