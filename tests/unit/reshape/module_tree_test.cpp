// Rows over ranks, as torch and verl spread those of the real checkpoints.
#include "reshape/module_tree.hpp"

#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/format.hpp"
#include "models/config.hpp"
#include "models/symbols.hpp"
#include "plan/bind/store_match.hpp"
#include "reshape/arrange.hpp"
#include "shardweld/error.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::reshape {
namespace {

namespace fs = std::filesystem;

/// "model_world_size_2_rank_0.pt lm_head.weight [0, 0] [50, 48]".
std::string box_text(const std::string& file, const std::string& name, const layout::Box& box) {
    std::vector<Index> offsets;
    std::vector<Index> shape;
    for (const layout::Range& range : box) {
        offsets.push_back(range.lo);
        shape.push_back(range.extent);
    }
    return file + " " + name + " " + shape_text(offsets) + " " + shape_text(shape);
}

/// A real checkpoint's pieces, and those that we would write.
class TreeFiles {
  public:
    explicit TreeFiles(const std::string& name, const std::string& config)
        : library_(models::RecipeLibrary::load()),
          config_(models::Config::parse(test::content_of(root(name) / config), "config.json")),
          recipe_(models::recipe_for(library_, config_)),
          dialect_(models::own_names(recipe_, *library_.find_dialect("hf_module"))) {
        formats::JobInput request;
        request.directory = root(name) / "source";
        catalogue_ = formats::read_catalogue(formats::locate(request));
    }

    /// Without those of no elements, which a catalogue has not.
    [[nodiscard]] std::set<std::string> stored() const {
        std::set<std::string> all;
        for (const catalogue::Tensor& tensor : catalogue_.tensors) {
            for (const catalogue::Piece& piece : tensor.pieces) {
                layout::Box box;
                for (const auto& axis : piece.patch.axes) {
                    box.push_back({axis.lo, axis.extent});
                }
                all.insert(box_text(catalogue_.files[piece.file].path, tensor.name, box));
            }
        }
        return all;
    }

    [[nodiscard]] std::set<std::string> written(const std::string& to) const {
        const Destination destination = parse_destination(to);
        const models::Symbols symbols(recipe_, dialect_, config_, facts_of(destination), {});
        const plan::StoreMatcher matcher(dialect_, recipe_, symbols);
        const Arrangement arrangement = arrangement_of(destination, symbols);
        std::set<std::string> all;
        for (const catalogue::Tensor& tensor : catalogue_.tensors) {
            const auto match = matcher.find(tensor.name, tensor.shape);
            if (!match) {
                continue;
            }
            Index counted = 0;
            for (const auto& piece :
                 arrangement.pieces(*match->line, match->captures, tensor.shape)) {
                const Index elements = volume(piece.box);
                counted += piece.is_copy ? 0 : elements;
                if (elements > 0) {
                    all.insert(box_text(piece.file, piece.path.back(), piece.box));
                }
            }
            EXPECT_EQ(counted, volume_of(tensor.shape, "tensor")) << tensor.name;
        }
        return all;
    }

  private:
    static fs::path root(const std::string& name) {
        return fs::path(SHARDWELD_TEST_DATA) / "torch" / name;
    }
    static Index volume(const layout::Box& box) {
        Index elements = 1;
        for (const layout::Range& range : box) {
            elements *= range.extent;
        }
        return elements;
    }

    models::RecipeLibrary library_;
    models::Config config_;
    const models::Recipe& recipe_;
    models::Dialect dialect_;
    catalogue::Catalogue catalogue_;
};

void expect_as_stored(const std::string& name, const std::string& config, const std::string& to) {
    SCOPED_TRACE(name);
    const TreeFiles real(name, config);
    EXPECT_GT(real.stored().size(), 10U);
    EXPECT_EQ(real.written(to), real.stored());
}

TEST(ModuleTree, spreads_rows_as_verl_does) {
    const std::string config = "source/huggingface/config.json";
    expect_as_stored("fsdp2_w4_bf16_qwen2_tied", config, "fsdp:world=4");
    expect_as_stored("fsdp2_w12_bf16_qwen2", config, "fsdp:world=12");
    expect_as_stored("fsdp2_w2_mixed_deepseek", config, "fsdp:world=2");
    expect_as_stored("hsdp2_w4_bf16_llama", config, "fsdp:world=4,ddp=2");
}

TEST(ModuleTree, spreads_rows_as_torch_does) {
    expect_as_stored("dcp_w2_bf16_qwen2", "hf/config.json", "dcp:world=2");
}

TEST(ModuleTree, gives_later_ranks_fewer_rows) {
    const auto rows = [](Index n, Index world) {
        std::string text;
        for (Index rank = 0; rank < world; ++rank) {
            const layout::Range range = rows_of_rank(n, rank, world);
            text += std::to_string(range.lo) + "+" + std::to_string(range.extent) + " ";
        }
        return text;
    };
    EXPECT_EQ(rows(9, 4), "0+3 3+3 6+3 9+0 ");
    EXPECT_EQ(rows(4, 3), "0+2 2+2 4+0 ");
    EXPECT_EQ(rows(1, 2), "0+1 1+0 ");
    EXPECT_EQ(rows(8, 2), "0+4 4+4 ");
}

/// What a destination says of itself and its few pieces.
struct Small {
    std::vector<plan::TensorPiece> pieces;
    outputs::TrainingSave save;
};

Small small(const std::string& to, const std::vector<Index>& shape,
            const std::string& logical = "norm") {
    const auto library = models::RecipeLibrary::load();
    const auto config = models::Config::parse(R"({"model_type": "llama"})", "config.json");
    const models::Recipe& recipe = models::recipe_for(library, config);
    const models::Dialect dialect = models::own_names(recipe, *library.find_dialect("hf_module"));
    const Destination destination = parse_destination(to);
    const Arrangement arrangement = arrangement_of(
        destination, models::Symbols(recipe, dialect, config, facts_of(destination), {}));
    models::Line line;
    line.name = models::Pattern::parse("x.weight");
    line.logical = logical;
    Small made;
    made.pieces = arrangement.pieces(line, {}, shape);
    PlacedTensor placed{shape, {}};
    for (const plan::TensorPiece& piece : made.pieces) {
        placed.pieces.push_back(placed_piece(piece, arrangement.keeps_boxes));
        placed.pieces.back().target = static_cast<std::uint32_t>(placed.pieces.size() - 1);
    }
    made.save = arrangement.save({placed}, nullptr);
    return made;
}

TEST(ModuleTree, has_an_entry_on_every_rank) {
    const Small few = small("fsdp:world=4,ddp=2", {1, 5});
    ASSERT_EQ(few.pieces.size(), 4U);
    EXPECT_EQ(few.pieces[1].box[0].extent, 0);
    EXPECT_FALSE(few.pieces[1].is_copy);
    EXPECT_TRUE(few.pieces[2].is_copy);
    EXPECT_EQ(few.save.mesh.front().names, (std::vector<std::string>{"ddp", "fsdp"}));
    EXPECT_EQ(few.save.mesh.front().shape, (std::vector<Index>{2, 2}));
    EXPECT_EQ(few.save.mesh.front().device_type, "cuda");
    EXPECT_FALSE(few.save.mesh.front().is_of_ranks);
    EXPECT_EQ(few.save.side_files.front().name, "fsdp_config.json");
    EXPECT_EQ(few.save.side_files.front().text,
              "{\n    \"FSDP_version\": 2,\n    \"world_size\": 4\n}");
    EXPECT_EQ(few.save.tensors.size(), 4U);
}

TEST(ModuleTree, has_the_mesh_of_the_loader) {
    const Small older = small("fsdp:world=2,device=cpu,torch=2.8", {5});
    EXPECT_EQ(older.save.mesh.front().device_type, "cpu");
    EXPECT_TRUE(older.save.mesh.front().is_of_ranks);
}

TEST(ModuleTree, keeps_buffers_whole) {
    const Small buffer = small("fsdp:world=3", {6}, "layer.{l}.router_fix");
    ASSERT_EQ(buffer.pieces.size(), 3U);
    EXPECT_TRUE(buffer.pieces[2].is_plain && buffer.pieces[2].is_copy);
    EXPECT_EQ(buffer.pieces[2].box[0].extent, 6);
    EXPECT_TRUE(buffer.save.tensors.front().is_plain);
    EXPECT_EQ(small("dcp:world=3", {6}, "layer.{l}.router_fix").pieces.size(), 1U);
}

TEST(ModuleTree, leaves_ranks_without_rows_out_of_dcp) {
    const Small few = small("dcp:world=3", {4, 2});
    ASSERT_EQ(few.pieces.size(), 2U);
    EXPECT_EQ(few.pieces[1].file, "__1_0.distcp");
    EXPECT_EQ(few.pieces[1].path, (std::vector<SharedText>{"model", "x.weight"}));
    EXPECT_TRUE(few.save.is_dcp);
}

}  // namespace
}  // namespace shardweld::reshape
