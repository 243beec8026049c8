#include "record_sums.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/crc32.hpp"

namespace shardweld::execute {

namespace {

// Ranges that are kept, 8 MiB of them: strided reads of records that are never read in full are
// given up.
constexpr std::size_t kMostRanges = std::size_t{1} << 18U;

bool is_in_order(const RangeSum& a, const RangeSum& b) {
    return std::tie(a.record, a.begin, a.end) < std::tie(b.record, b.begin, b.end);
}

}  // namespace

void RecordSums::mark(const plan::Target& target, const plan::Operand& operand, RecordUse use) {
    const Bytes first =
        static_cast<Bytes>(operand.copy.src_offset) * size_of(target.stored_as(operand));
    if (const auto record = records_.at(operand.file, operand.base + first)) {
        uses_[*record] = std::max(uses_[*record], use);
    }
}

void RecordSums::use_records_of(const std::vector<plan::Target>& targets) {
    for (const plan::Target& target : targets) {
        for (const plan::Operand& operand : target.operands) {
            mark(target, operand, RecordUse::output);
        }
        for (const plan::Operand& replica : target.replicas) {
            mark(target, replica, RecordUse::replica);
        }
    }
}

void RecordSums::add(std::uint32_t file, Bytes offset, ByteView bytes) {
    const Bytes end = offset + bytes.size();
    for (std::size_t i = records_.first_behind(file, offset); i < records_.all.size(); ++i) {
        const catalogue::StorageRecord& record = records_.all[i];
        if (record.file != file || record.offset >= end) {
            break;
        }
        if (uses_[i] != RecordUse::none && record.crc32 != 0) {
            const Bytes first = std::max(offset, record.offset);
            const Bytes last = std::min(end, record.offset + record.bytes);
            add_to(static_cast<std::uint32_t>(i), first - record.offset,
                   bytes.subspan(first - offset, last - first));
        }
    }
}

/// Only what no range holds yet. The lock is not held over the sums, which take long: where another
/// thread noted some of the bytes meanwhile, the rest is summed again.
void RecordSums::add_to(std::uint32_t record, Bytes begin, ByteView bytes) {
    std::vector<RangeSum> sums;
    do {
        sums = unknown({begin, begin + bytes.size(), record, 0});
        for (RangeSum& sum : sums) {
            sum.crc32 = crc32(bytes.subspan(sum.begin - begin, sum.end - sum.begin));
        }
    } while (!merge_sums(record, sums));
}

/// The first known range that ends behind a byte.
RecordSums::KnownRanges::const_iterator RecordSums::first_behind(const KnownRanges& ranges,
                                                                 Bytes byte) {
    return std::ranges::upper_bound(ranges, byte, {},
                                    [](const KnownRange& known) { return known.sum.end; });
}

/// The parts of a range that no known one holds.
std::vector<RangeSum> RecordSums::unknown(const RangeSum& place) const {
    std::vector<RangeSum> gaps;
    const std::lock_guard lock(mutex_);
    auto* const found = find_value(ranges_, place.record);
    if (found == nullptr) {
        return {place};
    }
    const KnownRanges& ranges = *found;
    Bytes at = place.begin;
    for (auto known = first_behind(ranges, at);
         known != ranges.end() && known->sum.begin < place.end; ++known) {
        if (at < known->sum.begin) {
            gaps.push_back({at, known->sum.begin, place.record, 0});
        }
        at = known->sum.end;
    }
    if (at < place.end) {
        gaps.push_back({at, place.end, place.record, 0});
    }
    return gaps;
}

/// Adds sums of what is not known; false, and nothing is added, where some of it is known by now.
bool RecordSums::merge_sums(std::uint32_t record, const std::vector<RangeSum>& sums) {
    const std::lock_guard lock(mutex_);
    KnownRanges& ranges = ranges_[record];
    const auto is_known = [&](const RangeSum& sum) {
        const auto next = first_behind(ranges, sum.begin);
        return next != ranges.end() && next->sum.begin < sum.end;
    };
    if (std::ranges::any_of(sums, is_known)) {
        return false;
    }
    for (const RangeSum& sum : sums) {
        insert(ranges, sum);
        changed_.insert(record);
    }
    if (ranges.empty()) {
        return true;  // another thread gave it up
    }
    const catalogue::StorageRecord& whole = records_.all[record];
    const RangeSum& first = ranges.front().sum;
    if (first.end - first.begin == whole.bytes && first.crc32 != whole.crc32) {
        throw wrong(record, first.crc32);
    }
    if (n_ranges_ > kMostRanges && ranges.size() > 1) {
        n_ranges_ -= ranges.size();
        ranges_.erase(record);
        changed_.erase(record);
    }
    return true;
}

/// A range between two others, or at their edges: what touches becomes one.
void RecordSums::insert(KnownRanges& ranges, const RangeSum& sum) {
    bytes_ += sum.end - sum.begin;
    const auto append = [](KnownRange& known, const RangeSum& more) {
        known.sum.crc32 = crc32_moved(known.sum.crc32, more.end - more.begin) ^ more.crc32;
        known.sum.end = more.end;
        known.is_new = true;
    };
    auto at = std::ranges::lower_bound(ranges, sum.begin, {},
                                       [](const KnownRange& known) { return known.sum.end; });
    if (at != ranges.end() && at->sum.end == sum.begin) {
        append(*at, sum);
    } else {
        at = ranges.insert(at, {sum, true});
        ++n_ranges_;
    }
    const auto behind = std::next(at);
    if (behind != ranges.end() && behind->sum.begin == sum.end) {
        append(*at, behind->sum);
        ranges.erase(behind);
        --n_ranges_;
    }
}

void RecordSums::add_earlier(std::span<const RangeSum> sums) {
    for (const RangeSum& sum : sums) {
        const bool is_possible = sum.record < records_.all.size() && sum.begin < sum.end &&
                                 sum.end <= records_.all[sum.record].bytes;
        if (is_possible && uses_[sum.record] != RecordUse::none) {
            earlier_.push_back(sum);
        }
    }
    // A range was written down as often as it grew: the last of them counts.
    std::ranges::sort(earlier_, [](const RangeSum& a, const RangeSum& b) {
        return std::tie(a.record, a.begin, b.end) < std::tie(b.record, b.begin, a.end);
    });
    std::size_t n_kept = 0;
    for (const RangeSum& sum : earlier_) {
        const bool is_inside = n_kept > 0 && earlier_[n_kept - 1].record == sum.record &&
                               sum.end <= earlier_[n_kept - 1].end;
        if (!is_inside) {
            earlier_[n_kept++] = sum;
        }
    }
    earlier_.resize(n_kept);
}

std::vector<RangeSum> RecordSums::take_new() {
    const std::lock_guard lock(mutex_);
    std::vector<RangeSum> sums;
    for (const std::uint32_t record : changed_) {
        for (KnownRange& known : ranges_[record]) {
            if (std::exchange(known.is_new, false)) {
                sums.push_back(known.sum);
            }
        }
    }
    changed_.clear();
    return sums;
}

std::vector<RangeSum> RecordSums::all() const {
    const std::lock_guard lock(mutex_);
    std::vector<RangeSum> sums = earlier_;
    for (const auto& [record, ranges] : ranges_) {
        for (const KnownRange& known : ranges) {
            sums.push_back(known.sum);
        }
    }
    std::ranges::sort(sums, is_in_order);
    return sums;
}

Index RecordSums::n_without() const {
    Index n_without = 0;
    for (const std::size_t i : indices(uses_)) {
        n_without += uses_[i] == RecordUse::output && records_.all[i].crc32 == 0 ? 1 : 0;
    }
    return n_without;
}

Error RecordSums::wrong(std::uint32_t record, std::uint32_t found) const {
    const catalogue::StorageRecord& one = records_.all[record];
    return corrupt(one, wrong_crc32(found, one.crc32));
}

Error RecordSums::unsteady(std::uint32_t record) const {
    return corrupt(records_.all[record],
                   " was read by several ranks, and some bytes were not the same for all: the "
                   "nodes have different copies of the file, or its storage fails");
}

Error RecordSums::corrupt(const catalogue::StorageRecord& record, const std::string& how) const {
    const RecordName name = name_of_(record, records_.tensors[record.tensor]);
    Error error(ErrorCode::corrupt, name.text + how);
    return name.file.empty() ? error : error.add_context("file " + name.file);
}

}  // namespace shardweld::execute
