#include "measures.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "io/output_file.hpp"
#include "mpi/share.hpp"
#include "numeric/quantise.hpp"
#include "plan/plan.hpp"
#include "shardweld/error.hpp"

#include "factors.hpp"
#include "reader.hpp"

namespace shardweld::execute {

namespace {

/// The rank that takes the norms of the `turn`-th normalised target: by turns among the readers
/// that see all its files; -1: none does.
int rank_for_norms(const plan::Plan& plan, const plan::Target& target, std::size_t turn) {
    std::vector<int> able;
    for (const int rank : plan.readers) {
        if (std::ranges::all_of(target.operands, [&](const plan::Operand& operand) {
                return plan.visibility.sees(rank, operand.file);
            })) {
            able.push_back(rank);
        }
    }
    return able.empty() ? -1 : able[turn % able.size()];
}

/// Norms of one rank's targets.
class Norms {
  public:
    Norms(const plan::Plan& plan, const SourceFiles& source, const fs::path& factors)
        : plan_(plan),
          reader_(source, plan.limits.scratch),
          factors_(plan, factors),
          file_(io::OutputFile::open_existing(factors)) {}

    void measure_norms(std::uint32_t target, const mpi::OnStep& before_part) {
        const plan::Target& whole = plan_.targets[target];
        const plan::Fold& fold = *whole.fold;
        const bool by_row = fold.norm == plan::Fold::Norm::rows;
        squares_.assign(static_cast<std::size_t>(by_row ? fold.n_rows : fold.n_cols), 0.0);
        const Index step =
            std::max<Index>(1, static_cast<Index>(plan_.limits.step / size_of(whole.stored)));
        for (Index begin = 0; begin < whole.volume(); begin += step) {
            before_part();
            const Index end = std::min(begin + step, whole.volume());
            factors_.update(target, begin, end, read(whole, begin, end),
                            [&](const MatrixBlock& block) { add_squares(block, by_row); });
        }
        write_gains(fold);
    }

    /// Other ranks open the file next: nothing may be left in this host's buffers.
    void close() {
        file_.sync();
        file_.close();
    }

  private:
    static constexpr Index kRowsAtOnce = 4;

    ByteView read(const plan::Target& target, Index begin, Index end) {
        const Bytes size = size_of(target.stored);
        stored_.resize(static_cast<Bytes>(end - begin) * size);
        std::vector<Move> moves;
        for (const plan::Operand& operand : target.operands) {
            for (const layout::Copy& part : layout::part_in(operand.copy, {begin, end - begin})) {
                moves.push_back({operand.file, operand.base, static_cast<std::uint32_t>(size), part,
                                 stored_, nullptr});
            }
        }
        reader_.read(std::move(moves));
        return stored_;
    }

    void add_squares(const MatrixBlock& block, bool by_row) {
        Index i = 0;
        for (; by_row && i + kRowsAtOnce <= block.n_rows; i += kRowsAtOnce) {
            add_rows(block, i);
        }
        for (; i < block.n_rows; ++i) {
            for (Index j = 0; j < block.n_cols; ++j) {
                const auto value = static_cast<double>(
                    block.values[static_cast<std::size_t>(i * block.n_cols + j)]);
                const Index at = by_row ? block.row + i : block.col + j;
                squares_[static_cast<std::size_t>(at)] += value * value;
            }
        }
    }

    /// Several rows at once: the squares of one are added one after the other, and these wait for
    /// each other.
    void add_rows(const MatrixBlock& block, Index first) {
        const auto n_cols = static_cast<std::size_t>(block.n_cols);
        const float* const values = &block.values[static_cast<std::size_t>(first) * n_cols];
        double* const of_rows = &squares_[static_cast<std::size_t>(block.row + first)];
        std::array<double, std::size_t{kRowsAtOnce}> sums{};
        std::copy_n(of_rows, sums.size(), sums.begin());
        for (std::size_t j = 0; j < n_cols; ++j) {
            for (const std::size_t i : indices(sums)) {
                const auto value = static_cast<double>(values[i * n_cols + j]);
                sums[i] += value * value;
            }
        }
        std::ranges::copy(sums, of_rows);
    }

    void write_gains(const plan::Fold& fold) {
        std::vector<float> gains(squares_.size());
        factors_.read(fold.magnitudes, gains);
        for (const std::size_t i : indices(gains)) {
            gains[i] /= static_cast<float>(std::sqrt(squares_[i]));
        }
        file_.write_at(fold.magnitudes, std::as_bytes(std::span(gains)));
    }

    const plan::Plan& plan_;
    Reader reader_;
    Factors factors_;
    io::OutputFile file_;
    ByteBuffer stored_;
    std::vector<double> squares_;
};

bool is_normalised(const plan::Target& target) {
    return target.fold && target.fold->norm != plan::Fold::Norm::none;
}

}  // namespace

void take_norms(mpi::Comm& comm, const plan::Plan& plan, const SourceFiles& source,
                const fs::path& factors, const mpi::WhyStop& why_stop) {
    if (std::ranges::none_of(plan.targets, is_normalised)) {
        return;
    }
    std::optional<Norms> norms;
    mpi::run_freely(comm, why_stop, [&](const mpi::OnStep& step) {
        norms.emplace(plan, source, factors);
        std::size_t turn = 0;
        for (std::uint32_t i = 0; i < plan.targets.size(); ++i) {
            if (!is_normalised(plan.targets[i])) {
                continue;
            }
            const int taker = rank_for_norms(plan, plan.targets[i], turn++);
            if (taker < 0) {
                throw Error(ErrorCode::unsupported,
                            "the DoRA norms of " + plan.targets[i].name.text() +
                                " need all of its files, which no rank sees",
                            "fold where all files are visible, or use --lora split");
            }
            if (taker == comm.rank()) {
                norms->measure_norms(i, step);
            }
        }
        norms->close();
    });
}

LargestValues::LargestValues(const plan::Plan& plan)
    : plan_(plan), largest_(plan.tensors.size(), 0) {}

void LargestValues::add(const plan::Slice& slice, ByteView bytes) {
    const float found = numeric::largest_magnitude(plan_.tensor(slice.tensor).dtype, bytes);
    std::uint32_t& largest = largest_[slice.tensor];
    largest = std::max(largest, std::bit_cast<std::uint32_t>(found));
}

std::vector<float> LargestValues::gather(mpi::Comm& comm) const {
    std::vector<std::uint32_t> all(largest_.size(), 0);
    for (const std::vector<std::uint32_t>& part : mpi::gather(comm, largest_)) {
        for (const std::size_t i : indices(all)) {
            all[i] = std::max(all[i], part[i]);
        }
    }
    std::vector<float> values(all.size());
    std::ranges::transform(all, values.begin(),
                           [](std::uint32_t bits) { return std::bit_cast<float>(bits); });
    return values;
}

void set_divisors(plan::Plan& plan, const std::vector<float>& largest,
                  const std::vector<std::uint32_t>& shares) {
    std::vector<float> of_share(shares.size(), 0);
    for (const std::size_t i : indices(shares)) {
        of_share[shares[i]] = std::max(of_share[shares[i]], largest[i]);
    }
    for (plan::Target& target : plan.targets) {
        const auto divisor = target.encode ? facts_of(target.encode->encoding).divisor : nullptr;
        if (divisor != nullptr) {
            plan::Encode& how = *target.encode;
            how.global = divisor(of_share[how.share], how.weight);
            std::memcpy(target.beside.own().back().literal.own().data(), &how.global,
                        sizeof(how.global));
        }
    }
}

}  // namespace shardweld::execute
