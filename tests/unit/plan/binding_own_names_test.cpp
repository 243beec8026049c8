// Catalogues that hold a module tree's own names: plain tensors of several ranks, packed experts,
// renamed prefixes, tensors no line takes.
#include <algorithm>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"
#include "plan/bind/trace.hpp"
#include "plan/binding.hpp"
#include "shardweld/error.hpp"

namespace shardweld::plan {
namespace {

using catalogue::Catalogue;
using catalogue::Shard;
using catalogue::Tensor;

constexpr const char* kToyRecipe = R"(recipe toy
format 1
match @model_type = "toy"
let h = 4
let f = 3
let hh = 4
let vocab = 10
let L = @layers else 2
let tied = @tied else 0
let has_shared = @n_shared else 0
let has_bias = 0
given value
index l = L
index k = @mtp else 1
index e = @experts else 2
block layer
  norm.weight             = norm h
  experts.{e}.gate.weight = fc1 gate: f h
  experts.{e}.up.weight   = fc1 up: f h
module layer
  experts.gate_up         = fc1 e [gate: f | up: f] h
at layers.{l}. = layer.{l}. layer
hub layers.{k+L}.proj = mtp.{k}.proj h hh  optional
hub embed = embed vocab h
hub head  = head vocab h if not tied
hub shared = shared h     if has_shared
hub bias   = bias h       if has_bias
hub score  = score h      if value
same head = embed if tied
rename tower.text. = layers.
rename tower. = eyes.
pass eyes.*
)";

class OwnNames : public testing::Test {
  protected:
    OwnNames()
        : library_(models::RecipeLibrary::load({{"toy.recipe", kToyRecipe}})),
          recipe_(*library_.find_recipe("toy")),
          dialect_(models::own_names(recipe_, *library_.find_dialect("hf_module"))) {}

    static Tensor tensor(const std::string& name, const std::vector<Index>& shape) {
        catalogue::Piece piece;
        piece.patch = layout::dense_shape(shape);
        return {name, DType::f32, shape, {piece}};
    }

    static Shard plain(const std::string& name, std::vector<Index> shape, int fsdp, int tp = 0) {
        Shard shard;
        shard.name = name;
        shard.piece.patch = layout::dense_shape(shape);
        shard.piece.file = static_cast<std::uint32_t>(fsdp);
        shard.shape = std::move(shape);
        shard.at.fsdp = fsdp;
        shard.at.tp = tp;
        return shard;
    }

    /// Everything but `embed` and `head`.
    static Catalogue layers() {
        Catalogue catalogue;
        catalogue.files = {{"rank0", 4096}, {"rank1", 4096}, {"rank2", 4096}, {"rank3", 4096}};
        for (const std::string layer : {"layers.0.", "layers.1."}) {
            catalogue.tensors.push_back(tensor(layer + "norm.weight", {4}));
            catalogue.tensors.push_back(tensor(layer + "experts.gate_up", {2, 6, 4}));
        }
        return catalogue;
    }

    static Catalogue whole() {
        Catalogue catalogue = layers();
        catalogue.tensors.push_back(tensor("embed", {10, 4}));
        catalogue.tensors.push_back(tensor("head", {10, 4}));
        return catalogue;
    }

    Binding bind(Catalogue catalogue, const std::string& config = R"({"model_type": "toy"})") {
        symbols_ = std::make_unique<models::Symbols>(
            recipe_, dialect_, models::Config::parse(config, "config.json"),
            std::map<std::string, Index>{}, std::map<std::string, Index>{});
        return plan::bind(std::move(catalogue), {&recipe_, &dialect_, symbols_.get()}, {});
    }

    void expect_error(ErrorCode code, const std::string& part, Catalogue catalogue,
                      const std::string& fields = "") {
        try {
            (void)bind(std::move(catalogue), R"({"model_type": "toy")" + fields + "}");
            ADD_FAILURE() << "not refused; expected: " << part;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), code) << error.full_text();
            const std::string text = error.full_text() + " (" + error.detail() + ")";
            EXPECT_NE(text.find(part), std::string::npos) << text;
        }
    }

    static const Target& target(const Binding& binding, const std::string& name) {
        const auto found = std::find_if(binding.targets.begin(), binding.targets.end(),
                                        [&](const Target& one) { return one.name == name; });
        if (found == binding.targets.end()) {
            throw std::runtime_error("no target " + name);
        }
        return *found;
    }

    models::RecipeLibrary library_;
    const models::Recipe& recipe_;
    models::Dialect dialect_;
    std::unique_ptr<models::Symbols> symbols_;
};

TEST_F(OwnNames, unpacks_experts_by_module_lines) {
    const Binding binding = bind(whole());
    EXPECT_EQ(binding.targets.size(), 2 * (1 + 2 * 2) + 2U);
    const Target& up = target(binding, "layers.1.experts.1.up.weight");
    EXPECT_EQ(up.shape, (std::vector<Index>{3, 4}));
    ASSERT_EQ(up.operands.size(), 1U);
    EXPECT_EQ(up.operands[0].copy.src_offset, 24 + 12);
    EXPECT_TRUE(binding.warnings.empty());
}

TEST_F(OwnNames, takes_experts_that_are_not_packed_too) {
    Catalogue catalogue = whole();
    std::erase_if(catalogue.tensors,
                  [](const Tensor& one) { return one.name == "layers.0.experts.gate_up"; });
    for (const std::string expert : {"0", "1"}) {
        for (const std::string half : {"gate", "up"}) {
            catalogue.tensors.push_back(
                tensor("layers.0.experts." + expert + "." + half + ".weight", {3, 4}));
        }
    }
    EXPECT_EQ(bind(std::move(catalogue)).targets.size(), 12U);
}

TEST_F(OwnNames, tells_a_layer_from_one_behind_the_last) {
    Catalogue catalogue = whole();
    catalogue.tensors.push_back(tensor("layers.2.proj", {4, 4}));
    EXPECT_EQ(target(bind(std::move(catalogue)), "layers.2.proj").shape,
              (std::vector<Index>{4, 4}));
}

TEST_F(OwnNames, compares_a_tied_copy_and_does_not_write_it) {
    const Binding binding = bind(whole(), R"({"model_type": "toy", "tied": 1})");
    EXPECT_EQ(binding.targets.size(), 11U);
    ASSERT_EQ(binding.same.size(), 1U);
    EXPECT_EQ(binding.same[0].stored_name, "head");
    EXPECT_EQ(binding.same[0].why, SamePair::Why::tied);
}

TEST_F(OwnNames, one_storage_for_both_says_that_they_are_tied) {
    Catalogue catalogue = whole();
    for (Tensor& tensor : catalogue.tensors) {
        tensor.pieces[0].base = tensor.name == "head" ? 1024 : 512;
    }
    EXPECT_EQ(bind(catalogue).targets.size(), 12U);
    catalogue.tensors.back().pieces[0].base = 512;
    EXPECT_EQ(bind(catalogue, R"({"model_type": "toy", "tied": 1})").same.size(), 1U);
    expect_error(ErrorCode::mismatch, "head and embed are one storage", std::move(catalogue));
}

TEST_F(OwnNames, plain_tensors_of_full_shape_are_replicas) {
    Catalogue catalogue = layers();
    catalogue.facts["fsdp"] = 2;
    for (const int rank : {0, 1}) {
        catalogue.shards.push_back(plain("embed", {10, 4}, rank));
        catalogue.shards.push_back(plain("head", {10, 4}, rank));
    }
    const Binding binding = bind(std::move(catalogue));
    EXPECT_EQ(target(binding, "embed").operands.size(), 1U);
    EXPECT_EQ(target(binding, "embed").replicas.size(), 1U);
    EXPECT_TRUE(binding.same.empty());
}

TEST_F(OwnNames, plain_tensors_that_make_up_the_shape_are_put_together) {
    Catalogue catalogue = layers();
    catalogue.facts["fsdp"] = 4;
    for (const int rank : {0, 1, 2, 3}) {
        catalogue.shards.push_back(plain("embed", {rank == 3 ? 1 : 3, 4}, rank));
        catalogue.shards.push_back(plain("head", {10, 4}, rank));
    }
    const Binding binding = bind(std::move(catalogue));
    const Target& embed = target(binding, "embed");
    ASSERT_EQ(embed.operands.size(), 4U);
    EXPECT_EQ(embed.operands[3].copy.dst_offset, 36);
    EXPECT_EQ(embed.operands[3].copy.volume(), 4);
}

TEST_F(OwnNames, tensor_parallel_parts_are_found_on_any_dim) {
    Catalogue catalogue = layers();
    catalogue.facts["fsdp"] = 2;
    catalogue.facts["tp"] = 2;
    catalogue.facts["mesh_by_hand"] = 1;
    for (const int rank : {0, 1, 2, 3}) {
        catalogue.shards.push_back(plain("embed", {5, 2}, rank / 2, rank % 2));
        catalogue.shards.push_back(plain("head", {10, 2}, rank / 2, rank % 2));
        catalogue.shards.end()[-1].piece.file = static_cast<std::uint32_t>(rank);
        catalogue.shards.end()[-2].piece.file = static_cast<std::uint32_t>(rank);
    }
    const Binding binding = bind(std::move(catalogue));
    const Target& embed = target(binding, "embed");
    ASSERT_EQ(embed.operands.size(), 4U);
    std::vector<Index> places;
    for (const Operand& operand : embed.operands) {
        places.push_back(operand.copy.dst_offset);
    }
    std::sort(places.begin(), places.end());
    EXPECT_EQ(places, (std::vector<Index>{0, 2, 20, 22}));
    EXPECT_EQ(target(binding, "head").operands.size(), 2U);
    EXPECT_EQ(target(binding, "head").replicas.size(), 2U);
}

TEST_F(OwnNames, parts_that_do_not_make_up_the_shape_ask_for_the_mesh) {
    Catalogue catalogue = whole();
    std::erase_if(catalogue.tensors, [](const Tensor& one) { return one.name == "embed"; });
    catalogue.facts["fsdp"] = 2;
    for (const int rank : {0, 1}) {
        catalogue.shards.push_back(plain("embed", {4, 4}, rank));
    }
    expect_error(ErrorCode::mismatch, "--mesh_shape", std::move(catalogue));
}

TEST_F(OwnNames, tensors_without_a_line_are_written_with_a_warning) {
    Catalogue catalogue = whole();
    catalogue.tensors.push_back(tensor("extra.bias", {3}));
    catalogue.tensors.push_back(tensor("tower.patch", {2, 2}));
    const Binding binding = bind(std::move(catalogue));
    ASSERT_EQ(binding.warnings.size(), 1U);
    EXPECT_EQ(binding.warnings[0].code, "extra_tensors");
    EXPECT_NE(binding.warnings[0].text.find("extra.bias"), std::string::npos);
    EXPECT_EQ(binding.warnings[0].text.find("eyes"), std::string::npos);
    EXPECT_EQ(target(binding, "eyes.patch").shape, (std::vector<Index>{2, 2}));
}

TEST_F(OwnNames, tensors_that_config_json_switches_off_contradict_it) {
    const auto with = [](const std::string& name) {
        Catalogue catalogue = whole();
        catalogue.tensors.push_back(tensor(name, {4}));
        return catalogue;
    };
    EXPECT_EQ(bind(with("shared"), R"({"model_type": "toy", "n_shared": 1})").targets.size(), 13U);
    for (const std::string fields : {"", R"(, "n_shared": 0)"}) {
        expect_error(ErrorCode::mismatch,
                     "shared [4] is stored, but config.json (n_shared) describes a model without "
                     "it; config.json is another model's or was changed: give the trained model's "
                     "with --hf_config DIR (toy.recipe:",
                     with("shared"), fields);
    }
    // What the family never has, or the command line chooses, is no matter of config.json.
    for (const char* name : {"bias", "score"}) {
        const Binding binding = bind(with(name));
        ASSERT_EQ(binding.warnings.size(), 1U) << name;
        EXPECT_EQ(binding.warnings[0].code, "extra_tensors");
    }
}

TEST_F(OwnNames, missing_tensors_are_held_against_what_is_stored_instead) {
    Catalogue below;
    for (Tensor& one : whole().tensors) {
        below.tensors.push_back(std::move(one));
        below.tensors.back().name = "policy.actor." + below.tensors.back().name;
    }
    expect_error(ErrorCode::mismatch,
                 "stored is policy.actor.layers.0.experts.gate_up, which begins with "
                 "\"policy.actor.\"; give --prefix policy.actor: what lies below it is the model "
                 "then",
                 below);
    const auto instead = [](const std::string& name) {
        Catalogue catalogue = whole();
        catalogue.tensors.front() = tensor(name, {4});
        return catalogue;
    };
    expect_error(ErrorCode::mismatch,
                 "stored is block.0.norm.weight, which begins with \"block.\", not with "
                 "\"layers.\"; config.json is another model's",
                 instead("block.0.norm.weight"));
    expect_error(
        ErrorCode::mismatch,
        "the weights are quantised with GPTQ (layers.0.norm.g_idx), and no part of a toy model; ",
        instead("layers.0.norm.g_idx"));
    expect_error(ErrorCode::mismatch,
                 "the names are OLMo-core's (blocks.0.attention.w_q.weight), and no part of a toy "
                 "model; convert it with ",
                 instead("blocks.0.attention.w_q.weight"));
    // Files that are all there, of a model with fewer layers.
    expect_error(ErrorCode::mismatch,
                 "this config.json is another model's: layers 3, the checkpoint has 2", whole(),
                 R"(, "layers": 3)");
}

TEST_F(OwnNames, a_tied_head_alone_is_the_embedding) {
    Catalogue catalogue = layers();
    catalogue.tensors.push_back(tensor("head", {10, 4}));
    const Binding binding = bind(std::move(catalogue), R"({"model_type": "toy", "tied": 1})");
    EXPECT_EQ(target(binding, "embed").source, "head");
    EXPECT_TRUE(binding.same.empty());
}

/// The stored name of every tensor that a model in OLMo-core's names becomes.
std::map<std::string, std::string> olmo_core_sources(const std::string& family) {
    const auto library = models::RecipeLibrary::load();
    const models::Recipe& recipe = *library.find_recipe(family);
    const models::Dialect& dialect = *library.find_dialect("olmo_core");
    const bool is_post = family == "olmo2";
    const models::Symbols symbols(
        recipe, dialect,
        models::Config::parse(R"({"model_type": ")" + family + R"(", "hidden_size": 8,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 2,
            "intermediate_size": 12, "num_hidden_layers": 1, "vocab_size": 10})",
                              "config.json"),
        {}, {});
    Catalogue catalogue;
    catalogue.files = {{"file", 4096}};
    const auto add = [&](const std::string& name, const std::vector<Index>& shape) {
        catalogue::Piece piece;
        piece.patch = layout::dense_shape(shape);
        catalogue.tensors.push_back({name, DType::f32, shape, {piece}});
    };
    add("embeddings.weight", {10, 8});
    add("lm_head.norm.weight", {8});
    add("lm_head.w_out.weight", {10, 8});
    add("blocks.0.attention.w_q.weight", {8, 8});
    add("blocks.0.attention.w_k.weight", {4, 8});
    add("blocks.0.attention.w_v.weight", {4, 8});
    add("blocks.0.attention.w_out.weight", {8, 8});
    add("blocks.0.attention_norm.weight", {8});
    add("blocks.0.feed_forward_norm.weight", {8});
    add("blocks.0.feed_forward.w1.weight", {12, 8});
    add("blocks.0.feed_forward.w2.weight", {8, 12});
    add("blocks.0.feed_forward.w3.weight", {12, 8});
    if (family != "llama") {
        add("blocks.0.attention.q_norm.weight", {is_post ? 8 : 2});
        add("blocks.0.attention.k_norm.weight", {is_post ? 4 : 2});
    }
    std::map<std::string, std::string> sources;
    for (const Target& target :
         plan::bind(std::move(catalogue), {&recipe, &dialect, &symbols}, {}).targets) {
        sources[target.name] = target.source;
    }
    return sources;
}

TEST(OlmoCore, names_become_the_hubs_of_each_family) {
    const std::string layer = "model.layers.0.";
    const std::string block = "blocks.0.";
    std::map<std::string, std::string> expected{
        {"model.embed_tokens.weight", "embeddings.weight"},
        {"model.norm.weight", "lm_head.norm.weight"},
        {"lm_head.weight", "lm_head.w_out.weight"},
        {layer + "self_attn.q_proj.weight", block + "attention.w_q.weight"},
        {layer + "self_attn.k_proj.weight", block + "attention.w_k.weight"},
        {layer + "self_attn.v_proj.weight", block + "attention.w_v.weight"},
        {layer + "self_attn.o_proj.weight", block + "attention.w_out.weight"},
        {layer + "mlp.gate_proj.weight", block + "feed_forward.w1.weight"},
        {layer + "mlp.down_proj.weight", block + "feed_forward.w2.weight"},
        {layer + "mlp.up_proj.weight", block + "feed_forward.w3.weight"},
        {layer + "input_layernorm.weight", block + "attention_norm.weight"},
        {layer + "post_attention_layernorm.weight", block + "feed_forward_norm.weight"}};
    EXPECT_EQ(olmo_core_sources("llama"), expected);
    expected[layer + "self_attn.q_norm.weight"] = block + "attention.q_norm.weight";
    expected[layer + "self_attn.k_norm.weight"] = block + "attention.k_norm.weight";
    EXPECT_EQ(olmo_core_sources("qwen3"), expected);
    expected.erase(layer + "input_layernorm.weight");
    expected[layer + "post_attention_layernorm.weight"] = block + "attention_norm.weight";
    expected[layer + "post_feedforward_layernorm.weight"] = block + "feed_forward_norm.weight";
    EXPECT_EQ(olmo_core_sources("olmo2"), expected);
}

TEST_F(OwnNames, the_longest_prefix_renames) {
    Catalogue catalogue = whole();
    for (Tensor& one : catalogue.tensors) {
        if (one.name.starts_with("layers.1.")) {
            one.name = "tower.text." + one.name.substr(7);
        }
    }
    EXPECT_EQ(bind(std::move(catalogue)).targets.size(), 12U);
}

TEST_F(OwnNames, of_a_framework_what_passes_or_has_a_line_is_renamed) {
    dialect_.has_own_names = false;
    Catalogue catalogue = whole();
    catalogue.tensors[0].name = "tower.text.0.norm.weight";
    catalogue.tensors.push_back(tensor("tower.scale", {6}));
    EXPECT_EQ(target(bind(catalogue), "eyes.scale").shape, (std::vector<Index>{6}));
    catalogue.tensors.push_back(tensor("tower.text.0.scale", {6}));
    expect_error(ErrorCode::mismatch, "tower.text.0.scale [6]", std::move(catalogue));
}

TEST_F(OwnNames, plain_tensors_without_a_line_must_be_equal) {
    Catalogue catalogue = whole();
    catalogue.facts["fsdp"] = 2;
    for (const int rank : {0, 1}) {
        catalogue.shards.push_back(plain("eyes.scale", {6}, rank));
    }
    const Binding binding = bind(catalogue);
    ASSERT_EQ(binding.same.size(), 1U);
    EXPECT_EQ(binding.same[0].why, SamePair::Why::presumed);
    EXPECT_EQ(target(binding, "eyes.scale").shape, (std::vector<Index>{6}));
    catalogue.facts["mesh_by_hand"] = 1;
    EXPECT_EQ(target(bind(std::move(catalogue)), "eyes.scale").shape, (std::vector<Index>{12}));
}

TEST_F(OwnNames, missing_tensors_are_listed_together) {
    Catalogue catalogue = whole();
    std::erase_if(catalogue.tensors, [](const Tensor& one) {
        return one.name == "embed" || one.name == "layers.1.norm.weight";
    });
    expect_error(ErrorCode::mismatch, "(2 in all)", std::move(catalogue));
}

TEST_F(OwnNames, a_config_that_promises_too_much_is_not_counted_through) {
    const auto code = ErrorCode::mismatch;
    // The sum over lines counts: 5 names a layer, none of its lines beyond the limit.
    expect_error(code, "promises 2800006 tensors up to layers.{l}.experts.{e}.up.weight", whole(),
                 R"(, "layers": 560000)");
    expect_error(code, "promises 4000000001006 tensors up to layers.{l}.experts.{e}.gate.weight",
                 whole(), R"(, "layers": 1000, "experts": 4000000000)");
    // Fewer: it ends some thousands beyond the six that are stored.
    expect_error(code, "(at least 4103 in all)", whole(), R"(, "layers": 100000)");
    expect_error(code, "at least 100000 optional tensors of which nothing is stored", whole(),
                 R"(, "mtp": 1000000)");
    EXPECT_EQ(bind(whole(), R"({"model_type": "toy", "mtp": 5000})").targets.size(), 12U);
}

TEST_F(OwnNames, a_stack_of_too_many_parts_is_not_cut) {
    Catalogue catalogue = whole();
    catalogue.tensors[1] = tensor("layers.0.experts.gate_up", {300000, 6, 4});
    std::erase_if(catalogue.tensors,
                  [](const Tensor& one) { return one.name.starts_with("layers.1."); });
    expect_error(ErrorCode::mismatch, "cuts one tensor into 300000 parts, at most 262144",
                 std::move(catalogue), R"(, "layers": 1, "experts": 300000)");
}

TEST_F(OwnNames, a_trace_tells_both_sides) {
    const Catalogue catalogue = whole();
    (void)bind(catalogue);
    const Model model{&recipe_, &dialect_, symbols_.get()};
    const auto lines = trace_stored(catalogue, model, "layers.1.experts.1.up.weight");
    ASSERT_EQ(lines.size(), 4U);
    EXPECT_EQ(lines[0], "stored layers.1.experts.gate_up F32 [2, 6, 4]");
    EXPECT_NE(lines[1].find("e [gate: f | up: f] h"), std::string::npos) << lines[1];
    EXPECT_NE(lines[2].find("piece [0:2, 0:6, 0:4] in rank0 at byte 0"), std::string::npos);
    EXPECT_EQ(lines[3].rfind("becomes layers.1.experts.1.up.weight: ", 0), 0U) << lines[3];
    EXPECT_EQ(trace_stored(catalogue, model, "layers.1.experts.gate_up").size(), 3 + 4U);
    EXPECT_TRUE(trace_stored(catalogue, model, "nobody").empty());
}

}  // namespace
}  // namespace shardweld::plan
