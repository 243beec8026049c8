// `alias` rules: stacks of some layers, taken apart, against an enumeration of all elements.
#include "plan/bind/store_match.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "models/config.hpp"
#include "shardweld/error.hpp"

namespace shardweld::plan {
namespace {

using catalogue::Catalogue;
using catalogue::Piece;
using catalogue::Tensor;

constexpr const char* kKindsDialect = R"(dialect kinds
format 1
alias {|in.}layers.{l}.odd.  = {|in.}layers.{l}.part. stacked l if kind = 1
alias {|in.}layers.{l}.even. = {|in.}layers.{l}.part. stacked l if kind = 0
store layers.{l}.part.w = layer.{l}.w  x y
)";
constexpr const char* kKindsRecipe = R"(recipe kinds_model
format 1
uses kinds
match @model_type = "kinds"
let x = 3
let y = 2
index l = @layers
let kind = @kinds[l]
hub m.{l}.w = layer.{l}.w  x y
)";

/// Where each element is stored: (file, address) by its indices.
using Elements = std::map<std::vector<Index>, std::pair<std::uint32_t, Index>>;

void enumerate(const layout::Patch& patch,
               const std::function<void(const std::vector<Index>&, Index)>& each,
               std::vector<Index> at = {}, Index address = 0) {
    if (at.size() == patch.axes.size()) {
        each(at, patch.offset + address);
        return;
    }
    const layout::Axis& axis = patch.axes[at.size()];
    at.push_back(0);
    for (Index i = 0; i < axis.extent; ++i) {
        at.back() = axis.lo + i;
        enumerate(patch, each, at, address + i * axis.stride);
    }
}

Elements elements_of(const Tensor& tensor) {
    Elements all;
    for (const Piece& piece : tensor.pieces) {
        enumerate(piece.patch, [&](const std::vector<Index>& at, Index address) {
            EXPECT_TRUE(all.emplace(at, std::pair(piece.file, address)).second);
        });
    }
    return all;
}

class Aliases : public testing::Test {
  protected:
    Aliases()
        : library_(models::RecipeLibrary::load(
              {{"kinds.dialect", kKindsDialect}, {"kinds_model.recipe", kKindsRecipe}})) {}

    Catalogue read(Catalogue catalogue, const std::vector<int>& kinds) {
        const models::Recipe& recipe = *library_.find_recipe("kinds_model");
        const models::Dialect& dialect = *library_.find_dialect("kinds");
        std::string list;
        for (const int kind : kinds) {
            list += (list.empty() ? "" : ", ") + std::to_string(kind);
        }
        const models::Symbols symbols(
            recipe, dialect,
            models::Config::parse(R"({"model_type": "kinds", "layers": )" +
                                      std::to_string(kinds.size()) + R"(, "kinds": [)" + list +
                                      "]}",
                                  "config.json"),
            {}, {});
        apply_aliases(catalogue, {&recipe, &dialect, &symbols});
        return catalogue;
    }

    Index pick(Index least, Index most) {
        return std::uniform_int_distribution<Index>(least, most)(random_);
    }

    /// A stack of n layers, cut along all axes, each piece with strides of its own.
    Tensor stack(const std::string& name, Index n) {
        Tensor tensor{name, DType::f32, {n, 3, 2}, {}};
        const Index layers = pick(1, n);
        const Index rows = pick(1, 3);
        for (Index l = 0; l < n; l += layers) {
            for (Index x = 0; x < 3; x += rows) {
                Piece piece;
                piece.file = static_cast<std::uint32_t>(tensor.pieces.size());
                piece.patch.offset = pick(0, 9);
                piece.patch.axes.push_back({l, std::min(layers, n - l), pick(50, 60)});
                piece.patch.axes.push_back({x, std::min(rows, 3 - x), pick(10, 12)});
                piece.patch.axes.push_back({0, 2, pick(1, 4)});
                tensor.pieces.push_back(piece);
            }
        }
        return tensor;
    }

    void expect_mismatch(Catalogue catalogue, const std::vector<int>& kinds,
                         const std::string& part) {
        try {
            (void)read(std::move(catalogue), kinds);
            ADD_FAILURE() << "not refused; expected: " << part;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::mismatch);
            EXPECT_NE(error.full_text().find(part), std::string::npos) << error.full_text();
        }
    }

    models::RecipeLibrary library_;
    std::mt19937 random_{7};
};

TEST_F(Aliases, slice_i_of_a_stack_is_the_ith_layer_of_its_kind) {
    for (int turn = 0; turn < 300; ++turn) {
        std::vector<int> kinds(static_cast<std::size_t>(pick(1, 6)));
        std::ranges::generate(kinds, [&] { return static_cast<int>(pick(0, 1)); });
        std::map<std::string, Elements> wanted;
        Catalogue catalogue;
        for (const int kind : {0, 1}) {
            const Index n = std::ranges::count(kinds, kind);
            if (n == 0) {
                continue;
            }
            catalogue.tensors.push_back(stack(kind == 1 ? "layers.odd.w" : "in.layers.even.w", n));
            const Elements all = elements_of(catalogue.tensors.back());
            for (std::size_t l = 0, i = 0; l < kinds.size(); ++l) {
                if (kinds[l] != kind) {
                    continue;
                }
                const std::string name =
                    (kind == 1 ? "layers." : "in.layers.") + std::to_string(l) + ".part.w";
                for (const auto& [at, place] : all) {
                    if (at[0] == static_cast<Index>(i)) {
                        wanted[name].emplace(std::vector<Index>{at[1], at[2]}, place);
                    }
                }
                ++i;
            }
        }
        const Catalogue got = read(std::move(catalogue), kinds);
        ASSERT_EQ(got.tensors.size(), wanted.size());
        for (const Tensor& tensor : got.tensors) {
            EXPECT_EQ(tensor.shape, (std::vector<Index>{3, 2}));
            EXPECT_EQ(elements_of(tensor), wanted.at(tensor.name)) << tensor.name;
        }
    }
}

TEST_F(Aliases, names_with_a_number_hold_one_layer_of_the_kind) {
    Catalogue catalogue;
    catalogue.tensors = {{"in.layers.1.odd.w", DType::f32, {3, 2}, {}},
                         {"layers.0.even.w", DType::f32, {3, 2}, {}},
                         {"layers.2.even.w", DType::f32, {3, 2}, {}},
                         {"", DType::f32, {1}, {}}};
    const Catalogue got = read(catalogue, {0, 1, 1});
    std::vector<std::string> names;
    for (const Tensor& tensor : got.tensors) {
        names.push_back(tensor.name);
    }
    // Layer 2 is of the other kind: its name stays one that no line knows.
    EXPECT_EQ(names, (std::vector<std::string>{"", "in.layers.1.part.w", "layers.0.part.w",
                                               "layers.2.even.w"}));
    EXPECT_EQ(got.tensors[1].stored_as, "in.layers.1.odd.w");
}

TEST_F(Aliases, a_stack_of_other_layers_is_refused) {
    Catalogue catalogue;
    catalogue.tensors = {{"layers.odd.w", DType::f32, {2, 3, 2}, {}}};
    expect_mismatch(catalogue, {1, 0, 1, 1}, "config.json describes 3");
    catalogue.tensors[0].shape = {};
    expect_mismatch(catalogue, {1}, "is a stack");
    catalogue.tensors = {{"layers.odd.w", DType::f32, {1, 3, 2}, {}},
                         {"layers.0.part.w", DType::f32, {3, 2}, {}}};
    expect_mismatch(catalogue, {1}, "layers.0.part.w is stored twice");
    EXPECT_EQ(read(catalogue, {0}).tensors.size(), 2U);  // no layer of the kind: no stack
}

TEST_F(Aliases, a_config_of_countless_layers_is_refused) {
    const models::Recipe& recipe = *library_.find_recipe("kinds_model");
    const models::Dialect& dialect = *library_.find_dialect("kinds");
    const models::Symbols symbols(
        recipe, dialect,
        models::Config::parse(R"({"model_type": "kinds", "layers": 900000000000, "kinds": [1]})",
                              "config.json"),
        {}, {});
    Catalogue catalogue;
    catalogue.tensors = {{"layers.odd.w", DType::f32, {2, 3, 2}, {}}};
    EXPECT_THROW(apply_aliases(catalogue, {&recipe, &dialect, &symbols}), Error);
}

}  // namespace
}  // namespace shardweld::plan
