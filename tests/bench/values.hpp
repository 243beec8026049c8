// The values of synthetic tensors: pseudo-random finite numbers, each computable alone.
// Knows nothing of how tensors are cut or stored.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/index.hpp"

namespace shardweld::bench {

/// What the elements hold.
struct Values {
    DType dtype = DType::bf16;  ///< bf16 or f32
    std::uint64_t seed = 0;
    bool is_sparse = false;  ///< all zeros, left as holes of the files
    bool is_master = false;  ///< f32 that round to what bf16 ones are
    bool is_square = false;  ///< f32 that are not below zero
};

/// Writes elements first, first + 1, ... of the hub tensor `name` (row-major order of the whole
/// tensor) to `out`. Requires a size of whole elements.
void fill(const Values& values, std::string_view name, std::uint64_t first,
          std::span<std::byte> out);

/// A rectangle of a hub tensor.
struct Band {
    std::string tensor;
    Index n_columns_of_tensor = 0;
    Index row = 0;
    Index n_rows = 0;
    Index column = 0;
    Index n_columns = 0;

    [[nodiscard]] Index volume() const { return n_rows * n_columns; }
};

/// The elements of bands, one band after the other, row by row.
class BandStream {
  public:
    /// `bands` must outlive the stream.
    BandStream(std::span<const Band> bands, const Values& values)
        : bands_(bands), values_(values) {}
    /// The next bytes; requires that so many are left, in whole elements.
    void read(std::span<std::byte> out);

  private:
    std::span<const Band> bands_;
    Values values_;
    std::size_t band_ = 0;
    Index done_ = 0;  ///< elements of the current band
};

}  // namespace shardweld::bench
