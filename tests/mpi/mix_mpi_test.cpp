// Targets mixed of several checkpoints, executed with real files at every number of ranks, against
// sums computed one by one.
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "execute/run.hpp"
#include "mpi/comm.hpp"
#include "numeric/convert.hpp"
#include "plan/plan.hpp"
#include "plan/schedule/footprint.hpp"
#include "support/flat_target.hpp"

#include "sample.hpp"
#include "world.hpp"

namespace shardweld {
namespace {

using plan::Mix;
using plan::MixKind;
using test::kWays;

constexpr Index kMixed = 400'003;
constexpr Index kBytes = 70'001;

/// Checkpoints of other types and cuts, a file each: kMixed floats, and in the first one bytes
/// that are not mixed.
class Checkpoints {
  public:
    explicit Checkpoints(mpi::Comm& comm) : sample_(comm) {
        for (std::size_t i = 0; i < kTypes.size(); ++i) {
            std::mt19937 random(static_cast<unsigned>(i));
            std::normal_distribution<float> normal;
            std::vector<float> values(kMixed);
            for (float& value : values) {
                value = normal(random);
            }
            std::vector<std::byte> stored(values.size() * size_of(kTypes[i]));
            numeric::convert(DType::f32, std::as_bytes(std::span(values)), kTypes[i], stored);
            numeric::convert(kTypes[i], stored, DType::f32,
                             std::as_writable_bytes(std::span(values)));
            values_.push_back(std::move(values));
            if (comm.rank() == 0) {
                std::ofstream out(sample_.directory() / name_of(i), std::ios::binary);
                out.write(reinterpret_cast<const char*>(stored.data()),
                          static_cast<std::streamsize>(stored.size()));
                out << std::string(static_cast<std::size_t>(kBytes), 'x');
            }
            files_.push_back({name_of(i), stored.size() + static_cast<Bytes>(kBytes)});
        }
        comm.barrier();
    }

    /// "a" mixed of all, each cut elsewhere; "b" that is not.
    [[nodiscard]] std::vector<plan::Target> targets(Mix mix, DType written) const {
        plan::Target a = test::flat_target("a", kTypes[0], kMixed);
        a.dtype = written;
        a.operands.clear();
        for (std::uint32_t i = 0; i < mix.terms.size(); ++i) {
            const Index cut = kMixed / (i + 2);
            layout::Copy head;
            head.loops = {{cut, 1, 1}};
            layout::Copy tail = head;
            tail.src_offset = tail.dst_offset = cut;
            tail.loops = {{kMixed - cut, 1, 1}};
            a.operands.push_back({i, 0, head, i});
            a.operands.push_back({i, 0, tail, i});
        }
        a.mix = std::move(mix);
        const Bytes behind = static_cast<Bytes>(kMixed) * size_of(kTypes[0]);
        return {std::move(a), test::flat_target("b", DType::u8, kBytes, 0, behind)};
    }

    static Mix mix(MixKind kind, const std::vector<float>& weights) {
        Mix mix{kind, {}};
        for (std::size_t i = 0; i < weights.size(); ++i) {
            mix.terms.push_back({kTypes[i], 0, weights[i]});
        }
        return mix;
    }

    /// In fp64, rounded at each step.
    [[nodiscard]] std::vector<float> expected(const Mix& mix) const {
        const auto rounded = [](double value) { return static_cast<float>(value); };
        std::vector<float> sums;
        for (std::size_t at = 0; at < values_[0].size(); ++at) {
            const float first = values_[0][at];
            float sum = rounded(double{mix.terms[0].weight} * double{first});
            for (std::size_t i = 1; i < mix.terms.size(); ++i) {
                float x = values_[i][at];
                if (mix.kind == MixKind::deltas) {
                    x = rounded(double{x} - double{first});
                }
                sum =
                    rounded(double{sum} + double{rounded(double{mix.terms[i].weight} * double{x})});
            }
            sums.push_back(sum);
        }
        return sums;
    }

    execute::Result merge(const plan::Plan& plan, std::string& bytes) {
        execute::Result result;
        bytes = sample_.merge(plan, result, files_);
        return result;
    }
    [[nodiscard]] const std::vector<catalogue::File>& files() const { return files_; }

  private:
    static constexpr std::array<DType, 4> kTypes{DType::bf16, DType::f32, DType::f16, DType::f64};
    static std::string name_of(std::size_t i) { return "checkpoint" + std::to_string(i); }

    test::Sample sample_;
    std::vector<std::vector<float>> values_;
    std::vector<catalogue::File> files_;
};

std::string text_of(std::span<const float> values, DType dtype) {
    std::string text(values.size() * size_of(dtype), '\0');
    numeric::convert(DType::f32, std::as_bytes(values), dtype,
                     std::as_writable_bytes(std::span(text)));
    return text;
}

TEST(Mix, gives_the_same_sums_with_any_strategy_in_the_memory_of_one_checkpoint) {
    mpi::Comm& comm = mpi::world();
    Checkpoints checkpoints(comm);
    const std::vector<Mix> mixes{
        Checkpoints::mix(MixKind::sum, {0.25F, 0.3F}),
        Checkpoints::mix(MixKind::sum, {0.25F, 0.3F, -1.5F, 0.7F}),
        Checkpoints::mix(MixKind::deltas, {1, 0.4F}),
        Checkpoints::mix(MixKind::deltas, {1, 0.4F, 0.1F, -0.6F}),
    };
    for (const Mix& mix : mixes) {
        const std::vector<float> sums = checkpoints.expected(mix);
        for (const DType written : {DType::bf16, DType::f32}) {
            const std::string expected =
                text_of(sums, written) + std::string(static_cast<std::size_t>(kBytes), 'x');
            for (const auto& [strategy, is_ahead] : kWays) {
                plan::JobPlan choice;
                choice.strategy = strategy;
                choice.read_ahead = is_ahead;
                choice.digests = true;
                choice.memory_limit = Bytes{4} << 20U;
                const plan::Plan plan = plan::make_plan(
                    checkpoints.targets(mix, written), checkpoints.files(),
                    plan::Visibility::everywhere(comm.size(), checkpoints.files().size()), choice);
                EXPECT_EQ(plan.n_terms, mix.terms.size());
                EXPECT_LE(plan.limits.total(), choice.memory_limit);
                std::string bytes;
                const execute::Result result = checkpoints.merge(plan, bytes);
                const std::string& header = plan.placement.files.front().header;
                EXPECT_TRUE(bytes == header + expected);
                Bytes sent = 0;  // of many ranks one may read nothing that others need
                for (const execute::RankResult& rank : result.ranks) {
                    EXPECT_LE(rank.buffer_bytes, plan::most_buffers(plan));
                    sent += rank.bytes_sent;
                }
                EXPECT_EQ(sent > 0, strategy == plan::Strategy::collective && comm.size() > 1);
            }
        }
    }
}

}  // namespace
}  // namespace shardweld
