// The whole plan of a run, the same value on every rank.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "catalogue/file.hpp"
#include "core/inline_vector.hpp"
#include "outputs/output.hpp"
#include "plan/binding.hpp"
#include "plan/job_plan.hpp"
#include "plan/visibility.hpp"

#include "limits.hpp"
#include "output_range.hpp"
#include "ownership.hpp"

namespace shardweld::plan {

/// A place among all bytes that are read, by file and address: from here to the next one `reader`
/// reads what owners do not read themselves.
struct ReadCut {
    std::uint32_t file = 0;
    Bytes address = 0;
    std::uint32_t reader = 0;
};
[[nodiscard]] inline bool is_before(const ReadCut& a, const ReadCut& b) {
    return std::tie(a.file, a.address) < std::tie(b.file, b.address);
}

/// Which output of which target a written tensor is.
struct OutputOfTarget {
    std::uint32_t target = 0;
    std::uint32_t output = 0;  ///< 0: the first, which has the operands
};

/// Elements [begin, end) of a written tensor.
struct Slice {
    std::uint32_t tensor = 0;
    Index begin = 0;
    Index end = 0;
    Bytes output_begin = 0;  ///< where `begin` lies in the output space
};

/// Targets are what is to be done; tensors are what is written, in the order of targets, and what
/// slots, slices, blocks and checksums are counted by.
struct Plan {
    std::vector<Target> targets;
    std::vector<OutputOfTarget> tensors;
    outputs::Placement placement;
    OutputSpace space;
    std::vector<Bytes> cuts;         ///< owners' runs in the output space, n_ranks + 1
    std::vector<int> readers;        ///< ranks that may read, ascending
    std::vector<ReadCut> read_cuts;  ///< in order; none where owners read all themselves
    Strategy strategy = Strategy::direct;
    std::string why;           ///< of the strategy, for people
    bool is_lockstep = false;  ///< ranks exchange in common rounds (else each runs freely)
    Bytes replica_bytes = 0;
    Bytes equal_bytes = 0;     ///< of these, by their checksums: no target has them any more
    Bytes compared_bytes = 0;  ///< of these; about, where samples are
    /// By target: each of its replicas is compared in every n-th megabyte of the output space; 0:
    /// not at all.
    std::vector<std::uint32_t> sample_every;
    Visibility visibility;
    LimitNeeds needs;  ///< of the targets, and of the ranks that it was shared among last
    Limits limits;
    std::vector<bool> scattered;  ///< by target: is_scattered
    /// Each part of the output space takes so many rounds, one for each checkpoint of a mix. What
    /// is not mixed is read in the last.
    std::uint32_t n_terms = 1;
    /// The digest, where another rank has made this plan; "": it has to be worked out.
    std::string known_hash = {};

    [[nodiscard]] int n_ranks() const { return static_cast<int>(cuts.size()) - 1; }

    [[nodiscard]] const Target& target_of(std::uint32_t tensor) const {
        return targets[tensors[tensor].target];
    }
    [[nodiscard]] const WrittenTensor& tensor(std::uint32_t at) const {
        return target_of(at).output(tensors[at].output);
    }
    /// What a tensor's elements, and those of the ones that are made with it, are made of; none for
    /// a constant and for the ones that are made with another.
    [[nodiscard]] std::span<const Operand> operands_of(std::uint32_t tensor) const;
    [[nodiscard]] std::span<const Operand> replicas_of(std::uint32_t tensor) const;
    /// The elements of these that a slice is made of.
    [[nodiscard]] layout::Range sources(const Slice& slice) const;
    /// Whether a tensor is made of nothing stored.
    [[nodiscard]] bool is_constant(std::uint32_t tensor) const;
    /// Whether rounds of it should be large: see is_scattered.
    [[nodiscard]] bool is_read_scattered(std::uint32_t tensor) const {
        return scattered[tensors[tensor].target] && !is_constant(tensor);
    }
    [[nodiscard]] Index strip_elements(std::uint32_t tensor) const {
        return target_of(tensor).strip_elements(tensors[tensor].output);
    }
    [[nodiscard]] Index block_elements(std::uint32_t tensor) const {
        return target_of(tensor).block_elements(tensors[tensor].output);
    }
    [[nodiscard]] Bytes bytes_of(const Slice& slice) const {
        return static_cast<Bytes>(slice.end - slice.begin) * size_of(tensor(slice.tensor).dtype);
    }

    /// The rank that reads an operand for an owner.
    [[nodiscard]] int reader_of(const Operand& operand, const Target& target, int owner) const;
    /// Digest of what determines the output, for reports and agreement between ranks and runs: not
    /// their number, not the strategy.
    [[nodiscard]] std::string hash() const;
};

/// Cuts the output space anew, so that each rank has as much of what no range of the united list
/// `done` holds.
void share_rest(Plan& plan, std::span<const OutputRange> done, Bytes alignment);

/// Places, cuts and chooses. Error(mismatch) when there is nothing to write; Error(usage) when the
/// readers that JobPlan::max_readers allows do not see all files.
Plan make_plan(std::vector<Target> targets, const std::vector<catalogue::File>& files,
               Visibility visibility, const JobPlan& choice);

/// The last step of make_plan, and the only one that depends on ranks: cuts the output space and
/// chooses who reads, for others than those that the plan was made for.
void share_among(Plan& plan, const std::vector<catalogue::File>& files, Visibility visibility,
                 const JobPlan& choice);

/// What outputs need to know of targets.
outputs::OutputTensors output_tensors(const std::vector<Target>& targets);

/// What a part of the output space takes to make, in output order: slices of tensors, but of those
/// that are made together, strip by strip, only the first one's. The part ends between strips.
std::vector<Slice> work_of(const Plan& plan, OutputRange range);

/// A slice of work_of and, behind it in the output space, those of the tensors that are made with
/// it.
using MadeTogether = InlineVector<Slice, 2>;
MadeTogether made_with(const Plan& plan, const Slice& slice);

/// All slices of a part of the output space, in output order: one after another, of which there
/// may be a million, or as a list.
void for_each_slice(const Plan& plan, OutputRange range,
                    const std::function<void(const Slice&)>& visit);
std::vector<Slice> slices_of(const Plan& plan, OutputRange range);

/// The part of the output space that a slice of work_of and those made with it take.
OutputRange range_of(const Plan& plan, const Slice& slice);

}  // namespace shardweld::plan
