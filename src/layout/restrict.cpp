// Cutting a copy at addresses of one side.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/index.hpp"
#include "shardweld/error.hpp"

#include "copy.hpp"

namespace shardweld::layout {

namespace {

/// Cuts a copy along the side whose loops' strides are `Stride`. Its loops are ordered by that
/// stride so that one iteration of a loop spans less than the loop's stride: addresses then are in
/// lexicographic order, and a range of them is a few boxes, as in boxes_of_range but with gaps.
template <Index Loop::*Stride>
class CopyCutter {
  public:
    CopyCutter(const Copy& copy, std::vector<Copy>& out) : copy_(copy), out_(out) {
        const auto runs_outside = [](const Loop& a, const Loop& b) {
            return a.*Stride > b.*Stride;
        };
        std::ranges::stable_sort(copy_.loops, runs_outside);
        inner_span_.resize(copy_.loops.size());
        Index span = 1;
        for (std::size_t k = copy_.loops.size(); k > 0; --k) {
            const Loop& loop = copy_.loops[k - 1];
            if (loop.*Stride < span) {
                throw Error(ErrorCode::unsupported,
                            "the copy " + to_text(copy) +
                                " cannot be cut at an address: its loops interleave or repeat");
            }
            inner_span_[k - 1] = span;
            span += (loop.extent - 1) * loop.*Stride;
        }
    }

    /// Emits what lies in [begin, end), addresses counted from where `at` starts.
    /// `at` is the copy with the loops before k fixed.
    void rows(std::size_t k, const Copy& at, Index begin, Index end) {
        if (k == copy_.loops.size()) {
            if (begin <= 0 && end > 0) {
                out_.push_back(normal(at));
            }
            return;
        }
        const Loop& loop = copy_.loops[k];
        const Index stride = loop.*Stride;
        const Index span = inner_span_[k];
        // The rows [first, last] touch the range; the outer two may do so in part.
        Index first = begin < span ? 0 : (begin - span) / stride + 1;
        const Index last = end <= 0 ? -1 : std::min(loop.extent - 1, (end - 1) / stride);
        if (first <= last && first * stride < begin) {
            rows(k + 1, fixed(k, at, first), begin - first * stride, end - first * stride);
            ++first;
        }
        const bool cut_tail = first <= last && last * stride + span > end;
        const Index whole = last - first + (cut_tail ? 0 : 1);
        if (whole > 0) {
            emit(k, at, {first, whole});
        }
        if (cut_tail) {
            rows(k + 1, fixed(k, at, last), begin - last * stride, end - last * stride);
        }
    }

    [[nodiscard]] const Copy& ordered() const { return copy_; }

  private:
    [[nodiscard]] Copy fixed(std::size_t k, const Copy& at, Index row) const {
        Copy copy = at;
        copy.src_offset += row * copy_.loops[k].src_stride;
        copy.dst_offset += row * copy_.loops[k].dst_stride;
        copy.loops[k].extent = 1;
        return copy;
    }

    void emit(std::size_t k, const Copy& at, Range range) {
        Copy copy = fixed(k, at, range.lo);
        copy.loops[k].extent = range.extent;
        out_.push_back(normal(copy));
    }

    Copy copy_;
    InlineVector<Index, kMaxAxes> inner_span_;
    std::vector<Copy>& out_;
};

template <Index Loop::*Stride>
std::vector<Copy> restricted(const Copy& copy, Range span, Index begin, Index end) {
    std::vector<Copy> out;
    if (span.extent == 0 || begin >= span.end() || end <= span.lo || begin >= end) {
        return out;
    }
    const Copy whole = normal(copy);
    if (begin <= span.lo && end >= span.end()) {
        out.push_back(whole);
        return out;
    }
    CopyCutter<Stride> cut(whole, out);
    // Clamped to the span: a range may be open-ended, and the differences below must not overflow.
    cut.rows(0, cut.ordered(), std::max(begin, span.lo) - span.lo,
             std::min(end, span.end()) - span.lo);
    return out;
}

}  // namespace

std::vector<Copy> restrict_dst(const Copy& copy, Index begin, Index end) {
    return restricted<&Loop::dst_stride>(copy, dst_span(copy), begin, end);
}

std::vector<Copy> part_in(const Copy& copy, const Range& range) {
    std::vector<Copy> parts = restrict_dst(copy, range.lo, range.end());
    for (Copy& part : parts) {
        part.dst_offset -= range.lo;
    }
    return parts;
}

std::vector<Copy> restrict_src(const Copy& copy, Index begin, Index end) {
    return restricted<&Loop::src_stride>(copy, src_span(copy), begin, end);
}

}  // namespace shardweld::layout
