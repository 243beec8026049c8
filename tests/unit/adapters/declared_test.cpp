#include "adapters/declared.hpp"

#include <gtest/gtest.h>

#include "support/error_text.hpp"

namespace shardweld::adapters {
namespace {

std::string meta_of(const std::string& yaml) {
    return train_meta_of({"run_config.yaml", yaml}).text;
}

TEST(RunConfig, says_rank_and_alpha) {
    EXPECT_EQ(meta_of("checkpoint:\n  alpha: 1\n# peft:\npeft:\n  _target_: a.b.LoRA\n  alpha: 8\n"
                      "  dim: 4\n  target_modules:\n  - linear_qkv\n  nested:\n    dim: 9\n"
                      "train:\n  dim: 7\n"),
              R"({"r":4,"lora_alpha":8,"task_type":"CAUSAL_LM"})");
    EXPECT_EQ(meta_of("peft:\n    dim: '16'\r\n    alpha: 2.5\n    _target_: x.CanonicalLoRA"),
              R"({"r":16,"lora_alpha":2.5,"task_type":"CAUSAL_LM"})");
    EXPECT_EQ(meta_of("peft:\n  alpha: many\n"),
              R"({"lora_alpha":"many","task_type":"CAUSAL_LM"})");
}

TEST(RunConfig, may_say_nothing) {
    for (const char* yaml :
         {"", "peft: null\n", "peft:\nmodel:\n  alpha: 3\n", ":\n  :\n", "peft"}) {
        EXPECT_EQ(meta_of(yaml), "") << yaml;
    }
}

TEST(RunConfig, of_another_method_is_refused) {
    EXPECT_EQ(
        test::error_text([] { meta_of("peft:\n  _target_: megatron.bridge.peft.dora.DoRA\n"); }),
        "unsupported: run_config.yaml says that the adapter is of DoRA; merge it into the "
        "model with the framework that trained it");
}

TEST(Release, is_told_by_fields_where_the_version_is_an_old_one) {
    const auto of = [](const std::string& text) { return release_of(ConfigFile{"", text}.json()); };
    const Release saved_again = of(R"({"peft_version": "0.18.1", "use_bdlora": null,
                                       "velora_config": null, "ensure_weight_tying": false})");
    EXPECT_EQ(saved_again.version, "0.18.1");
    EXPECT_EQ(saved_again.field, "velora_config");
    EXPECT_EQ(saved_again.since, "0.20.0");
    EXPECT_FALSE(saved_again.lacks_newer);
    EXPECT_EQ(of(R"({"use_bdlora": null, "arrow_config": null})").since, "0.19.0");
    const Release old = of(R"({"peft_version": "0.21.2", "arrow_config": null})");
    EXPECT_TRUE(old.lacks_newer);
    const Release nothing = of(R"({"r": 4, "peft_version": 3})");
    EXPECT_EQ(nothing.version + nothing.field + nothing.since, "");
    EXPECT_FALSE(nothing.lacks_newer);
}

}  // namespace
}  // namespace shardweld::adapters
