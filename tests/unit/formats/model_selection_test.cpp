#include "formats/dcp/model_selection.hpp"

#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"
#include "formats/shared/module_names.hpp"

#include "scratch.hpp"

namespace shardweld::formats::dcp {
namespace {

using Path = std::vector<std::string>;

catalogue::Catalogue saved(const std::vector<Path>& paths) {
    catalogue::Catalogue catalogue;
    for (const Path& path : paths) {
        auto& tensor = catalogue.tensors.emplace_back();
        tensor.name = path_name(path);
        tensor.stored_as = dotted(tensor.name);
        tensor.pieces.emplace_back();  // one element
    }
    return catalogue;
}

std::vector<std::string> selected(const std::vector<Path>& paths, const std::string& prefix = "") {
    auto catalogue = saved(paths);
    if (!prefix.empty()) {
        keep_below(prefix, {&catalogue});
    }
    select_model(catalogue);
    std::vector<std::string> names;
    for (const auto& tensor : catalogue.tensors) {
        names.push_back(tensor.name);
    }
    return names;
}

using Names = std::vector<std::string>;

TEST(DcpSelection, takes_the_dictionary_that_holds_a_module_tree) {
    EXPECT_EQ(selected({{"model", "model.b.weight"}, {"model", "lm_head.weight"}, {"model", "w"}}),
              (Names{"lm_head.weight", "model.b.weight", "w"}));
    EXPECT_EQ(selected({{"app", "model", "a.weight"}, {"app", "extra", "scale"}}),
              Names{"a.weight"});
    EXPECT_EQ(selected({{"model", "a.weight"}, {"meta", "list", "0"}}), Names{"a.weight"});
    EXPECT_EQ(selected({{"model.a.weight"}, {"lm_head.weight"}, {"meta", "list", "0"}}),
              (Names{"lm_head.weight", "model.a.weight"}));
}

TEST(DcpSelection, a_weight_of_a_module_called_as_state_is_one_where_no_copy_is) {
    auto catalogue = saved({{"a.weight"}, {"optim.a.weight"}, {"optimizer.proj.weight"}});
    for (auto& tensor : catalogue.tensors) {
        tensor.shape = {2, 2};
    }
    select_model(catalogue);
    ASSERT_EQ(catalogue.tensors.size(), 2U);
    EXPECT_EQ(catalogue.tensors[1].name, "optimizer.proj.weight");
    DcpTensor stored;
    stored.dtype = DType::f32;
    stored.shape = {2, 2};
    EXPECT_FALSE(training_state("optimizer.proj.weight", stored));
    EXPECT_TRUE(training_state("optimizer.state.exp_avg.layers.0.weight", stored));
    stored.shape = {};
    EXPECT_TRUE(training_state("train_loss", stored));
    EXPECT_TRUE(training_state("grad_scaler.scale", stored));
    EXPECT_FALSE(training_state("logit_scale", stored));
}

TEST(DcpSelection, takes_dictionaries_nested_as_modules) {
    EXPECT_EQ(
        selected({{"app", "model", "embed", "weight"}, {"app", "model", "layers", "0", "weight"}}),
        (Names{"embed.weight", "layers.0.weight"}));
    EXPECT_EQ(selected({{"weight"}, {"bias"}}), (Names{"bias", "weight"}));
}

TEST(DcpSelection, removes_wrappers) {
    EXPECT_EQ(selected({{"model", "module._orig_mod.a._checkpoint_wrapped_module.weight"}}),
              Names{"a.weight"});
    expect_error(ErrorCode::mismatch, "both name tensor a.weight", [] {
        selected({{"model", "module.a.weight"}, {"model", "a.weight"}});
    });
}

// "model" is Lightning's dictionary, the next one the module's attribute: only the family tells.
TEST(DcpSelection, leaves_the_name_that_a_module_around_the_model_gives_it) {
    EXPECT_EQ(selected({{"model", "net.model.norm.weight"}, {"model", "net.lm_head.weight"}}),
              (Names{"net.lm_head.weight", "net.model.norm.weight"}));
    EXPECT_EQ(selected({{"model", "net.model.norm.weight"}}, "model.net"),
              Names{"model.norm.weight"});
    EXPECT_EQ(selected({{"model", "_orig_mod.net.norm.weight"}}, "model.net"),
              Names{"norm.weight"});
}

TEST(DcpSelection, asks_where_there_are_several) {
    const std::vector<Path> both = {{"model", "a.weight"}, {"ema", "a.weight"}, {"ema", "b.w"}};
    expect_error(ErrorCode::usage,
                 "several state dicts: ema (2 tensors), model (1 tensors); choose one with "
                 "--prefix",
                 [&] { selected(both); });
    EXPECT_EQ(selected(both, "ema"), (Names{"a.weight", "b.w"}));
    EXPECT_EQ(selected(both, "model."), Names{"a.weight"});
    expect_error(ErrorCode::not_found,
                 "no tensor lies below --prefix mod; give one of those that the checkpoint holds: "
                 "ema (2 tensors), model "
                 "(1 tensors)",
                 [&] { selected(both, "mod"); });
    expect_error(ErrorCode::not_found, "holds only training state and no weights: nothing",
                 [&] { selected({}); });
}

// A head in a dictionary of its own, and modules that are called as training state is.
TEST(DcpSelection, leaves_no_part_of_the_model_aside) {
    const auto selected_wide = [](const std::vector<Path>& paths, const std::string& prefix = "") {
        auto catalogue = saved(paths);
        for (auto& tensor : catalogue.tensors) {
            tensor.shape = {3, 2};
        }
        if (!prefix.empty()) {
            keep_below(prefix, {&catalogue});
        }
        select_model(catalogue);
        return catalogue.tensors.size();
    };
    const std::vector<std::pair<std::string, std::vector<Path>>> parts = {
        {"lm_head.weight", {{"model", "a.weight"}, {"lm_head", "weight"}}},
        {"model.lm_head.weight", {{"model", "model", "a.weight"}, {"model", "lm_head", "weight"}}},
        {"lm_head.weight", {{"model", "a.weight"}, {"model", "b.weight"}, {"lm_head.weight"}}},
        {"scaler.weight", {{"model", "a.weight"}, {"scaler", "weight"}}},
        {"loops.gate.bias", {{"model", "a.weight"}, {"loops", "gate", "bias"}}},
        {"tower.weight", {{"a.weight"}, {"tower", "weight"}}},
        {"b.bias.0", {{"a.weight"}, {"b.bias", "0"}}}};
    for (const auto& [name, paths] : parts) {
        expect_error(ErrorCode::unsupported, "tensor " + name + " lies beside the model's",
                     [&, &wide = paths] { selected_wide(wide); });
    }
    EXPECT_EQ(selected_wide(parts[0].second, "model"), 1U);
    // Copies of the model, and what is no weight by its name.
    EXPECT_EQ(selected_wide({{"model", "a.weight"},
                             {"callbacks", "ema", "weights", "a.weight"},
                             {"trainer", "ema", "a.weight"},
                             {"meta", "losses"}}),
              1U);
}

TEST(DcpSelection, counts_what_is_left_aside) {
    auto catalogue =
        saved({{"model", "a.weight"}, {"meta", "x"}, {"meta", "y"}, {"model", "a._extra_state"}});
    select_model(catalogue);
    ASSERT_EQ(catalogue.ignored.size(), 2U);
    EXPECT_EQ(catalogue.ignored[0].pattern, "*_extra_state");
    EXPECT_EQ(catalogue.ignored[1].pattern, "meta*");
    EXPECT_EQ(catalogue.ignored[1].count, 2);
    EXPECT_EQ(catalogue.ignored[1].bytes, 8U);  // of two elements
    EXPECT_EQ(catalogue.notes, Names{"using what lies below model"});
}

TEST(DcpSelection, knows_training_state) {
    for (const Path& path : std::vector<Path>{{"optimizer", "state.a.weight.exp_avg"},
                                              {"optimizer_0", "x"},
                                              {"Optimizers", "x"},
                                              {"optim_state_dict", "x"},
                                              {"app", "optim", "state", "a.weight", "step"},
                                              {"lr_schedulers", "x"},
                                              {"rng_states", "x"},
                                              {"rng"},
                                              {"optimizer.state.a.weight"},
                                              {"train_state", "step"},
                                              {"dataloader", "x"}}) {
        EXPECT_TRUE(training_state(path_name(path))) << dotted(path_name(path));
    }
    for (const Path& path : std::vector<Path>{{"model", "optimizer.weight"},
                                              {"model", "rng"},
                                              {"state_dict", "a"},
                                              {"optimus", "a"},
                                              {"scaler.weight"},
                                              {"loops.0.gate.weight"},
                                              {"train.head.bias"},
                                              {"model.train.weight"}}) {
        EXPECT_FALSE(training_state(path_name(path))) << dotted(path_name(path));
    }
    EXPECT_EQ(training_state(path_name({"app", "optim", "x"}))->first, "app.optim*");
}

}  // namespace
}  // namespace shardweld::formats::dcp
