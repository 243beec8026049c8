#include "factors.hpp"

#include <algorithm>
#include <array>

#include "io/input_file.hpp"
#include "layout/copy.hpp"
#include "layout/patch.hpp"
#include "layout/unfold.hpp"
#include "numeric/convert.hpp"
#include "numeric/low_rank.hpp"
#include "plan/plan.hpp"
#include "shardweld/error.hpp"

namespace shardweld::execute {

namespace {

/// Elements that are updated at once: what they pass through stays in the cache beside the core.
constexpr Index kUpdatedElements = 1 << 15;
/// So many at least, however wide: what is taken of several rows takes them together.
constexpr Index kUpdatedRows = 4;

std::span<float> at_least(std::vector<float>& buffer, Index size) {
    const auto n = static_cast<std::size_t>(size);
    if (buffer.size() < n) {
        // The old memory goes first, and no more is taken than asked for.
        std::vector<float>().swap(buffer);
        buffer = std::vector<float>(n);
    }
    return std::span(buffer).first(n);
}

std::size_t count(Index value) {
    return static_cast<std::size_t>(value);
}

/// All of its matrices, one behind the other.
std::array<Index, 2> shape_of(const plan::Fold& fold) {
    return {fold.n_batches * fold.n_rows, fold.n_cols};
}

plan::Matrix of_batch(plan::Matrix matrix, Index batch) {
    matrix.offset += sizeof(float) * static_cast<Bytes>(batch * matrix.batch_stride);
    return matrix;
}

}  // namespace

Factors::Factors(const plan::Plan& plan, fs::path file)
    : plan_(plan),
      path_(std::move(file)),
      budget_(static_cast<Index>(plan.limits.fold / sizeof(float))) {}

void Factors::read(Bytes offset, std::span<float> out) {
    read(offset, std::as_writable_bytes(out));
}

void Factors::read(Bytes offset, ByteSpan out) {
    if (!file_.is_open()) {
        file_ = io::InputFile::open(path_);
    }
    file_.read_at(offset, out);
}

/// An eighth of the memory each for staging and gains, three for the right factor and three for
/// rows of the left one and their values.
Factors::Sizes Factors::sizes_for(const plan::Fold& fold, const std::string& name) const {
    const Index eighth = budget_ / 8;
    const Index rank = std::max<Index>(fold.rank, 1);
    Sizes sizes;
    sizes.width = std::min({fold.n_cols, eighth, 3 * eighth / rank, 3 * eighth - rank});
    if (sizes.width < 1) {
        throw Error(ErrorCode::unsupported,
                    "the adapter's rank " + std::to_string(fold.rank) + " for " + name +
                        " needs more memory than --memory_limit leaves",
                    "raise --memory_limit");
    }
    sizes.height = std::max<Index>(1, std::min(eighth, 3 * eighth / (rank + sizes.width)));
    return sizes;
}

/// A part of a matrix, dense and row-major.
void Factors::load(const plan::Matrix& matrix, layout::Range rows, layout::Range cols,
                   std::span<float> out) {
    const auto offset_of = [&](Index i, Index k) {
        return matrix.offset +
               sizeof(float) * static_cast<Bytes>(i * matrix.row_stride + k * matrix.col_stride);
    };
    if (matrix.col_stride == 1) {
        const bool is_whole = cols.extent == matrix.row_stride;
        const Index n_runs = is_whole ? 1 : rows.extent;
        const std::size_t run = out.size() / count(std::max<Index>(n_runs, 1));
        for (Index i = 0; i < n_runs; ++i) {
            read(offset_of(rows.lo + i, cols.lo), out.subspan(count(i) * run, run));
        }
        return;
    }
    if (matrix.row_stride != 1) {
        load_thinned(matrix, rows, cols, out);
        return;
    }
    // Stored by columns: lines of a column's elements are read and turned.
    const Index most = std::max<Index>(budget_ / 8, 1);
    const Index length = std::min(rows.extent, most);
    const Index n_lines =
        rows.extent == matrix.col_stride
            ? std::clamp<Index>(most / std::max<Index>(rows.extent, 1), 1, cols.extent)
            : 1;
    for (Index k = 0; k < cols.extent; k += n_lines) {
        const Index lines = std::min(n_lines, cols.extent - k);
        for (Index i = 0; i < rows.extent; i += length) {
            const Index part = std::min(length, rows.extent - i);
            const std::span<float> staged = at_least(staging_, part * lines);
            read(offset_of(rows.lo + i, cols.lo + k), staged);
            layout::run({0, i * cols.extent + k, {{part, 1, cols.extent}, {lines, part, 1}}},
                        sizeof(float), std::as_bytes(staged), std::as_writable_bytes(out));
        }
    }
}

/// Neither rows nor columns are dense: what lies between two elements is read, too.
void Factors::load_thinned(const plan::Matrix& matrix, layout::Range rows, layout::Range cols,
                           std::span<float> out) {
    const bool by_row = matrix.col_stride < matrix.row_stride;
    const Index step = by_row ? matrix.col_stride : matrix.row_stride;
    const Index n_lines = by_row ? rows.extent : cols.extent;
    const Index length = by_row ? cols.extent : rows.extent;
    const Index most = std::max<Index>(budget_ / 8 / step, 1);
    for (Index line = 0; line < n_lines; ++line) {
        for (Index begin = 0; begin < length; begin += most) {
            const Index part = std::min(most, length - begin);
            const Index i = rows.lo + (by_row ? line : begin);
            const Index k = cols.lo + (by_row ? begin : line);
            const std::span<float> staged = at_least(staging_, (part - 1) * step + 1);
            read(matrix.offset + sizeof(float) * static_cast<Bytes>(i * matrix.row_stride +
                                                                    k * matrix.col_stride),
                 staged.first(count((part - 1) * step + 1)));
            for (Index j = 0; j < part; ++j) {
                const Index at =
                    by_row ? line * cols.extent + begin + j : (begin + j) * cols.extent + line;
                out[count(at)] = staged[count(j * step)];
            }
        }
    }
}

/// All columns of the part that `col` lies in: parts of rows, of which slices are made, share it.
void Factors::load_right(const plan::Fold& fold, Index batch, Index col, Index width) {
    const Index first = col / width * width;
    const Loaded wanted{&fold, batch, first, std::min(width, fold.n_cols - first)};
    if (loaded_ == wanted) {
        return;
    }
    load(of_batch(fold.right, batch), {0, fold.rank}, {first, wanted.width},
         at_least(right_, fold.rank * wanted.width));
    loaded_ = wanted;
}

void Factors::load_left(const plan::Fold& fold, Index row, Index n_rows) {
    const std::span<float> left = at_least(left_, n_rows * fold.rank);
    if (fold.left) {
        load(of_batch(*fold.left, row / fold.n_rows), {row % fold.n_rows, n_rows}, {0, fold.rank},
             left);
    } else {
        std::ranges::fill(left, 1.0F);
    }
}

void Factors::update(std::uint32_t target, Index begin, Index end, ByteView stored,
                     const Visit& visit) {
    const plan::Target& whole = plan_.targets[target];
    const std::array<Index, 2> shape = shape_of(*whole.fold);
    for (const layout::RangeBox& part : layout::boxes_of_range(begin, end, shape)) {
        update(whole, *whole.fold, layout::dense(part.box, part.begin - begin), stored, visit);
    }
}

/// `patch`: rows and columns of the weight, and where they stand in `stored`.
void Factors::update(const plan::Target& target, const plan::Fold& fold, const layout::Patch& patch,
                     ByteView stored, const Visit& visit) {
    const Sizes sizes = sizes_for(fold, target.name);
    const layout::Axis& rows = patch.axes[0];
    const layout::Axis& cols = patch.axes[1];
    Index n_cols = 0;
    for (Index c = 0; c < cols.extent; c += n_cols) {
        const Index col = cols.lo + c;
        n_cols = std::min(sizes.width - col % sizes.width, cols.extent - c);
        Index n_rows = 0;
        for (Index r = 0; r < rows.extent; r += n_rows) {
            const Index row = rows.lo + r;
            n_rows = std::min({sizes.height, rows.extent - r, fold.n_rows - row % fold.n_rows});
            load_right(fold, row / fold.n_rows, col, sizes.width);
            load_left(fold, row, n_rows);
            const Index at = patch.offset + r * rows.stride + c * cols.stride;
            const Index lines = std::min(std::max(kUpdatedElements / n_cols, kUpdatedRows), n_rows);
            for (Index i = 0; i < n_rows; i += lines) {
                const Index n = std::min(lines, n_rows - i);
                const MatrixBlock block{row + i,
                                        col,
                                        n,
                                        n_cols,
                                        at_least(values_, n * n_cols),
                                        at + i * rows.stride,
                                        rows.stride,
                                        cols.stride};
                take_values(target.stored, stored, block);
                add_update(fold, block, i);
                visit(block);
            }
        }
    }
}

/// `line`: the block's first one among the rows of the left factor that are loaded.
void Factors::add_update(const plan::Fold& fold, const MatrixBlock& block, Index line) {
    if (fold.rank == 0) {
        return;  // a sum with nothing would make 0 of -0
    }
    numeric::add_low_rank({block.values.data(), left_.data() + line * fold.rank,
                           right_.data() + (block.col - loaded_.col), count(block.n_rows),
                           count(block.n_cols), count(fold.rank), count(loaded_.width),
                           static_cast<float>(fold.scale)});
}

/// A block's elements as they are stored, in fp32.
void Factors::take_values(DType stored_as, ByteView stored, const MatrixBlock& block) {
    const Bytes size = size_of(stored_as);
    for (Index i = 0; i < block.n_rows; ++i) {
        const Index at = block.at + i * block.row_stride;
        auto row = stored.subspan(static_cast<Bytes>(at) * size);
        if (block.col_stride != 1) {
            const auto dense = staged(block.n_cols, size);
            layout::run({0, 0, {{block.n_cols, block.col_stride, 1}}}, size, row, dense);
            row = dense;
        }
        numeric::convert(stored_as, row.first(static_cast<Bytes>(block.n_cols) * size), DType::f32,
                         std::as_writable_bytes(
                             block.values.subspan(count(i * block.n_cols), count(block.n_cols))));
    }
}

/// Room for a row of a block, whatever its type.
ByteSpan Factors::staged(Index n, Bytes size) {
    const Bytes bytes = static_cast<Bytes>(n) * size;
    const auto floats = static_cast<Index>((bytes + sizeof(float) - 1) / sizeof(float));
    return std::as_writable_bytes(at_least(staging_, floats)).first(bytes);
}

void Factors::apply_gains(const plan::Fold& fold, const MatrixBlock& block) {
    if (fold.norm == plan::Fold::Norm::none) {
        return;
    }
    const bool by_row = fold.norm == plan::Fold::Norm::rows;
    const std::span<float> gains = at_least(gains_, by_row ? block.n_rows : block.n_cols);
    read(fold.magnitudes + sizeof(float) * static_cast<Bytes>(by_row ? block.row : block.col),
         gains);
    for (Index i = 0; i < block.n_rows; ++i) {
        for (Index j = 0; j < block.n_cols; ++j) {
            block.values[count(i * block.n_cols + j)] *= gains[count(by_row ? i : j)];
        }
    }
}

void Factors::take_rows(const plan::Fold& fold, const MatrixBlock& block) {
    for (const std::size_t i : indices(fold.rows)) {
        const Index row = fold.rows[i] - block.row;
        if (row >= 0 && row < block.n_rows) {
            const auto from = static_cast<Index>(i);
            load(fold.right, {from, 1}, {block.col, block.n_cols},
                 block.values.subspan(count(row * block.n_cols), count(block.n_cols)));
        }
    }
}

/// Puts a block's values where its elements stood, rounded to one type and then cast to the other.
void Factors::write_block(const MatrixBlock& block, const plan::Fold& fold, DType rounded,
                          DType written, ByteSpan out) {
    apply_gains(fold, block);
    take_rows(fold, block);
    const Bytes size = size_of(written);
    const auto n = static_cast<Bytes>(block.n_cols);
    for (Index i = 0; i < block.n_rows; ++i) {
        const auto values = std::as_bytes(block.values.subspan(count(i * block.n_cols), n));
        const auto row = out.subspan(static_cast<Bytes>(block.at + i * block.row_stride) * size);
        if (rounded == written && block.col_stride == 1) {
            numeric::convert(DType::f32, values, written, row.first(n * size));
            continue;
        }
        const auto both = staged(block.n_cols, size_of(rounded) + size);
        const auto once = both.subspan(n * size);
        numeric::convert(DType::f32, values, rounded, once);
        numeric::convert(rounded, once, written, both.first(n * size));
        layout::run({0, 0, {{block.n_cols, 1, block.col_stride}}}, size, both.first(n * size), row);
    }
}

void Factors::fold_part(const plan::Target& target, const plan::FoldedPart& part,
                        layout::Range slice, ByteView stored, ByteSpan out) {
    const std::array<Index, 2> shape = shape_of(part.fold);
    for (const layout::Copy& copy : layout::part_in(part.copy, slice)) {
        for (const layout::Patch& patch : layout::unfold_src(copy, shape)) {
            update(target, part.fold, patch, stored, [&](const MatrixBlock& block) {
                write_block(block, part.fold, part.weight, target.dtype, out);
            });
        }
    }
}

void Factors::fold(std::uint32_t target, Index begin, Index end, ByteView stored, ByteSpan out) {
    const plan::Target& whole = plan_.targets[target];
    if (whole.fold) {
        update(target, begin, end, stored, [&](const MatrixBlock& block) {
            write_block(block, *whole.fold, whole.cast(), whole.cast(), out);
        });
        return;
    }
    numeric::convert(whole.stored, stored, whole.dtype, out);
    for (const plan::FoldedPart& part : whole.folded) {
        fold_part(whole, part, {begin, end - begin}, stored, out);
    }
}

}  // namespace shardweld::execute
