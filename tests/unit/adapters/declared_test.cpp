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

}  // namespace
}  // namespace shardweld::adapters
