#include "factors.hpp"

#include <algorithm>
#include <array>

#include "core/text.hpp"
#include "io/input_file.hpp"
#include "layout/patch.hpp"
#include "numeric/convert.hpp"
#include "numeric/low_rank.hpp"
#include "plan/plan.hpp"
#include "shardweld/error.hpp"

namespace shardweld::execute {

namespace {

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

void Factors::read(Bytes offset, std::span<std::byte> out) {
    if (!file_.is_open()) {
        file_ = io::InputFile::open(path_);
    }
    file_.read_at(offset, out);
}

/// An eighth of the memory each for staging and gains, three for the right factor and three for
/// rows of the left one and their values.
Factors::Sizes Factors::sizes_for(const plan::Target& target) const {
    const plan::Fold& fold = *target.fold;
    const Index eighth = budget_ / 8;
    const Index rank = std::max<Index>(fold.rank, 1);
    Sizes sizes;
    sizes.width = std::min({fold.n_cols, eighth, 3 * eighth / rank, 3 * eighth - rank});
    if (sizes.width < 1) {
        throw Error(ErrorCode::unsupported,
                    "the adapter's rank " + std::to_string(fold.rank) + " for " + target.name +
                        " needs more memory than --memory_limit leaves",
                    "raise --memory_limit");
    }
    sizes.height = std::max<Index>(1, std::min(eighth, 3 * eighth / (rank + sizes.width)));
    return sizes;
}

/// A part of a matrix, dense and row-major.
void Factors::load(const plan::Matrix& matrix, Index row, Index n_rows, Index col, Index n_cols,
                   std::span<float> out) {
    const auto offset_of = [&](Index i, Index k) {
        return matrix.offset +
               sizeof(float) * static_cast<Bytes>(i * matrix.row_stride + k * matrix.col_stride);
    };
    if (matrix.col_stride == 1) {
        const bool is_whole = n_cols == matrix.row_stride;
        const Index n_runs = is_whole ? 1 : n_rows;
        const std::size_t run = out.size() / count(std::max<Index>(n_runs, 1));
        for (Index i = 0; i < n_runs; ++i) {
            read(offset_of(row + i, col), out.subspan(count(i) * run, run));
        }
        return;
    }
    if (matrix.row_stride != 1) {
        load_thinned(matrix, row, n_rows, col, n_cols, out);
        return;
    }
    // Stored by columns: lines of n_rows elements are read and turned.
    const Index most = std::max<Index>(budget_ / 8, 1);
    const Index length = std::min(n_rows, most);
    const Index n_lines = n_rows == matrix.col_stride
                              ? std::clamp<Index>(most / std::max<Index>(n_rows, 1), 1, n_cols)
                              : 1;
    for (Index k = 0; k < n_cols; k += n_lines) {
        const Index lines = std::min(n_lines, n_cols - k);
        for (Index i = 0; i < n_rows; i += length) {
            const Index part = std::min(length, n_rows - i);
            const std::span<float> staged = at_least(staging_, part * lines);
            read(offset_of(row + i, col + k), staged);
            for (Index line = 0; line < lines; ++line) {
                for (Index j = 0; j < part; ++j) {
                    out[count((i + j) * n_cols + k + line)] = staged[count(line * part + j)];
                }
            }
        }
    }
}

/// Neither rows nor columns are dense: what lies between two elements is read, too.
void Factors::load_thinned(const plan::Matrix& matrix, Index row, Index n_rows, Index col,
                           Index n_cols, std::span<float> out) {
    const bool by_row = matrix.col_stride < matrix.row_stride;
    const Index step = by_row ? matrix.col_stride : matrix.row_stride;
    const Index n_lines = by_row ? n_rows : n_cols;
    const Index length = by_row ? n_cols : n_rows;
    const Index most = std::max<Index>(budget_ / 8 / step, 1);
    for (Index line = 0; line < n_lines; ++line) {
        for (Index begin = 0; begin < length; begin += most) {
            const Index part = std::min(most, length - begin);
            const Index i = row + (by_row ? line : begin);
            const Index k = col + (by_row ? begin : line);
            const std::span<float> staged = at_least(staging_, (part - 1) * step + 1);
            read(matrix.offset + sizeof(float) * static_cast<Bytes>(i * matrix.row_stride +
                                                                    k * matrix.col_stride),
                 staged.first(count((part - 1) * step + 1)));
            for (Index j = 0; j < part; ++j) {
                const Index at = by_row ? line * n_cols + begin + j : (begin + j) * n_cols + line;
                out[count(at)] = staged[count(j * step)];
            }
        }
    }
}

void Factors::load_right(std::uint32_t target, Index batch, Index col, Index width) {
    const Loaded wanted{target, batch, col, width};
    if (loaded_ == wanted) {
        return;
    }
    const plan::Fold& fold = *plan_.targets[target].fold;
    load(of_batch(fold.right, batch), 0, fold.rank, col, width,
         at_least(right_, fold.rank * width));
    loaded_ = wanted;
}

void Factors::load_left(const plan::Fold& fold, Index row, Index n_rows) {
    const std::span<float> left = at_least(left_, n_rows * fold.rank);
    if (fold.left) {
        load(of_batch(*fold.left, row / fold.n_rows), row % fold.n_rows, n_rows, 0, fold.rank,
             left);
    } else {
        std::fill(left.begin(), left.end(), 1.0F);
    }
}

void Factors::update(std::uint32_t target, Index begin, Index end,
                     std::span<const std::byte> stored,
                     const std::function<void(const MatrixBlock&)>& visit) {
    const plan::Target& whole = plan_.targets[target];
    const plan::Fold& fold = *whole.fold;
    const Sizes sizes = sizes_for(whole);
    const Bytes size = size_of(whole.stored);
    const std::array<Index, 2> shape{fold.n_batches * fold.n_rows, fold.n_cols};
    for (const layout::RangeBox& part : layout::boxes_of_range(begin, end, shape)) {
        const layout::Range rows = part.box[0];
        const layout::Range cols = part.box[1];
        for (Index c = 0; c < cols.extent; c += sizes.width) {
            const Index n_cols = std::min(sizes.width, cols.extent - c);
            Index n_rows = 0;
            for (Index r = 0; r < rows.extent; r += n_rows) {
                const Index row = rows.lo + r;
                n_rows = std::min({sizes.height, rows.extent - r, fold.n_rows - row % fold.n_rows});
                load_right(target, row / fold.n_rows, cols.lo + c, n_cols);
                load_left(fold, rows.lo + r, n_rows);
                const std::span<float> values = at_least(values_, n_rows * n_cols);
                for (Index i = 0; i < n_rows; ++i) {
                    const auto from =
                        static_cast<Bytes>(part.begin - begin + (r + i) * cols.extent + c);
                    numeric::convert(
                        whole.stored,
                        stored.subspan(from * size, static_cast<Bytes>(n_cols) * size), DType::f32,
                        std::as_writable_bytes(values.subspan(count(i * n_cols), count(n_cols))));
                }
                numeric::add_low_rank({values.data(), left_.data(), right_.data(), count(n_rows),
                                       count(n_cols), count(fold.rank), count(n_cols),
                                       static_cast<float>(fold.scale)});
                visit({rows.lo + r, cols.lo + c, n_rows, n_cols, values});
            }
        }
    }
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

void Factors::fold(std::uint32_t target, Index begin, Index end, std::span<const std::byte> stored,
                   std::span<std::byte> out) {
    const plan::Target& whole = plan_.targets[target];
    const Bytes size = size_of(whole.cast());
    update(target, begin, end, stored, [&](const MatrixBlock& block) {
        apply_gains(*whole.fold, block);
        for (Index i = 0; i < block.n_rows; ++i) {
            const Index at = (block.row + i) * whole.fold->n_cols + block.col - begin;
            const auto row = block.values.subspan(count(i * block.n_cols), count(block.n_cols));
            numeric::convert(DType::f32, std::as_bytes(row), whole.cast(),
                             out.subspan(static_cast<Bytes>(at) * size, row.size() * size));
        }
    });
}

}  // namespace shardweld::execute
