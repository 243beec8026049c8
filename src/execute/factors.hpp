// Low-rank updates applied to parts of targets, with factors read as they are needed.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "core/path.hpp"
#include "io/input_file.hpp"
#include "plan/binding.hpp"

namespace shardweld::plan {
struct Plan;
}  // namespace shardweld::plan

namespace shardweld::execute {

/// A block of a weight as a matrix, updated, in fp32.
struct MatrixBlock {
    Index row = 0;
    Index col = 0;
    Index n_rows = 0;
    Index n_cols = 0;
    std::span<float> values;  ///< row-major, dense
    Index at = 0;             ///< where its first element stands among those that were given
    Index row_stride = 0;     ///< there
    Index col_stride = 1;
};

/// Works inside Limits::fold bytes. What it gives for an element does not depend on how a target is
/// cut into slices and blocks.
class Factors {
  public:
    /// `file` is opened when the first factor is needed.
    Factors(const plan::Plan& plan, fs::path file);

    /// W + scale * left * right for elements [begin, end) of a target whose stored bytes are
    /// `stored`; every element once, each row's and each column's in ascending order.
    /// Error(unsupported) when not even one row of factors fits the memory.
    void update(std::uint32_t target, Index begin, Index end, ByteView stored,
                const std::function<void(const MatrixBlock&)>& visit);

    /// Folds as above, normalised where the fold asks for it and rounded to the written type. Where
    /// a target is folded in parts, its other elements are cast.
    void fold(std::uint32_t target, Index begin, Index end, ByteView stored, ByteSpan out);

    /// Reads `out.size()` fp32 values at a file offset.
    void read(Bytes offset, std::span<float> out);
    /// Reads bytes as they are stored.
    void read(Bytes offset, ByteSpan out);

    [[nodiscard]] Bytes buffer_bytes() const {
        return (right_.size() + left_.size() + values_.size() + staging_.size() + gains_.size()) *
               sizeof(float);
    }

  private:
    /// Sizes of the parts of the memory for one target, in elements.
    struct Sizes {
        Index width = 0;   ///< columns at a time
        Index height = 0;  ///< rows at a time
    };
    using Visit = std::function<void(const MatrixBlock&)>;
    /// Which part of a right factor is loaded.
    struct Loaded {
        const plan::Fold* fold = nullptr;
        Index batch = 0;
        Index col = -1;
        Index width = 0;
        friend bool operator==(const Loaded&, const Loaded&) = default;
    };

    [[nodiscard]] Sizes sizes_for(const plan::Fold& fold, const std::string& name) const;
    /// `fold`: of the whole target, or of one of the weights that it has parts of.
    void update(const plan::Target& target, const plan::Fold& fold, const layout::Patch& patch,
                ByteView stored, const Visit& visit);
    [[nodiscard]] ByteSpan staged(Index n, Bytes size);
    void take_values(DType stored_as, ByteView stored, const MatrixBlock& block);
    void fold_part(const plan::Target& target, const plan::FoldedPart& part, layout::Range slice,
                   ByteView stored, ByteSpan out);
    void write_block(const MatrixBlock& block, const plan::Fold& fold, DType rounded, DType written,
                     ByteSpan out);
    void load(const plan::Matrix& matrix, layout::Range rows, layout::Range cols,
              std::span<float> out);
    void load_thinned(const plan::Matrix& matrix, layout::Range rows, layout::Range cols,
                      std::span<float> out);
    /// `width`: columns at a time.
    void load_right(const plan::Fold& fold, Index batch, Index col, Index width);
    /// `row`: of all matrices.
    void load_left(const plan::Fold& fold, Index row, Index n_rows);
    void add_update(const plan::Fold& fold, const MatrixBlock& block, Index line);
    void take_rows(const plan::Fold& fold, const MatrixBlock& block);
    void apply_gains(const plan::Fold& fold, const MatrixBlock& block);

    const plan::Plan& plan_;
    fs::path path_;
    io::InputFile file_;
    Index budget_ = 0;  ///< elements in all
    std::vector<float> right_;
    std::vector<float> left_;
    std::vector<float> values_;
    std::vector<float> staging_;
    std::vector<float> gains_;
    Loaded loaded_;
};

}  // namespace shardweld::execute
