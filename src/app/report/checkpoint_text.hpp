// How a checkpoint is shown: its tensors as a tree by the components of their names, rows that
// differ only in numbers folded; the parts of the model that they belong to; the grid of the ranks
// that saved it, drawn in characters.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "catalogue/tensor.hpp"
#include "core/dtype.hpp"
#include "core/index.hpp"
#include "formats/rank_grid.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

/// The stored tensors of one name, joined or not.
struct StoredRow {
    std::string name;
    DType dtype = DType::f32;
    std::vector<Index> shape;  ///< of the whole tensor, or of one shard when is_local
    bool is_local = false;     ///< shards are joined later, by the dialect
    std::size_t n_shards = 0;  ///< pieces that are no replicas
    std::size_t n_replicas = 0;
    Bytes bytes = 0;  ///< of all shards without replicas
    Bytes replica_bytes = 0;
    std::vector<catalogue::Coordinates> ranks;  ///< of local shards
};

/// Natural order of names. Shards of one name, dtype and shape make a row.
std::vector<StoredRow> stored_rows(const catalogue::Catalogue& catalogue);

/// Rows of stored tensors that are alike but for numbers in their names.
struct FoldedRow {
    std::vector<std::string> path;            ///< components of the name; a folded one is "{0..7}"
    std::vector<std::vector<Index>> numbers;  ///< in each component; empty: it has none
    std::size_t first = 0;                    ///< row
    std::size_t n_tensors = 1;
    StoredRow sum;  ///< dtype and shape of each; counts and bytes of all; the first one's name
};

/// Every row stands in exactly one folded row, and a folded row names exactly its rows: all
/// combinations of the numbers in its braces. In the order of their first rows. Empty where that
/// leaves more rows than anybody reads.
std::vector<FoldedRow> folded(const std::vector<StoredRow>& rows);

/// "0-7", "1,3,5", "0-2,8": ascending numbers.
std::string ranges_text(const std::vector<Index>& numbers);

/// A line for each folded row and each part of the names that several share, with what lies below
/// it; "" where there are too many.
std::string tensor_tree(const std::vector<StoredRow>& rows);

/// By file of a catalogue: whether it holds nothing but replicas.
std::vector<bool> copies_only(const catalogue::Catalogue& catalogue);

/// A line for each row of ranks, with a heading and the signs' meanings; "" for no grid and for one
/// rank. `is_copy` as copies_only, or empty.
std::string grid_text(const formats::RankGrid& grid, const std::vector<bool>& is_copy);

/// Leaves of a checkpoint's facts, a map or a JSON object, those that people read: t and te are tp
/// and etp as recipes compute with them.
template <typename Facts>
void leave_shown(Facts& facts) {
    facts.erase("t");
    facts.erase("te");
}

/// "attention", "experts", "norms", ...: what a tensor of this name belongs to; "other" where its
/// name does not tell.
std::string_view part_of(std::string_view tensor);

struct PartRow {
    std::string name;
    std::size_t n_tensors = 0;
    Index elements = 0;
    Bytes bytes = 0;
};

/// How much each part and each dtype has.
class ModelParts {
  public:
    void add(std::string_view tensor, std::size_t n_tensors, DType dtype, Bytes bytes);
    /// The largest first.
    [[nodiscard]] std::vector<PartRow> parts() const;
    [[nodiscard]] std::vector<PartRow> dtypes() const;
    [[nodiscard]] PartRow all() const;

  private:
    std::vector<PartRow> parts_;
    std::vector<PartRow> dtypes_;
};

}  // namespace shardweld::app
