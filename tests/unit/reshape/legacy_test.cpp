// Legacy checkpoints of the real frameworks: each rank's file must hold what we would put there.
#include "reshape/legacy.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/format.hpp"
#include "io/input_file.hpp"
#include "models/config.hpp"
#include "models/symbols.hpp"
#include "plan/bind/join_shards.hpp"
#include "reshape/arrange.hpp"
#include "reshape/rank_files.hpp"
#include "shardweld/error.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::reshape {
namespace {

namespace fs = std::filesystem;

/// "mp_rank_00/model_optim_rng.pt model decoder.final_layernorm.weight [64]".
using Listing = std::set<std::string>;

const models::RecipeLibrary& library() {
    static const models::RecipeLibrary all = models::RecipeLibrary::load();
    return all;
}

std::string entry(const std::string& file, const std::vector<std::string>& path,
                  const std::vector<Index>& shape) {
    return file + " " + joined(path, " ") + " " + shape_text(shape);
}

/// One real checkpoint, and the model it is of.
class RankFiles {
  public:
    explicit RankFiles(const std::string& name)
        : directory_(fs::path(SHARDWELD_TEST_DATA) / name),
          config_(models::Config::parse(test::content_of(directory_ / "hf/config.json"),
                                        "config.json")),
          recipe_(models::recipe_for(library(), config_)),
          dialect_(*library().find_dialect("megatron_core")) {
        formats::JobInput request;
        request.directory = directory_ / "source";
        location_ = formats::locate(request);
        catalogue_ = formats::read_catalogue(location_);
    }

    /// What its files hold, as pickles say.
    [[nodiscard]] Listing stored() const {
        Listing all;
        for (const std::string& name : location_.shard_files) {
            const auto input = io::InputFile::open(location_.directory / name);
            const auto file = formats::TorchFile::read(input);
            const formats::PickleValue& root = file.root();
            for (std::size_t i = 0; i < root.pair_count(); ++i) {
                if (root.key(i).text().starts_with("model")) {
                    list_model(file, name, std::string(root.key(i).text()), root.value(i), all);
                }
            }
        }
        return all;
    }

    /// What we would write.
    [[nodiscard]] Listing written(const std::string& to) const {
        const Destination destination = parse_destination(to);
        const models::Symbols symbols(recipe_, dialect_, config_, facts_of(destination),
                                      {{"value", is_value()}});
        const Arrangement arrangement = arrangement_of(destination, symbols);
        Listing all;
        for_each_tensor([&](const models::Line& line, const models::Captures& captures,
                            const std::vector<Index>& shape) {
            const bool is_shared = line.logical == "head" && symbols.value("tied") != 0;
            if (!is_shared) {
                list_pieces(arrangement.pieces(line, captures, shape), shape, all);
            }
        });
        return all;
    }

  private:
    [[nodiscard]] Index is_value() const {
        return std::ranges::any_of(catalogue_.shards, [](const catalogue::Shard& shard) {
            return shard.name.text() == "output_layer.weight" && shard.shape.front() < 6;
        });
    }

    static void list_model(const formats::TorchFile& file, const std::string& name,
                           const std::string& key, const formats::PickleValue& model,
                           Listing& all) {
        for (std::size_t i = 0; i < model.pair_count(); ++i) {
            const std::string tensor(model.key(i).text());
            if (const auto stored = file.tensor(model.value(i));
                stored && tensor.find("_extra_state") == std::string::npos &&
                !tensor.ends_with("local_tokens_per_expert")) {
                all.insert(entry(name, {key, tensor}, stored->shape));
            }
        }
    }

    static void list_pieces(const std::vector<plan::TensorPiece>& pieces,
                            const std::vector<Index>& whole, Listing& all) {
        Index counted = 0;
        for (const plan::TensorPiece& piece : pieces) {
            std::vector<Index> shape;
            for (const layout::Range& range : piece.box) {
                shape.push_back(range.extent);
            }
            const std::string& file = piece.file;
            const std::vector<std::string> path(piece.path.begin(), piece.path.end());
            EXPECT_TRUE(all.insert(entry(file.substr(file.find('/') + 1), path, shape)).second)
                << plan::piece_name(piece);
            counted += piece.is_copy ? 0 : volume_of(shape, "piece");
        }
        EXPECT_EQ(counted, volume_of(whole, "tensor")) << plan::piece_name(pieces.front());
    }

    /// Calls emit(line, captures, shape) for each of the dialect's tensors in the checkpoint.
    template <typename Emit>
    void for_each_tensor(const Emit& emit) const {
        const models::Symbols symbols(recipe_, dialect_, config_, catalogue_.facts,
                                      {{"value", is_value()}});
        const plan::Model model{&recipe_, &dialect_, &symbols};
        const plan::StoreMatcher matcher(dialect_, recipe_, symbols);
        const plan::JoinedShards joined = plan::join_shards(catalogue_, model, matcher);
        for (const catalogue::Tensor& tensor : joined.tensors) {
            if (const auto match = matcher.find(tensor.name, tensor.shape)) {
                emit(*match->line, match->captures, tensor.shape);
            }
        }
    }

    fs::path directory_;
    models::Config config_;
    const models::Recipe& recipe_;
    const models::Dialect& dialect_;
    formats::Location location_;
    catalogue::Catalogue catalogue_;
};

struct Case {
    std::string name;
    std::string to;
};

const std::vector<Case>& cases() {
    static const std::vector<Case> all = {
        {"megatron/llama-pp12-legacy-bf16", "legacy:pp=12"},
        {"megatron/llama-tp2-pp2-vpp2-legacy-bf16", "legacy:tp=2,pp=2,vpp=2,spec=local"},
        {"megatron/llama-tp4-legacy-bf16", "legacy:tp=4"},
        {"megatron/mixtral-ep2-pp2-legacy-bf16", "legacy:pp=2,ep=2"},
        {"megatron_families/deepseekv4-tp1-legacy-bf16", "legacy"},
        {"megatron_families/ernie45-tp2-legacy-bf16", "legacy:tp=2"},
        {"megatron_families/ernie45moe-tp2-ep2-legacy-bf16", "legacy:tp=2,ep=2,etp=1"},
        {"megatron_families/ernie45vl-ep2-legacy-bf16", "legacy:ep=2"},
        {"megatron_families/exaone45-tp2-legacy-bf16", "legacy:tp=2"},
        {"megatron_families/falconh1norm-tp2-legacy-bf16", "legacy:tp=2"},
        {"megatron_families/gemma3-tp2-pp2-legacy-bf16", "legacy:tp=2,pp=2"},
        {"megatron_families/gemma3vl-tp2-legacy-bf16", "legacy:tp=2"},
        {"megatron_families/gemma4-wide-tp2-legacy-bf16", "legacy:tp=2,spec=local"},
        {"megatron_families/gemma4vl-tp2-legacy-bf16", "legacy:tp=2"},
        {"megatron_families/glm4-tp2-legacy-bf16", "legacy:tp=2"},
        {"megatron_families/glm45v-ep2-legacy-bf16", "legacy:ep=2"},
        {"megatron_families/glm4v-tp2-legacy-bf16", "legacy:tp=2"},
        {"megatron_families/gpt2-tp2-legacy-bf16", "legacy:tp=2,spec=local"},
        {"megatron_families/gptneox-legacy-bf16", "legacy"},
        {"megatron_families/granite-pp2-vpp2-legacy-bf16", "legacy:pp=2,vpp=2"},
        {"megatron_families/granitemoe-tp2-ep2-legacy-bf16", "legacy:tp=2,ep=2,etp=1"},
        {"megatron_families/hunyuandense-tp2-legacy-bf16", "legacy:tp=2"},
        {"megatron_families/hyv3-tp2-ep2-legacy-bf16", "legacy:tp=2,ep=2,etp=1"},
        {"megatron_families/internvlqwen2-tp2-legacy-bf16", "legacy:tp=2"},
        {"megatron_families/internvlqwen3-tp2-legacy-bf16", "legacy:tp=2"},
        {"megatron_families/kimik25-ep2-legacy-bf16", "legacy:ep=2"},
        {"megatron_families/llada-tp2-legacy-bf16", "legacy:tp=2"},
        {"megatron_families/mimov2-tp2-ep2-legacy-bf16", "legacy:tp=2,ep=2,etp=1"},
        {"megatron_families/minimaxm2-tp2-ep2-legacy-bf16", "legacy:tp=2,ep=2,etp=1"},
        {"megatron_families/minimaxm3-ep2-legacy-bf16", "legacy:ep=2"},
        {"megatron_families/mistral3-tp2-legacy-bf16", "legacy:tp=2"},
        {"megatron_families/nemotronh-tp2-legacy-bf16", "legacy:tp=2"},
        {"megatron_families/nemotronomni-tp1-legacy-bf16", "legacy"},
        {"megatron_families/olmo2-tp2-legacy-bf16", "legacy:tp=2"},
        {"megatron_families/phi-tp2-legacy-bf16", "legacy:tp=2,spec=local"},
        {"megatron_families/phimoe-tp2-ep2-legacy-bf16", "legacy:tp=2,ep=2,etp=1"},
        {"megatron_families/qwen2-labels3-pp2-legacy-bf16", "legacy:tp=2,pp=2"},
        {"megatron_families/qwen25vl-tied-tp2-pp2-legacy-bf16", "legacy:tp=2,pp=2"},
        {"megatron_families/qwen2audio-tp2-legacy-bf16", "legacy:tp=2"},
        {"megatron_families/qwen35-tp2-legacy-bf16", "legacy:tp=2"},
        {"megatron_families/qwen35vl-tp2-legacy-bf16", "legacy:tp=2"},
        {"megatron_families/qwen3next-mtp-tp2-pp2-legacy-bf16", "legacy:tp=2,pp=2,etp=1"},
        {"megatron_families/qwen3vl-tp2-legacy-bf16", "legacy:tp=2"},
        {"megatron_families/qwen3vlmoe-ep2-legacy-bf16", "legacy:ep=2"},
        {"megatron_families/sarvammla-tp2-ep2-legacy-bf16", "legacy:tp=2,ep=2,etp=1"},
        {"megatron_families/starcoder2-tp2-legacy-bf16", "legacy:tp=2"},
        {"megatron_families/step3p5-tp2-ep2-legacy-bf16", "legacy:tp=2,ep=2,etp=1"},
        {"megatron_more/deepseekv3-tp2-local-legacy", "legacy:tp=2,ep=2,etp=1,spec=local"},
        {"megatron_more/gemma-tp2-legacy", "legacy:tp=2"},
        {"megatron_more/llama-pp4-account-legacy", "legacy:pp=4,first=1,last=1"},
        {"megatron_more/llama-release-nonzip-legacy", "legacy"},
        {"megatron_more/llama-tp12-legacy", "legacy:tp=12"},
        {"megatron_more/llama-tp2-dp2-optim-distrib-legacy", "legacy:tp=2"},
        {"megatron_more/llama-tp2-pp2-vpp3-layout-legacy",
         "legacy:tp=2,pp=2,vpp=3,layout=E|t*2|t||tt|L"},
        {"megatron_more/qwen2-g2-tp4-legacy", "legacy:tp=4"},
        {"megatron_more/qwen2-tied-pp2-legacy", "legacy:pp=2"},
        {"megatron_more/qwen2moe-tp2-ep2-legacy", "legacy:tp=2,ep=2,etp=1"},
        {"megatron_more/qwen3moe-tp2-ep2-etp1-grouped-legacy", "legacy:tp=2,ep=2,etp=1"},
        {"megatron_more/value-qwen3-tp2-legacy", "legacy:tp=2"},
    };
    return all;
}

/// Towers of other modules pass as they are stored, without a line.
bool passes(const std::string& entry) {
    static const std::vector<std::string> beginnings = {
        "visual.",       "vision_",       "audio_",           "multi_modal",
        "embed_vision.", "mm_projector.", "patch_merge_mlp.", "resampler_model."};
    return std::ranges::any_of(beginnings, [&](const std::string& beginning) {
        return entry.find(" " + beginning) != std::string::npos;
    });
}

TEST(LegacyPieces, are_those_of_real_files) {
    for (const Case& one : cases()) {
        SCOPED_TRACE(one.name);
        const RankFiles real(one.name);
        const Listing stored = real.stored();
        const Listing written = real.written(one.to);
        EXPECT_GT(written.size(), 5U);
        for (const std::string& entry : written) {
            EXPECT_TRUE(stored.contains(entry)) << "more: " << entry;
        }
        for (const std::string& entry : stored) {
            EXPECT_TRUE(written.contains(entry) || passes(entry)) << "not written: " << entry;
        }
    }
}

TEST(LegacyPieces, exist_for_the_pairs_of_ranks_that_there_are) {
    const auto pairs = [](const std::string& to) {
        return joined(
            rank_pairs(parse_destination("legacy:" + to).sizes), " ",
            [](const RankPair& p) { return std::to_string(p.tp) + "." + std::to_string(p.ep); });
    };
    EXPECT_EQ(pairs("tp=2"), "0.0 1.0");
    EXPECT_EQ(pairs("tp=2,ep=2,etp=1"), "0.0 1.1");
    EXPECT_EQ(pairs("tp=2,ep=2"), "0.0 1.0 0.1 1.1");
    EXPECT_EQ(pairs("tp=1,ep=3"), "0.0 0.1 0.2");
    EXPECT_EQ(pairs("tp=2,ep=4,etp=1"), "0.0 1.1 0.2 1.3");
    EXPECT_EQ(pairs("tp=4,ep=2,etp=1"), "0.0 2.0 1.1 3.1");
}

std::string model_refusal(const std::string& config, const std::string& to) {
    const auto parsed = models::Config::parse(config, "config.json");
    const models::Recipe& recipe = models::recipe_for(library(), parsed);
    const Destination destination = parse_destination(to);
    const models::Symbols symbols(recipe, *library().find_dialect("megatron_core"), parsed,
                                  facts_of(destination), {});
    try {
        (void)arrangement_of(destination, symbols);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::mismatch);
        return error.what();
    }
    return "no error";
}

TEST(LegacyPieces, need_a_model_that_can_be_spread) {
    const std::string llama = R"({"model_type": "llama", "num_attention_heads": 12,
        "num_key_value_heads": 6, "num_hidden_layers": 4})";
    EXPECT_EQ(model_refusal(llama, "legacy:tp=12,pp=4"), "no error");
    EXPECT_EQ(model_refusal(llama, "legacy:tp=8"),
              "config.json has num_attention_heads 12, which tp=8 does not divide");
    EXPECT_EQ(model_refusal(llama, "legacy:tp=4"),
              "config.json has num_key_value_heads 6, of which tp=4 "
              "is neither a divisor nor a multiple");
    EXPECT_EQ(model_refusal(llama, "legacy:pp=3"),
              "config.json has num_hidden_layers 4, which cannot be "
              "spread evenly over pp=3");
    EXPECT_EQ(model_refusal(llama, "legacy:ep=2"),
              "config.json has no experts, which ep=2 would spread");
    EXPECT_EQ(model_refusal(R"({"model_type": "mixtral", "num_attention_heads": 8,
        "num_local_experts": 6, "num_hidden_layers": 4})",
                            "legacy:ep=4"),
              "config.json has num_local_experts 6, which ep=4 does not divide");
}

}  // namespace
}  // namespace shardweld::reshape
