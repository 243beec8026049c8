#include "strategy.hpp"

#include <algorithm>

#include "shardweld/core/text.hpp"

#include "known_replicas.hpp"

namespace shardweld::plan {

namespace {

// Comparing so much costs no noticeable time.
constexpr Bytes kFewReplicas = 64 * kMiB;
// Of the bytes of a target as stored, where its replicas are sampled.
constexpr Bytes kSampledPart = 20;

/// Mean length of the contiguous source runs behind one target byte stream.
Bytes mean_source_run(const std::vector<Target>& targets) {
    Bytes bytes = 0;
    Bytes runs = 0;
    for (const Target& target : targets) {
        for (const Operand& operand : target.operands) {
            const auto volume = static_cast<Bytes>(operand.copy.volume());
            Bytes run = 1;
            for (const layout::Loop& loop : operand.copy.loops) {
                if (loop.src_stride == 1) {
                    run = static_cast<Bytes>(loop.extent);
                }
            }
            bytes += volume * size_of(target.stored);
            runs += volume / std::max<Bytes>(run, 1);
        }
    }
    return runs == 0 ? 0 : bytes / runs;
}

Bytes replica_bytes(const Target& target) {
    Bytes bytes = 0;
    for (const Operand& replica : target.replicas) {
        bytes += source_bytes(target, replica);
    }
    return bytes;
}

}  // namespace

Bytes source_bytes(const Target& target, const Operand& operand) {
    return static_cast<Bytes>(operand.copy.volume()) * size_of(target.stored);
}

std::size_t hidden_files(const Visibility& visibility, const std::vector<catalogue::File>& files) {
    std::size_t n_hidden = 0;
    for (std::size_t file = 0; file < files.size(); ++file) {
        n_hidden += std::any_of(visibility.group_sees.begin(), visibility.group_sees.end(),
                                [&](const auto& sees) { return !sees[file]; })
                        ? 1U
                        : 0U;
    }
    return n_hidden;
}

Decision decide(const std::vector<Target>& targets, const std::vector<catalogue::File>& files,
                const Visibility& visibility, Strategy asked) {
    if (asked == Strategy::collective) {
        return {asked, "asked for"};
    }
    const std::size_t n_hidden = hidden_files(visibility, files);
    if (asked == Strategy::direct) {
        return {asked, n_hidden == 0 ? "asked for"
                                     : "asked for; " + std::to_string(n_hidden) +
                                           " files that not all ranks see are sent"};
    }
    if (visibility.group_of_rank.size() == 1) {
        return {Strategy::direct, "one rank"};
    }
    constexpr Bytes kShortRun = 4096;
    const Bytes run = mean_source_run(targets);
    Bytes total = 0;
    for (const Target& target : targets) {
        total += target.bytes();
    }
    if (run < kShortRun && total > 64 * kMiB) {
        return {Strategy::collective, "source runs are short (" + human_bytes(run) +
                                          " on average): reading each byte once pays"};
    }
    const std::string seen = n_hidden == 0 ? "all ranks see all files"
                                           : std::to_string(n_hidden) + " of " +
                                                 std::to_string(files.size()) +
                                                 " files are seen by some ranks only, and sent";
    return {Strategy::direct, seen + "; source runs are " + human_bytes(run) + " on average"};
}

void choose_samples(Plan& plan, Replicas asked, const catalogue::Records* records) {
    std::vector<Bytes> of_target;
    std::vector<bool> is_doubtful;
    Bytes unknown = 0;
    for (Target& target : plan.targets) {
        plan.replica_bytes += replica_bytes(target);
        is_doubtful.push_back(asked == Replicas::automatic && records != nullptr &&
                              !drop_equal(target, *records));
        of_target.push_back(replica_bytes(target));
        unknown += of_target.back();
    }
    plan.equal_bytes = plan.replica_bytes - unknown;
    const bool is_small = unknown <= std::max(plan.placement.tensor_bytes / 10, kFewReplicas);
    for (std::size_t i = 0; i < of_target.size(); ++i) {
        const Target& target = plan.targets[i];
        const auto stored = static_cast<Bytes>(target.volume()) * size_of(target.stored);
        Bytes every = 1;
        if (asked == Replicas::trust) {
            every = 0;
        } else if (asked == Replicas::automatic && !is_small && !is_doubtful[i]) {
            every = std::max<Bytes>(1, kSampledPart * of_target[i] / std::max<Bytes>(stored, 1));
        }
        plan.sample_every.push_back(static_cast<std::uint32_t>(every));
        plan.compared_bytes += every == 0 ? 0 : of_target[i] / every;
    }
}

}  // namespace shardweld::plan
