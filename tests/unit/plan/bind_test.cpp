// Catalogues against a small recipe: what is taken, what is refused, and in which words.
#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"
#include "plan/binding.hpp"
#include "shardweld/error.hpp"

namespace shardweld::plan {
namespace {

using catalogue::Catalogue;
using catalogue::Shard;
using catalogue::Tensor;

constexpr const char* kDialect = R"(dialect tiny
format 1
fact t
default tr = t / g, pt = g * p / t
fuse p = tr pt
block layer
  qkv.weight  = qkv  (g [q: p d | k: d | v: d]) h   <tp 0>
  qkv.weight  = qkv  (g tr [q: pt d | k: d | v: d]) h   <tp 0>  if t > g  repeat tr
  fc1.weight  = fc1  (t [gate: f | up: f]) h        <tp 0>
  norm.weight = norm h
  experts.{e}.weight = expert f h                   <etp 0>
at layers.{l}. = layer.{l}. layer stacked l
store embed.weight = embed [v: vocab | pad: *] h    <tp 0>  drop pad
store head.weight  = head  [v: vocab | pad: *] h    <tp 0>  drop pad
ignore *._extra "state"
)";

constexpr const char* kRecipe = R"(recipe tiny_model
format 1
uses tiny
match @model_type = "tiny"
let h = @hidden
let g = 2
let p = 2
let d = 3
let f = @ffn / t
let vocab = @vocab
let tied = @tied else 0
index l = @layers
index e = @experts else 0
block layer
  q.weight    = qkv  q: (g p d) h
  k.weight    = qkv  k: (g d) h
  v.weight    = qkv  v: (g d) h
  gate.weight = fc1  gate: (t f) h
  up.weight   = fc1  up: (t f) h
  norm.weight = norm h
  experts.{e}.weight = expert f h
at m.layers.{l}. = layer.{l}. layer
hub m.embed = embed v: vocab h
hub m.head  = head v: vocab h   if not tied
same head = embed if tied
)";

/// The small model and catalogues that fit it.
class Bind : public testing::Test {
  public:
    static Shard shard(const std::string& name, std::vector<Index> shape, int tp, int ep = 0) {
        Shard shard;
        shard.name = name;
        shard.dtype = DType::bf16;
        shard.piece.patch = layout::dense_shape(shape);
        shard.shape = std::move(shape);
        shard.piece.file = static_cast<std::uint32_t>(tp);
        shard.at.tp = tp;
        shard.at.ep = ep;
        return shard;
    }

  protected:
    Bind()
        : library_(models::RecipeLibrary::load(
              {{"tiny.dialect", kDialect}, {"tiny_model.recipe", kRecipe}})) {}

    Binding bind(Catalogue catalogue,
                 const std::string& config =
                     R"({"model_type": "tiny", "hidden": 4, "ffn": 6, "vocab": 7, "layers": 2})") {
        const models::Recipe& recipe = *library_.find_recipe("tiny_model");
        const models::Dialect& dialect = *library_.find_dialect("tiny");
        const models::Symbols symbols(recipe, dialect, models::Config::parse(config, "config.json"),
                                      {{"t", t_}}, {{"value", 0}});
        return plan::bind(std::move(catalogue), {&recipe, &dialect, &symbols}, {});
    }

    /// Expects an error with this code whose text holds `part`.
    void expect_error(
        ErrorCode code, const std::string& part, Catalogue catalogue,
        const std::string& config =
            R"({"model_type": "tiny", "hidden": 4, "ffn": 6, "vocab": 7, "layers": 2})") {
        try {
            (void)bind(std::move(catalogue), config);
            ADD_FAILURE() << "not refused; expected: " << part;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), code) << error.full_text();
            EXPECT_NE(error.full_text().find(part), std::string::npos) << error.full_text();
        }
    }

    static Tensor tensor(const std::string& name, std::vector<Index> shape) {
        catalogue::Piece piece;
        piece.patch = layout::dense_shape(shape);
        return {name, DType::bf16, std::move(shape), {piece}};
    }

    /// One tensor a layer, global shapes.
    static Catalogue per_layer() {
        Catalogue catalogue;
        catalogue.files = {{"a", 1000000}};
        for (const std::string layer : {"layers.0.", "layers.1."}) {
            catalogue.tensors.push_back(tensor(layer + "qkv.weight", {24, 4}));
            catalogue.tensors.push_back(tensor(layer + "fc1.weight", {12, 4}));
            catalogue.tensors.push_back(tensor(layer + "norm.weight", {4}));
        }
        catalogue.tensors.push_back(tensor("embed.weight", {8, 4}));
        catalogue.tensors.push_back(tensor("head.weight", {8, 4}));
        return catalogue;
    }

    /// The same, layers stacked.
    static Catalogue stacked() {
        Catalogue catalogue;
        catalogue.files = {{"a", 1000000}};
        catalogue.tensors = {tensor("layers.qkv.weight", {2, 24, 4}),
                             tensor("layers.fc1.weight", {2, 12, 4}),
                             tensor("layers.norm.weight", {2, 4}), tensor("embed.weight", {8, 4}),
                             tensor("head.weight", {8, 4})};
        return catalogue;
    }

    /// The same over two tensor-parallel ranks.
    static Catalogue shards() {
        Catalogue catalogue;
        catalogue.files = {{"rank0", 1000000}, {"rank1", 1000000}};
        catalogue.facts = {{"tp", 2}};
        for (const int tp : {0, 1}) {
            for (const std::string layer : {"layers.0.", "layers.1."}) {
                catalogue.shards.push_back(shard(layer + "qkv.weight", {12, 4}, tp));
                catalogue.shards.push_back(shard(layer + "fc1.weight", {6, 4}, tp));
                catalogue.shards.push_back(shard(layer + "norm.weight", {4}, tp));
            }
            catalogue.shards.push_back(shard("embed.weight", {4, 4}, tp));
            catalogue.shards.push_back(shard("head.weight", {4, 4}, tp));
        }
        return catalogue;
    }

    static const Target& find(const Binding& binding, const std::string& name) {
        for (const Target& target : binding.targets) {
            if (target.name == name) {
                return target;
            }
        }
        throw std::runtime_error("no target " + name);
    }

    static Index n_elements(const Target& target) {
        Index n = 0;
        for (const Operand& operand : target.operands) {
            n += operand.copy.volume();
        }
        return n;
    }

    models::RecipeLibrary library_;
    Index t_ = 1;
};

TEST_F(Bind, takes_layers_apart_or_stacked_alike) {
    const Binding apart = bind(per_layer());
    const Binding together = bind(stacked());
    ASSERT_EQ(apart.targets.size(), 14U);
    ASSERT_EQ(together.targets.size(), 14U);
    for (std::size_t i = 0; i < apart.targets.size(); ++i) {
        EXPECT_EQ(apart.targets[i].name, together.targets[i].name);
        EXPECT_EQ(apart.targets[i].shape, together.targets[i].shape);
        EXPECT_EQ(n_elements(apart.targets[i]), apart.targets[i].volume());
        EXPECT_EQ(n_elements(together.targets[i]), together.targets[i].volume());
    }
    // Layer 1's v: group rows 24 + 9..11 and 24 + 21..23 of the stack.
    const Target& v = find(together, "m.layers.1.v.weight");
    ASSERT_EQ(v.operands.size(), 1U);
    EXPECT_EQ(v.operands[0].copy, (layout::Copy{24 * 4 + 9 * 4, 0, {{2, 48, 12}, {12, 1, 1}}}));
    EXPECT_EQ(together.ledger.padding, 2U * 4 * 2);
    EXPECT_EQ(together.ledger.consumed, (2U * (24 * 4 + 12 * 4 + 4) + 2U * 7 * 4) * 2);
}

TEST_F(Bind, joins_shards_of_ranks_and_compares_what_they_repeat) {
    t_ = 2;
    const Binding binding = bind(shards());
    const Target& gate = find(binding, "m.layers.0.gate.weight");
    EXPECT_EQ(gate.shape, (std::vector<Index>{6, 4}));
    ASSERT_EQ(gate.operands.size(), 2U);
    EXPECT_EQ(gate.operands[1].copy, (layout::Copy{0, 12, {{12, 1, 1}}}));
    const Target& up = find(binding, "m.layers.0.up.weight");
    EXPECT_EQ(up.operands[0].copy, (layout::Copy{12, 0, {{12, 1, 1}}}));
    const Target& norm = find(binding, "m.layers.0.norm.weight");
    EXPECT_EQ(norm.operands.size(), 1U);
    EXPECT_EQ(norm.replicas.size(), 1U);
    EXPECT_EQ(norm.replicas[0].file, 1U);
    EXPECT_EQ(binding.ledger.replica, 2U * 4 * 2);
}

// Four ranks and two groups: each rank holds one query head and a copy of its group's key and
// value.
Catalogue with_repeated_heads() {
    Catalogue catalogue;
    catalogue.facts = {{"tp", 4}};
    for (int tp = 0; tp < 4; ++tp) {
        catalogue.files.push_back({"rank" + std::to_string(tp), 1000000});
        for (const std::string layer : {"layers.0.", "layers.1."}) {
            catalogue.shards.push_back(Bind::shard(layer + "qkv.weight", {9, 4}, tp));
            catalogue.shards.push_back(Bind::shard(layer + "fc1.weight", {6, 4}, tp));
            catalogue.shards.push_back(Bind::shard(layer + "norm.weight", {4}, tp));
        }
        catalogue.shards.push_back(Bind::shard("embed.weight", {2, 4}, tp));
        catalogue.shards.push_back(Bind::shard("head.weight", {2, 4}, tp));
    }
    return catalogue;
}

constexpr const char* kWider =
    R"({"model_type": "tiny", "hidden": 4, "ffn": 12, "vocab": 7, "layers": 2})";

TEST_F(Bind, takes_one_of_the_heads_that_ranks_repeat_and_compares_the_others) {
    t_ = 4;
    const Binding binding = bind(with_repeated_heads(), kWider);
    const Target& q = find(binding, "m.layers.1.q.weight");
    ASSERT_EQ(q.operands.size(), 4U);
    EXPECT_TRUE(q.replicas.empty());
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(q.operands[rank].file, rank);
        EXPECT_EQ(q.operands[rank].copy, (layout::Copy{0, Index{rank} * 12, {{12, 1, 1}}}));
    }
    const Target& v = find(binding, "m.layers.1.v.weight");
    EXPECT_EQ(v.shape, (std::vector<Index>{6, 4}));
    ASSERT_EQ(v.operands.size(), 2U);
    ASSERT_EQ(v.replicas.size(), 2U);
    for (std::uint32_t group = 0; group < 2; ++group) {
        const layout::Copy expected{24, Index{group} * 12, {{12, 1, 1}}};
        EXPECT_EQ(v.operands[group].file, 2 * group);
        EXPECT_EQ(v.operands[group].copy, expected);
        EXPECT_EQ(v.replicas[group].file, 2 * group + 1);
        EXPECT_EQ(v.replicas[group].copy, expected);
    }
}

TEST_F(Bind, takes_heads_in_parts_where_the_shape_says_so) {
    t_ = 4;
    Catalogue catalogue = with_repeated_heads();
    for (Shard& shard : catalogue.shards) {
        if (shard.name.text().ends_with("qkv.weight")) {
            shard = Bind::shard(shard.name, {6, 4}, shard.at.tp);
        }
    }
    const Binding binding = bind(catalogue, kWider);
    const Target& v = find(binding, "m.layers.0.v.weight");
    EXPECT_EQ(v.operands.size(), 2U);
    EXPECT_TRUE(v.replicas.empty());
    for (Shard& shard : catalogue.shards) {
        if (shard.name.text().ends_with("qkv.weight")) {
            shard = Bind::shard(shard.name, {7, 4}, shard.at.tp);
        }
    }
    expect_error(ErrorCode::mismatch, "dimension 0 is 28, expected 24", catalogue, kWider);
}

TEST_F(Bind, numbers_experts_by_rank) {
    Catalogue catalogue = shards();
    t_ = 2;
    catalogue.facts["ep"] = 2;
    for (const int ep : {0, 1}) {
        for (const std::string expert : {"0", "1"}) {
            for (const std::string layer : {"layers.0.", "layers.1."}) {
                Shard one = shard(layer + "experts." + expert + ".weight", {3, 4}, ep, ep);
                one.piece.base = static_cast<Bytes>(1000 + 100 * ep) + (expert == "1" ? 50 : 0);
                catalogue.shards.push_back(one);
            }
        }
    }
    const std::string config =
        R"({"model_type": "tiny", "hidden": 4, "ffn": 6, "vocab": 7, "layers": 2, "experts": 4})";
    const Binding binding = bind(catalogue, config);
    EXPECT_EQ(find(binding, "m.layers.1.experts.1.weight").operands[0].base, 1050U);
    EXPECT_EQ(find(binding, "m.layers.1.experts.2.weight").operands[0].base, 1100U);
    const std::string fewer =
        R"({"model_type": "tiny", "hidden": 4, "ffn": 6, "vocab": 7, "layers": 2, "experts": 2})";
    expect_error(ErrorCode::mismatch, "2 experts over 2 ranks leave fewer", catalogue, fewer);
}

TEST_F(Bind, names_the_tensor_that_a_missing_rank_leaves_open) {
    t_ = 2;
    Catalogue catalogue = shards();
    catalogue.shards.erase(catalogue.shards.begin() + 9);  // rank 1's fc1 of layer 0
    expect_error(ErrorCode::not_found,
                 "layers.0.fc1.weight has no shard of tensor-parallel rank 1 (of 2)", catalogue);
}

TEST_F(Bind, refuses_shards_of_different_dtype_or_shape) {
    t_ = 2;
    Catalogue catalogue = shards();
    catalogue.shards[10].dtype = DType::f32;
    expect_error(ErrorCode::mismatch,
                 "layers.0.norm.weight is BF16 in file rank0 but F32 in file rank1", catalogue);
    catalogue = shards();
    catalogue.shards[10] = shard("layers.0.norm.weight", {5}, 1);
    expect_error(ErrorCode::mismatch,
                 "layers.0.norm.weight has shape [4] in file rank0 but [5] in file rank1",
                 catalogue);
}

TEST_F(Bind, refuses_what_no_rule_takes) {
    Catalogue catalogue = per_layer();
    catalogue.tensors.push_back(tensor("layers.0.bias", {4}));
    catalogue.tensors.push_back(tensor("layers.0.qkv._extra", {4}));
    expect_error(ErrorCode::mismatch,
                 "1 stored tensor that no line of dialect tiny matches for a tiny_model model: "
                 "layers.0.bias [4]",
                 catalogue);
}

TEST_F(Bind, counts_what_is_ignored) {
    Catalogue catalogue = per_layer();
    catalogue.tensors.push_back(tensor("layers.0.qkv._extra", {4}));
    catalogue.tensors.push_back(tensor("layers.1.qkv._extra", {4}));
    const Binding binding = bind(catalogue);
    ASSERT_EQ(binding.ledger.ignored.size(), 1U);
    EXPECT_EQ(binding.ledger.ignored[0].count, 2);
    EXPECT_EQ(binding.ledger.ignored[0].bytes, 16U);
    EXPECT_EQ(binding.ledger.ignored[0].reason, "state");
}

TEST_F(Bind, refuses_a_config_with_more_or_fewer_layers) {
    expect_error(ErrorCode::mismatch,
                 "this config.json is another model's: layers 3, the checkpoint has 2; give the",
                 per_layer(),
                 R"({"model_type": "tiny", "hidden": 4, "ffn": 6, "vocab": 7, "layers": 3})");
    expect_error(ErrorCode::mismatch, "another model's: layers 1, the checkpoint has 2",
                 per_layer(),
                 R"({"model_type": "tiny", "hidden": 4, "ffn": 6, "vocab": 7, "layers": 1})");
    expect_error(ErrorCode::mismatch, "another model's: layers 3, the checkpoint has 2", stacked(),
                 R"({"model_type": "tiny", "hidden": 4, "ffn": 6, "vocab": 7, "layers": 3})");
}

TEST_F(Bind, refuses_sizes_that_do_not_fit_the_config) {
    expect_error(ErrorCode::mismatch, "another model's: ffn 7, the checkpoint has 6", per_layer(),
                 R"({"model_type": "tiny", "hidden": 4, "ffn": 7, "vocab": 7, "layers": 2})");
    expect_error(ErrorCode::mismatch, "another model's: vocab 9, the checkpoint has 8", per_layer(),
                 R"({"model_type": "tiny", "hidden": 4, "ffn": 6, "vocab": 9, "layers": 2})");
}

TEST_F(Bind, tells_all_contradictions_at_once) {
    Catalogue catalogue = per_layer();
    catalogue.tensors.push_back(tensor("layers.0.bias", {4}));
    try {
        (void)bind(catalogue,
                   R"({"model_type": "tiny", "hidden": 4, "ffn": 7, "vocab": 9, "layers": 3})");
        ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::mismatch);
        const std::string what = error.what();
        for (const char* part : {"this config.json is another model's: ", "ffn 7", "vocab 9",
                                 "layers 3", "(5 kinds of tensors differ, -v lists them)",
                                 "1 stored tensor that no line", "layers.0.bias [4]"}) {
            EXPECT_NE(what.find(part), std::string::npos) << part << "\n" << what;
        }
        const std::string text = error.detail();
        for (const char* part :
             {"checkpoint and config.json contradict each other in 5 ways:\n",
              "layers.0.fc1.weight is [12, 4]; config.json (ffn 7) implies [14, 4]",
              "and 1 other of this kind",
              "embed.weight is [8, 4]; config.json (vocab 9) implies [at least 9, 4]",
              "head.weight is [8, 4]", "1 stored tensor that no line", "layers.0.bias [4]",
              "m.layers.2.q.weight needs layer.{l}.qkv[q]"}) {
            EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
        }
        // What was given up is not told again as missing.
        EXPECT_EQ(text.find("m.layers.2.gate"), std::string::npos) << text;
        EXPECT_EQ(text.find("m.embed"), std::string::npos) << text;
    }
}

TEST_F(Bind, ledger_sums_up_to_what_is_stored) {
    for (Catalogue catalogue : {per_layer(), stacked(), shards()}) {
        t_ = catalogue.shards.empty() ? 1 : 2;
        catalogue.ignored.push_back({"optimizer", "state", 3, 1000});
        Ledger ledger;
        ledger.stored = catalogue::stored_bytes(catalogue);
        const Bytes stored = ledger.stored;
        ledger = bind(std::move(catalogue)).ledger;
        ledger.stored = stored;
        EXPECT_NO_THROW(ledger.require_closed());
        for (Bytes* part : {&ledger.stored, &ledger.consumed, &ledger.replica, &ledger.padding,
                            &ledger.ignored.front().bytes}) {
            *part += 2;
            try {
                ledger.require_closed();
                ADD_FAILURE() << "does not close, and is not refused";
            } catch (const Error& error) {
                EXPECT_EQ(error.code(), ErrorCode::mismatch);
                EXPECT_NE(error.full_text().find("the ledger does not close"), std::string::npos);
            }
            *part -= 2;
        }
    }
}

TEST_F(Bind, refuses_pieces_that_overlap_or_leave_a_gap) {
    Catalogue catalogue = per_layer();
    catalogue.tensors[2].pieces.push_back(catalogue.tensors[2].pieces[0]);
    expect_error(ErrorCode::mismatch, "m.layers.0.norm.weight is stored twice", catalogue);
    catalogue = per_layer();
    catalogue.tensors[0].pieces[0].patch.axes[0].extent = 23;
    expect_error(ErrorCode::mismatch, "is not covered", catalogue);
}

TEST_F(Bind, ties_a_stored_head_to_the_embedding) {
    const Binding binding = bind(
        per_layer(),
        R"({"model_type": "tiny", "hidden": 4, "ffn": 6, "vocab": 7, "layers": 2, "tied": true})");
    EXPECT_EQ(binding.targets.size(), 13U);
    ASSERT_EQ(binding.same.size(), 1U);
    EXPECT_EQ(binding.same[0].stored_name, "head.weight");
    EXPECT_EQ(binding.targets[binding.same[0].target].name, "m.embed");
    EXPECT_EQ(binding.same[0].count, 1U);
    Catalogue without = per_layer();
    without.tensors.pop_back();
    EXPECT_TRUE(
        bind(
            without,
            R"({"model_type": "tiny", "hidden": 4, "ffn": 6, "vocab": 7, "layers": 2, "tied": true})")
            .same.empty());
    expect_error(ErrorCode::mismatch,
                 "the checkpoint has no output head (m.head), but by config.json (tied) head and "
                 "embedding are two; give --tie-word-embedding",
                 without);
}

}  // namespace
}  // namespace shardweld::plan
