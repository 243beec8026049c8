#include "part_reader.hpp"

#include <algorithm>
#include <array>

#include "layout/copy.hpp"
#include "numeric/convert.hpp"
#include "plan/schedule/rounds.hpp"
#include "shardweld/error.hpp"

namespace shardweld::execute {

namespace {

constexpr Bytes kRowsAtOnce = Bytes{4} << 20U;

/// The elements of a box as ranges of the row-major tensor, in order. Neighbours are one.
std::vector<layout::Range> runs_of(const layout::Box& box, std::span<const Index> shape) {
    std::vector<layout::Range> runs{{0, 1}};
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        std::vector<layout::Range> finer;
        for (const layout::Range& run : runs) {
            // Either one index of the axes before, or a range of whole ones.
            const bool is_whole = box[axis].lo == 0 && box[axis].extent == shape[axis];
            if (is_whole) {
                finer.push_back({run.lo * shape[axis], run.extent * shape[axis]});
                continue;
            }
            for (Index at = run.lo; at < run.lo + run.extent; ++at) {
                finer.push_back({at * shape[axis] + box[axis].lo, box[axis].extent});
            }
        }
        runs = std::move(finer);
    }
    return runs;
}

/// The box with other indices of its first axis; of a tensor without axes the box.
layout::Box with_rows(layout::Box box, layout::Range rows) {
    if (box.size() > 0) {
        box[0] = rows;
    }
    return box;
}

/// All of so many rows of a tensor.
layout::Box whole_rows(std::span<const Index> shape, layout::Range rows) {
    layout::Box box;
    for (const Index extent : shape) {
        box.push_back({0, extent});
    }
    return with_rows(std::move(box), rows);
}

/// Whether the elements are stored as they are written, but for their type.
bool is_cast_only(const plan::Target& target) {
    return target.add == 0 && !target.fold && !target.mix && !target.encode && !target.decode;
}

}  // namespace

PartReader::PartReader(const plan::Plan& plan, const SourceFiles& source, fs::path factors)
    : plan_(plan),
      options_([&] {
          RunOptions options;
          options.write = false;
          options.factors = std::move(factors);
          options.on_slice = [this](const plan::Slice& slice, std::span<const std::byte> bytes) {
              take(slice, bytes);
          };
          return options;
      }()),
      reader_(source, plan.limits.scratch),
      buffers_(plan.limits),
      writer_(plan, source, fs::path(), options_, 0),
      places_(plan.targets.size()) {
    for (std::size_t at = 0; at < plan.line.order.size(); ++at) {
        places_[plan.line.order[at]] = at;
    }
}

void PartReader::read(std::uint32_t target, const layout::Box& box, std::span<std::byte> out) {
    const plan::Target& made = plan_.targets[target];
    if (!is_cast_only(made)) {
        read_rows(target, box, out);
        return;
    }
    const auto runs = runs_of(box, made.shape);
    if (made.stored == made.dtype) {
        gather(made, runs, out);
    } else {
        cast(made, runs, out);
    }
}

/// The stored elements of `runs`, one behind the other.
void PartReader::gather(const plan::Target& target, std::span<const layout::Range> runs,
                        std::span<std::byte> out) {
    const auto size = static_cast<std::uint32_t>(size_of(target.stored));
    const Index n_found = reader_.gather(target.operands, runs, size, out);
    if (static_cast<Bytes>(n_found) * size != out.size()) {
        throw Error(ErrorCode::internal, "the operands do not hold what is read of them")
            .add_context("tensor " + target.name);
    }
}

void PartReader::cast(const plan::Target& target, std::span<const layout::Range> runs,
                      std::span<std::byte> out) {
    const Bytes from = size_of(target.stored);
    const Bytes to = size_of(target.dtype);
    const auto most = static_cast<Index>(kRowsAtOnce / from);
    std::vector<layout::Range> some;
    Index n = 0;
    const auto flush = [&] {
        const auto stored = stored_.get(static_cast<Bytes>(n) * from);
        gather(target, some, stored);
        numeric::convert(target.stored, stored, target.dtype,
                         out.first(static_cast<Bytes>(n) * to));
        out = out.subspan(static_cast<Bytes>(n) * to);
        some.clear();
        n = 0;
    };
    for (layout::Range run : runs) {
        while (run.extent > 0) {
            const Index fits = std::min(run.extent, most - n);
            some.push_back({run.lo, fits});
            run = {run.lo + fits, run.extent - fits};
            n += fits;
            if (n == most) {
                flush();
            }
        }
    }
    if (n > 0) {
        flush();
    }
}

/// Whole rows of the first axis are made, some at a time, and the box is cut from them.
void PartReader::read_rows(std::uint32_t target, const layout::Box& box, std::span<std::byte> out) {
    const plan::Target& made = plan_.targets[target];
    const Bytes size = size_of(made.dtype);
    const Index volume = made.volume();
    const bool has_rows = !made.shape.empty();
    const Index row = has_rows ? volume / made.shape.front() : 1;
    const layout::Range rows = has_rows ? box[0] : layout::Range{0, 1};
    const auto step = std::max<Index>(
        static_cast<Index>(kRowsAtOnce / (static_cast<Bytes>(row) * size)), Index{1});
    for (Index first = rows.lo; first < rows.lo + rows.extent; first += step) {
        const Index n = std::min(step, rows.lo + rows.extent - first);
        const auto made_rows = rows_.get(static_cast<Bytes>(n * row) * size);
        make(target, {first * row, n * row}, made_rows);
        const layout::Patch from = layout::dense(whole_rows(made.shape, {first, n}));
        const layout::Patch to = layout::dense(with_rows(box, {first, n}));
        const Bytes bytes = static_cast<Bytes>(to.volume()) * size;
        layout::run(layout::overlap(from, to).value(), size, made_rows, out.first(bytes));
        out = out.subspan(bytes);
    }
}

/// Elements of a target as the rounds of a run make them; strips are made whole.
void PartReader::make(std::uint32_t target, layout::Range elements, std::span<std::byte> out) {
    const plan::Target& made = plan_.targets[target];
    const Index strip = std::max<Index>(made.strip_elements(), 1);
    const Index end =
        std::min((elements.lo + elements.extent + strip - 1) / strip * strip, made.volume());
    const auto size = static_cast<Index>(size_of(made.dtype));
    const Bytes begins = plan_.line.begins[places_[target]];
    const plan::LineRange part{begins + static_cast<Bytes>(elements.lo / strip * strip * size),
                               begins + static_cast<Bytes>(end * size)};
    wanted_ = elements;
    out_ = out;
    const std::array around{plan::LineRange{0, part.begin},
                            plan::LineRange{part.end, plan_.line.begins.back()}};
    plan::Rounds rounds(plan_, 0, plan::united({around.begin(), around.end()}));
    std::vector<plan::LineRange> ranges;
    while (rounds.next(ranges)) {
        const plan::LineRange range = ranges.front();
        Round round = make_round(plan_, ranges, rounds.term(), 0, buffers_);
        reader_.read(std::move(round.reads));
        writer_.put(round, range);
    }
}

void PartReader::take(const plan::Slice& slice, std::span<const std::byte> bytes) {
    const auto size = static_cast<Index>(bytes.size()) / (slice.end - slice.begin);
    const Index begin = std::max(slice.begin, wanted_.lo);
    const Index end = std::min(slice.end, wanted_.lo + wanted_.extent);
    if (begin < end) {
        std::ranges::copy(bytes.subspan(static_cast<Bytes>((begin - slice.begin) * size),
                                        static_cast<Bytes>((end - begin) * size)),
                          out_.begin() + (begin - wanted_.lo) * size);
    }
}

}  // namespace shardweld::execute
