// Which parts of the input nothing needs any more, as the output gets on.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "plan/plan.hpp"

namespace shardweld::execute {

/// Bytes [begin, end) of an input file.
struct FileRange {
    std::uint32_t file = 0;
    Bytes begin = 0;
    Bytes end = 0;
    friend bool operator==(const FileRange&, const FileRange&) = default;
};

/// The input of a plan as stretches: ranges of files that the same operands need. Replicas are
/// equal to what the output is made of, which was looked at before: they are needed as long as
/// their target is not made, unless an operand has the same bytes. `plan` must outlive it.
class Consumption {
  public:
    explicit Consumption(const plan::Plan& plan);

    /// A slice is made for good, by this rank or by an earlier run. The ranges that nobody needs
    /// any more. Each slice comes once. A stretch that several ranks have a part in stays, as none
    /// of them knows of the others: here `rank` had one.
    std::vector<FileRange> take(const plan::Slice& slice, int rank);

    /// The first operand of a slice that needs one of these ranges; nullptr: there is none.
    [[nodiscard]] const plan::Operand* needing(const plan::Slice& slice,
                                               std::span<const FileRange> ranges) const;

    /// Bytes of each of `n` files that the output needs.
    [[nodiscard]] std::vector<Bytes> used_of_files(std::size_t n) const;

  private:
    struct Stretch : FileRange {
        Bytes needed = 0;  ///< of all operands
        Bytes taken = 0;
        std::uint32_t n_operands = 0;
        std::int32_t rank = -1;  ///< that has taken of it; -1: none
        bool is_shared = false;  ///< several have
        bool is_of_replicas = false;
    };
    static std::vector<Stretch> joined(std::vector<Stretch> ranges);
    void add(const plan::Target& target, const plan::Operand& operand, std::vector<Stretch>& out,
             bool is_replica) const;
    Stretch* stretch_at(std::uint32_t file, Bytes begin);
    void take_operands(std::span<const plan::Operand> operands, const plan::Slice& slice,
                       bool are_replicas, int rank, std::vector<FileRange>& out);

    const plan::Plan& plan_;
    std::vector<Stretch> stretches_;  ///< in order, none overlapping
};

/// Where a plan's output is written beside its input and ranges are given back, `every` bytes of
/// each rank: the most that is there of the output at a time beyond what was given back, by all
/// ranks. Pure.
Bytes most_beside(const plan::Plan& plan, Bytes every);

/// Ranges that grow together, file by file.
class FreedRanges {
  public:
    explicit FreedRanges(std::size_t n_files) : files_(n_files) {}

    /// The range, grown by what touches it.
    FileRange add(const FileRange& range);
    /// All of them, in order.
    [[nodiscard]] std::vector<FileRange> all() const;

  private:
    std::vector<std::map<Bytes, Bytes>> files_;  ///< ends by begins
};

}  // namespace shardweld::execute
