// The CRC-32 of what one rank reads of records, while it is read for something else.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "catalogue/records.hpp"
#include "core/process/fork_safe_mutex.hpp"
#include "plan/binding.hpp"
#include "shardweld/error.hpp"

namespace shardweld::execute {

/// A range of a record's bytes.
struct RangeSum {
    Bytes begin = 0;
    Bytes end = 0;
    std::uint32_t record = 0;  ///< index into Records::all
    std::uint32_t crc32 = 0;   ///< of the range alone
    friend bool operator==(const RangeSum&, const RangeSum&) = default;
};

/// The checksums of what one rank reads of each record, collected by all its threads.
class RecordSums {
  public:
    /// What a message calls a record, and in which file it is.
    struct RecordName {
        std::string text;  ///< "record a/data/0 (7680 bytes at 12288, tensor w)"
        std::string file = {};
    };
    using NameOf =
        std::function<RecordName(const catalogue::StorageRecord&, std::string_view tensor)>;

    /// What the records of a plan are used for.
    enum class RecordUse : std::uint8_t { none, replica, output };

    RecordSums(catalogue::Records records, NameOf name_of)
        : records_(std::move(records)),
          name_of_(std::move(name_of)),
          uses_(records_.all.size(), RecordUse::none) {}
    /// Those that another rank has been told to want.
    RecordSums(catalogue::Records records, std::vector<RecordUse> uses, NameOf name_of)
        : records_(std::move(records)), name_of_(std::move(name_of)), uses_(std::move(uses)) {}
    [[nodiscard]] const std::vector<RecordUse>& uses() const { return uses_; }

    /// The records of the targets' operands are used; what is read of those of replicas is noted as
    /// well. All others are passed over.
    void use_records_of(const std::vector<plan::Target>& targets);
    void want_all() { uses_.assign(uses_.size(), RecordUse::output); }

    /// Notes bytes that were read at a place of a file; what is known already is not looked at.
    /// Error(corrupt) when they make a record whole and its sum is not the stated one. From any
    /// thread: several sum at a time.
    void add(std::uint32_t file, Bytes offset, ByteView bytes);
    /// Notes what an earlier run has read; what cannot be true is passed over.
    void add_earlier(std::span<const RangeSum> sums);

    /// What is known and was not handed out by this before, for a journal.
    std::vector<RangeSum> take_new();
    /// All that is known, also of an earlier run, in the order of the records.
    [[nodiscard]] std::vector<RangeSum> all() const;

    [[nodiscard]] const catalogue::Records& records() const { return records_; }
    /// Whether output is made of the record and its checksum is stated.
    [[nodiscard]] bool is_due(std::size_t record) const {
        return uses_[record] == RecordUse::output && records_.all[record].crc32 != 0;
    }
    /// Records that output is made of and that state no checksum.
    [[nodiscard]] Index n_without() const;
    /// Noted so far, each byte once.
    [[nodiscard]] Bytes bytes() const { return bytes_; }

    /// Error(corrupt): the record's bytes have this sum instead of the stated one.
    [[nodiscard]] Error wrong(std::uint32_t record, std::uint32_t found) const;
    /// Error(corrupt): the same bytes of the record were read twice and were not the same.
    [[nodiscard]] Error unsteady(std::uint32_t record) const;

  private:
    struct KnownRange {
        RangeSum sum;
        bool is_new = true;
    };
    /// The ranges of one record, in order, none overlapping or touching another.
    using KnownRanges = std::vector<KnownRange>;

    [[nodiscard]] Error corrupt(const catalogue::StorageRecord& record,
                                const std::string& how) const;
    void mark(const plan::Target& target, const plan::Operand& operand, RecordUse use);
    void add_to(std::uint32_t record, Bytes begin, ByteView bytes);
    static KnownRanges::const_iterator first_behind(const KnownRanges& ranges, Bytes byte);
    [[nodiscard]] std::vector<RangeSum> unknown(const RangeSum& place) const;
    bool merge_sums(std::uint32_t record, const std::vector<RangeSum>& sums);
    void insert(KnownRanges& ranges, const RangeSum& sum);

    catalogue::Records records_;
    NameOf name_of_;
    std::vector<RecordUse> uses_;
    mutable ForkSafeMutex mutex_;
    std::unordered_map<std::uint32_t, KnownRanges> ranges_;
    std::unordered_set<std::uint32_t> changed_;  ///< records with ranges that are new
    std::vector<RangeSum> earlier_;
    std::size_t n_ranges_ = 0;
    Bytes bytes_ = 0;
};

}  // namespace shardweld::execute
