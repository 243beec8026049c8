#include "formats/shared/module_names.hpp"

#include <gtest/gtest.h>

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
