#include "strategy.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "catalogue/records.hpp"
#include "core/text.hpp"
#include "plan/binding.hpp"
#include "plan/plan.hpp"

#include "read_shares.hpp"
#include "reading.hpp"

namespace shardweld::plan {

namespace {

/// An operand's record and where in it the operand begins; nullopt where no checksum is stated.
struct PlaceInRecord {
    const catalogue::StorageRecord* record = nullptr;
    Bytes begin = 0;
};

std::optional<PlaceInRecord> place_of(const Target& target, const Operand& operand,
                                      const catalogue::Records& records) {
    const Bytes address = address_of(target, operand);
    const auto found = records.at(operand.file, address);
    if (!found || records.all[*found].crc32 == 0) {
        return std::nullopt;
    }
    return PlaceInRecord{&records.all[*found], address - records.all[*found].offset};
}

/// Whether two records are equal in which something lies at one place; nullopt: nothing tells.
std::optional<bool> are_equal(const PlaceInRecord& a, const PlaceInRecord& b) {
    return a.begin == b.begin && a.record->bytes == b.record->bytes
               ? std::optional(a.record->crc32 == b.record->crc32)
               : std::nullopt;
}

/// Takes out the target's replicas that lie in a record as the original lies in its own, both of
/// one size and with one checksum: they are equal. False when for another such replica the
/// checksums differ: something in the records does, perhaps nothing of the target's.
bool drop_equal(Target& target, const catalogue::Records& records) {
    if (target.replicas.empty()) {
        return true;
    }
    // By term and place.
    std::map<std::pair<std::uint32_t, Index>, const Operand*> originals;
    for (const Operand& operand : target.operands) {
        originals.emplace(std::pair(operand.term, operand.copy.dst_offset), &operand);
    }
    bool is_unlike = false;
    const auto is_equal = [&](const Operand& replica) {
        if (replica.own_type) {
            return false;
        }
        auto* const original = find_value(originals, {replica.term, replica.copy.dst_offset});
        if (original == nullptr || (*original)->copy != replica.copy) {
            return false;
        }
        const auto a = place_of(target, replica, records);
        const auto b = place_of(target, **original, records);
        const auto found = a && b ? are_equal(*a, *b) : std::nullopt;
        is_unlike = is_unlike || found == false;
        return found == true;
    };
    target.replicas.change([&](auto& replicas) { std::erase_if(replicas, is_equal); });
    return !is_unlike;
}

// Reading so much costs no noticeable time.
constexpr Bytes kLittle = 64 * kMiB;
// What owners read more than once is too much from a fourth of the model's bytes on.
constexpr Bytes kMuch = 4;
// Where replicas are sampled, a twentieth of a target's stored bytes is compared.
constexpr Bytes kSampledPart = 20;

/// What owners read of transposed tensors beyond what they need: each window of such a source holds
/// elements of other rounds and owners too, which read it again.
Bytes read_again(const Plan& plan) {
    const Bytes share = plan.placement.tensor_bytes / static_cast<Bytes>(plan.n_ranks());
    const Bytes room = std::min(plan.limits.round, share);
    Bytes again = 0;
    for (const std::size_t i : indices(plan.targets)) {
        const Target& target = plan.targets[i];
        if (plan.scattered[i]) {
            const auto written = static_cast<Index>(room / buffer_bytes(target, 1));
            const Index round = written * target.packing();
            for (const Operand& operand : target.operands) {
                const ReadingSteps steps{size_of(target.stored_as(operand)),
                                         std::max<Index>(round, 1), 0,
                                         std::max<Bytes>(plan.limits.scratch / 2, 1)};
                again += reading_of(operand.copy, steps).bytes - source_bytes(target, operand);
            }
        }
    }
    return again;
}

}  // namespace

std::size_t hidden_files(const Visibility& visibility, const std::vector<catalogue::File>& files) {
    std::size_t n_hidden = 0;
    for (const std::size_t file : indices(files)) {
        n_hidden += std::ranges::any_of(visibility.group_sees,
                                        [&](const auto& sees) { return !sees[file]; })
                        ? 1U
                        : 0U;
    }
    return n_hidden;
}

Decision decide(const Plan& plan, const std::vector<catalogue::File>& files,
                const JobPlan& choice) {
    if (choice.limits_readers(plan.n_ranks())) {
        return {Strategy::collective, std::to_string(plan.readers.size()) + " of " +
                                          std::to_string(plan.n_ranks()) +
                                          " ranks read, as --max_readers asks"};
    }
    if (choice.strategy == Strategy::collective) {
        return {choice.strategy, "asked for"};
    }
    const std::size_t n_hidden = hidden_files(plan.visibility, files);
    if (choice.strategy == Strategy::direct) {
        return {choice.strategy, n_hidden == 0 ? "asked for"
                                               : "asked for; " + std::to_string(n_hidden) +
                                                     " files that not all ranks see are sent"};
    }
    if (plan.n_ranks() == 1) {
        return {Strategy::direct, "one rank"};
    }
    const Bytes again = read_again(plan);
    if (again > std::max(plan.placement.tensor_bytes / kMuch, kLittle)) {
        return {Strategy::collective,
                "each byte is read once; owners would read " + human_bytes(again) + " again"};
    }
    return {Strategy::direct, n_hidden == 0 ? "all ranks see all files"
                                            : std::to_string(n_hidden) + " of " +
                                                  std::to_string(files.size()) +
                                                  " files are seen by some ranks only, and sent"};
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
    const bool is_small = unknown <= std::max(plan.placement.tensor_bytes / 10, kLittle);
    for (const std::size_t i : indices(of_target)) {
        const Target& target = plan.targets[i];
        const Bytes stored = source_bytes(target);
        // Masters prove where the states of an optimizer belong: all of them are looked at.
        const bool is_proof = std::ranges::any_of(
            target.replicas, [](const Operand& one) { return one.own_type.has_value(); });
        Bytes every = 1;
        if (asked == Replicas::trust && !is_proof) {
            every = 0;
        } else if (!is_proof && asked == Replicas::automatic && !is_small && !is_doubtful[i]) {
            every = std::max<Bytes>(1, kSampledPart * of_target[i] / std::max<Bytes>(stored, 1));
        }
        plan.sample_every.push_back(static_cast<std::uint32_t>(every));
        plan.compared_bytes += every == 0 ? 0 : of_target[i] / every;
    }
}

}  // namespace shardweld::plan
