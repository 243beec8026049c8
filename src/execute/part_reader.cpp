#include "part_reader.hpp"

#include <algorithm>
#include <array>
#include <future>
#include <mutex>

#include <sys/mman.h>

#include "layout/copy.hpp"
#include "numeric/convert.hpp"
#include "plan/schedule/rounds.hpp"
#include "shardweld/error.hpp"

namespace shardweld::execute {

namespace {

constexpr Bytes kRowsAtOnce = Bytes{4} << 20U;
// What a thread of its own is worth.
constexpr Bytes kLeastPart = Bytes{2} << 20U;
// More are no faster on one machine's memory, and each has its buffers.
constexpr std::size_t kMostReaders = 8;

/// The elements of a box as ranges of the row-major tensor, in order. Neighbours are one.
std::vector<layout::Range> runs_of(const layout::Box& box, std::span<const Index> shape) {
    std::vector<layout::Range> runs{{0, 1}};
    for (const std::size_t axis : indices(shape)) {
        std::vector<layout::Range> finer;
        for (const layout::Range& run : runs) {
            // Either one index of the axes before, or a range of whole ones.
            const bool is_whole = box[axis].lo == 0 && box[axis].extent == shape[axis];
            if (is_whole) {
                finer.push_back({run.lo * shape[axis], run.extent * shape[axis]});
                continue;
            }
            for (Index at = run.lo; at < run.end(); ++at) {
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

/// A box in up to `n` parts whose elements follow one another. Where a target is made in whole
/// rows, only the first axis is cut.
std::vector<layout::Box> parts_of(const layout::Box& box, Bytes n, const plan::Target& target) {
    const std::size_t n_axes = is_read_alone(target) ? box.size() : std::min<Bytes>(box.size(), 1);
    std::size_t axis = 0;
    while (axis < n_axes && box[axis].extent == 1) {
        ++axis;
    }
    if (axis == n_axes) {
        return {box};
    }
    const layout::Range whole = box[axis];
    const auto n_parts = std::min(static_cast<Index>(n), whole.extent);
    std::vector<layout::Box> parts(static_cast<std::size_t>(n_parts), box);
    for (Index i = 0; i < n_parts; ++i) {
        const Index begin = whole.extent * i / n_parts;
        const Index end = whole.extent * (i + 1) / n_parts;
        parts[static_cast<std::size_t>(i)][axis] = {whole.lo + begin, end - begin};
    }
    return parts;
}

/// New memory comes in pages of 2 MiB then, where the system has them: faults of small ones take as
/// long as the reading.
void prefer_huge_pages(ByteSpan memory) {
    constexpr Bytes kHuge = Bytes{2} << 20U;
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    const Bytes before = (kHuge - address % kHuge) % kHuge;
    if (memory.size() >= before + kHuge) {
        const Bytes size = (memory.size() - before) / kHuge * kHuge;
        (void)::madvise(memory.data() + before, size, MADV_HUGEPAGE);
    }
}

}  // namespace

bool is_read_alone(const plan::Target& target) {
    return target.add == 0 && !target.fold && target.folded.empty() && target.decoded.empty() &&
           !target.mix && !target.encode && !target.decode && target.zeros.empty();
}

PartReader::PartReader(const plan::Plan& plan, const SourceFiles& source, fs::path factors)
    : plan_(plan),
      options_([&] {
          RunOptions options;
          options.write = false;
          options.factors = std::move(factors);
          options.on_slice = [this](const plan::Slice& slice, ByteView bytes) {
              take_slice(slice, bytes);
          };
          return options;
      }()),
      reader_(source, plan.limits.scratch),
      buffers_(plan.limits),
      writer_(plan, source, fs::path(), options_, 0),
      tensors_(plan.targets.size()),
      places_(plan.tensors.size()) {
    for (const std::size_t at : indices(plan.space.order)) {
        const std::uint32_t first = plan.space.order[at];
        const plan::OutputOfTarget of = plan.tensors[first];
        const std::uint32_t n_made = of.output == 0 ? plan.targets[of.target].n_made() : 1;
        std::fill_n(places_.begin() + first, n_made, at);
        if (of.output == 0) {
            tensors_[of.target] = first;
        }
    }
}

void PartReader::read(std::uint32_t target, const layout::Box& box, ByteSpan out) {
    const plan::Target& made = plan_.targets[target];
    if (is_read_alone(made)) {
        read_runs(made, runs_of(box, made.shape), out);
    } else {
        read_rows(target, box, out);
    }
    reader_.require_unchanged();
}

void PartReader::read_elements(std::uint32_t tensor, layout::Range elements,
                               std::span<std::byte> out) {
    const plan::Target& made = plan_.target_of(tensor);
    if (plan_.is_constant(tensor) || !is_read_alone(made)) {
        make(tensor, elements, out);
    } else {
        read_runs(made, {&elements, 1}, out);
    }
    reader_.require_unchanged();
}

/// The elements of `runs` as they are written, one behind the other.
void PartReader::read_runs(const plan::Target& target, std::span<const layout::Range> runs,
                           ByteSpan out) {
    if (target.stored == target.dtype) {
        gather(target, runs, out);
    } else {
        cast(target, runs, out);
    }
}

/// The stored elements of `runs`, one behind the other.
void PartReader::gather(const plan::Target& target, std::span<const layout::Range> runs,
                        ByteSpan out) {
    const auto size = static_cast<std::uint32_t>(size_of(target.stored));
    const Index n_found = reader_.gather(target.operands, runs, size, out);
    if (static_cast<Bytes>(n_found) * size != out.size()) {
        throw Error(ErrorCode::internal, "the operands do not hold what is read of them")
            .add_context("tensor " + target.name.text());
    }
}

void PartReader::cast(const plan::Target& target, std::span<const layout::Range> runs,
                      ByteSpan out) {
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
void PartReader::read_rows(std::uint32_t target, const layout::Box& box, ByteSpan out) {
    const plan::Target& made = plan_.targets[target];
    const Bytes size = size_of(made.dtype);
    const Index volume = made.volume();
    const bool has_rows = !made.shape.empty();
    const Index row = has_rows ? volume / made.shape.front() : 1;
    const layout::Range rows = has_rows ? box[0] : layout::Range{0, 1};
    const auto step = std::max<Index>(
        static_cast<Index>(kRowsAtOnce / (static_cast<Bytes>(row) * size)), Index{1});
    for (Index first = rows.lo; first < rows.end(); first += step) {
        const Index n = std::min(step, rows.end() - first);
        const auto made_rows = rows_.get(static_cast<Bytes>(n * row) * size);
        make(tensors_[target], {first * row, n * row}, made_rows);
        const layout::Patch from =
            layout::dense(with_rows(layout::whole_box(made.shape), {first, n}));
        const layout::Patch to = layout::dense(with_rows(box, {first, n}));
        const Bytes bytes = static_cast<Bytes>(to.volume()) * size;
        layout::run(layout::overlap(from, to).value(), size, made_rows, out.first(bytes));
        out = out.subspan(bytes);
    }
}

/// Elements of a tensor as the rounds of a run make them; strips are made whole.
void PartReader::make(std::uint32_t tensor, layout::Range elements, ByteSpan out) {
    const plan::WrittenTensor& made = plan_.tensor(tensor);
    const Index strip = std::max<Index>(plan_.strip_elements(tensor), 1);
    const Index first = elements.lo / strip;
    const Index last = (elements.end() + strip - 1) / strip;
    // Tensors that are made together take turns, strip by strip.
    const std::size_t place = places_[tensor];
    const plan::OutputSpace::Unit& unit = plan_.space.units[place];
    const Bytes bytes = unit.is_strip ? unit.bytes : size_of(made.dtype);
    const Bytes begins = plan_.space.begins[place];
    const plan::OutputRange part{
        begins + static_cast<Bytes>(first) * bytes,
        std::min(begins + static_cast<Bytes>(last) * bytes, plan_.space.begins[place + 1])};
    wanted_tensor_ = tensor;
    wanted_ = elements;
    out_ = out;
    const std::array around{plan::OutputRange{0, part.begin},
                            plan::OutputRange{part.end, plan_.space.begins.back()}};
    plan::Rounds rounds(plan_, 0, plan::united({around.begin(), around.end()}));
    std::vector<plan::OutputRange> ranges;
    while (rounds.next(ranges)) {
        const plan::OutputRange range = ranges.front();
        Round round = make_round(plan_, ranges, rounds.term(), 0, buffers_);
        reader_.read(std::move(round.reads));
        writer_.write_round(round, range);
    }
}

void PartReader::take_slice(const plan::Slice& slice, ByteView bytes) {
    if (slice.tensor != wanted_tensor_) {
        return;
    }
    const auto size = std::ssize(bytes) / (slice.end - slice.begin);
    const layout::Range both = layout::meet({slice.begin, slice.end - slice.begin}, wanted_);
    if (both.extent > 0) {
        std::ranges::copy(bytes.subspan(static_cast<Bytes>((both.lo - slice.begin) * size),
                                        static_cast<Bytes>(both.extent * size)),
                          out_.begin() + (both.lo - wanted_.lo) * size);
    }
}

/// Cores that one read has taken to help it.
class PartReaders::Helpers {
  public:
    Helpers(std::atomic<Bytes>& idle, Bytes most) : idle_(idle) {
        Bytes n_idle = idle_.load();
        do {
            n_ = std::min(most, n_idle);
        } while (!idle_.compare_exchange_weak(n_idle, n_idle - n_));
    }
    ~Helpers() { idle_ += n_; }
    Helpers(const Helpers&) = delete;
    Helpers& operator=(const Helpers&) = delete;
    [[nodiscard]] Bytes n() const { return n_; }

  private:
    std::atomic<Bytes>& idle_;
    Bytes n_ = 0;
};

PartReaders::PartReaders(const plan::Plan& plan, const SourceFiles& source, fs::path factors,
                         unsigned n_cores)
    : plan_(plan),
      source_(source),
      factors_(std::move(factors)),
      n_idle_(std::clamp<Bytes>(n_cores, 1, kMostReaders) - 1) {}

void PartReaders::read(std::uint32_t target, const layout::Box& box, ByteSpan out) {
    prefer_huge_pages(out);
    const Helpers helpers(n_idle_, out.size() / kLeastPart);
    const auto parts = parts_of(box, helpers.n() + 1, plan_.targets[target]);
    std::vector<std::future<void>> readings;
    for (const layout::Box& part : parts) {
        const auto volume = static_cast<Bytes>(layout::dense(part).volume());
        const Bytes size = volume * size_of(plan_.targets[target].dtype);
        const auto place = out.first(size);
        out = out.subspan(size);
        // The last part is this thread's, and so are those for which none can be started.
        const auto how =
            out.empty() ? std::launch::deferred : std::launch::async | std::launch::deferred;
        readings.push_back(
            std::async(how, [this, target, &part, place] { read_part(target, part, place); }));
    }
    for (; !readings.empty(); readings.pop_back()) {
        readings.back().get();
    }
}

void PartReaders::read_elements(std::uint32_t tensor, layout::Range elements, ByteSpan out) {
    std::unique_ptr<PartReader> reader = free_reader();
    reader->read_elements(tensor, elements, out);
    give_back(std::move(reader));
}

void PartReaders::read_part(std::uint32_t target, const layout::Box& box, ByteSpan out) {
    std::unique_ptr<PartReader> reader = free_reader();
    reader->read(target, box, out);
    give_back(std::move(reader));
}

std::unique_ptr<PartReader> PartReaders::free_reader() {
    {
        const std::lock_guard lock(mutex_);
        if (!kept_.empty()) {
            auto reader = std::move(kept_.back());
            kept_.pop_back();
            return reader;
        }
    }
    return std::make_unique<PartReader>(plan_, source_, factors_);
}

void PartReaders::give_back(std::unique_ptr<PartReader> reader) {
    const std::lock_guard lock(mutex_);
    if (kept_.size() < kMostReaders) {
        kept_.push_back(std::move(reader));
    }
}

}  // namespace shardweld::execute
