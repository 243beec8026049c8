// Speed of layout::run against memcpy of the same bytes in the same process, and of planning calls.
// Knows nothing of files; prints one line per case.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "layout/copy.hpp"
#include "layout/expression.hpp"
#include "layout/patch.hpp"

namespace {

namespace layout = shardweld::layout;
using layout::Copy;
using shardweld::Index;
using Memory = std::vector<std::byte>;

constexpr Index kBytes = Index{64} << 20;

/// Seconds of the fastest of some calls.
template <typename Call>
double seconds(const Call& call) {
    double best = 1e9;
    for (int i = 0; i < 7; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        call();
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
        best = std::min(best, taken.count());
    }
    return best;
}

class Bench {
  public:
    Bench() : src_(2 * kBytes, std::byte{1}), dst_(2 * kBytes, std::byte{2}) {
        memcpy_ = seconds([&] { std::memcpy(dst_.data(), src_.data(), kBytes); });
        std::printf("memcpy of %lld MiB: %.2f GB/s\n", static_cast<long long>(kBytes >> 20),
                    static_cast<double>(kBytes) / memcpy_ / 1e9);
    }

    void time(const std::string& name, const Copy& copy, Index element_bytes) {
        const auto size = static_cast<std::size_t>(element_bytes);
        const double taken = seconds([&] { layout::run(copy, size, src_, dst_); });
        const auto bytes = static_cast<double>(copy.volume() * element_bytes);
        std::printf("%-46s %7.2f GB/s  %5.1f %% of memcpy\n", name.c_str(), bytes / taken / 1e9,
                    100 * (bytes / taken) / (static_cast<double>(kBytes) / memcpy_));
    }

  private:
    Memory src_;
    Memory dst_;
    double memcpy_ = 0;
};

void time_runs(Bench& bench) {
    for (Index run = 16; run <= Index{16} << 20; run *= run < 1024 ? 2 : 8) {
        const Index length = run / 2;
        // Gathered: the source has gaps of half a run and a bit, so that its rows fall onto all
        // cache sets.
        const Index stride = length + length / 2 + 8;
        bench.time("runs of " + std::to_string(run) + " B, source with gaps",
                   {0, 0, {{kBytes / run / 2, stride, length}, {length, 1, 1}}}, 2);
    }
    bench.time("runs of 48 B", {0, 0, {{kBytes / 48, 40, 24}, {24, 1, 1}}}, 2);
    bench.time("runs of 200 B", {0, 0, {{kBytes / 200, 140, 100}, {100, 1, 1}}}, 2);
}

void time_transposes(Bench& bench) {
    for (const Index size : {1, 2, 4, 8}) {
        const std::string of = " of " + std::to_string(size) + " B";
        const Index n = 4096;
        const Index m = kBytes / size / n;
        bench.time("transpose [4096, n]" + of, {0, 0, {{m, 1, n}, {n, m, 1}}}, size);
        const Index odd = 4100;
        const Index rows = kBytes / size / odd;
        bench.time("transpose [4100, n]" + of, {0, 0, {{rows, 1, odd}, {odd, rows, 1}}}, size);
    }
    // gpt-oss: gate of one expert [f, h] into [h, f, 2].
    const Index h = 2880;
    bench.time("interleaved transpose [2880, 2880] of 2 B", {0, 0, {{h, 1, 2 * h}, {h, h, 2}}}, 2);
    // Rotary order: [n, p, 2] -> [n, 2, p], columns dense.
    const Index heads = kBytes / 2 / 128;
    bench.time("de-interleave pairs of 2 B", {0, 0, {{heads, 128, 128}, {2, 1, 64}, {64, 2, 1}}},
               2);
    bench.time("every second element of 2 B", {0, 0, {{kBytes / 2, 2, 1}}}, 2);
}

/// Nanoseconds of one call.
template <typename Call>
void nanoseconds(const char* name, const Call& call) {
    constexpr int kCalls = 1'000'000;
    const double taken = seconds([&] {
        for (int i = 0; i < kCalls; ++i) {
            call();
        }
    });
    std::printf("%-46s %7.1f ns\n", name, taken / kCalls * 1e9);
}

void time_planning() {
    const auto extent_of = [](const std::string& name) -> Index {
        return name == "h" ? 8192 : name == "d" ? 128 : 8;
    };
    const auto fused =
        layout::BoundLayout::bind(layout::parse_layout("(g [q: p d | k: d | v: d]) h"), extent_of);
    const auto plain = layout::BoundLayout::bind(layout::parse_layout("(t f) h"), extent_of);
    std::vector<layout::SegmentPatch> parts;
    const layout::Patch whole = layout::dense_shape(fused.shape());
    nanoseconds("lower, fused QKV whole", [&] {
        parts.clear();
        fused.lower(whole, parts);
    });
    const layout::Patch cut = layout::dense({{700, 2500}, {0, 8192}});
    nanoseconds("lower, fused QKV cut inside groups", [&] {
        parts.clear();
        fused.lower(cut, parts);
    });
    const layout::Patch rows = layout::dense({{16, 32}, {0, 8192}});
    nanoseconds("lower, aligned rows of (t f) h", [&] {
        parts.clear();
        plain.lower(rows, parts);
    });

    parts.clear();
    fused.lower(whole, parts);
    const layout::Patch& q = parts[0].patch;
    const layout::Patch dense_q = layout::dense({{0, 128}, {0, 8}, {0, 8192}, {0, 8}});
    Index sum = 0;
    nanoseconds("overlap, 4 axes", [&] { sum += overlap(q, dense_q)->dst_offset; });
    const Copy copy = *overlap(q, dense_q);
    nanoseconds("restrict_dst, all inside",
                [&] { sum += layout::restrict_dst(copy, 0, Index{1} << 40)[0].dst_offset; });
    nanoseconds("restrict_dst, cut",
                [&] { sum += layout::restrict_dst(copy, 12345, 54321)[0].dst_offset; });
    std::printf("(%lld)\n", static_cast<long long>(sum % 10));
}

}  // namespace

int main() {
    Bench bench;
    time_runs(bench);
    time_transposes(bench);
    time_planning();
    return 0;
}
