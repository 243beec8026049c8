#include "record_check.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/crc32.hpp"
#include "io/input_file.hpp"
#include "mpi/share.hpp"

#include "joined_sums.hpp"

namespace shardweld::execute {

namespace {

using catalogue::StorageRecord;

constexpr Bytes kPart = Bytes{256} << 10U;
// Reading so much once more costs no noticeable time.
constexpr Bytes kLittle = Bytes{64} << 20U;
constexpr Bytes kCheapShare = 30;

using ByRecord = std::map<std::uint32_t, std::vector<RangeSum>>;

/// A record of which not all is known, and what would have to be read.
struct OpenRecord {
    std::uint32_t record = 0;
    bool is_due = true;  ///< false: only ranges beside a proved whole, or of a replica
    Bytes bytes = 0;
    std::vector<RecordStretch> missing;
};

/// Consecutive numbers [begin, end).
struct NumberRange {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
};

void append(std::vector<NumberRange>& runs, std::uint32_t record) {
    if (!runs.empty() && runs.back().end == record) {
        ++runs.back().end;
    } else {
        runs.push_back({record, record + 1});
    }
}

class Check {
  public:
    Check(mpi::Comm& comm, const RecordSums& sums, const SourceFiles& source,
          const plan::Visibility& visibility)
        : comm_(comm),
          sums_(sums),
          source_(source),
          visibility_(visibility),
          proved_(sums.records().all.size(), false) {}

    RecordCounts run(Completion completion, const mpi::WhyStop& why_stop,
                     const mpi::OnShare& on_read) {
        share_known();
        std::vector<RangeSum> mine = share_of(choose(completion));
        mpi::run_freely(comm_, why_stop, [&](const mpi::OnStep& step) {
            const auto before_part = [&] {
                step();
                if (on_read) {
                    on_read(static_cast<Index>(done_), static_cast<Index>(own_),
                            static_cast<Index>(bytes_read_));
                }
            };
            for (RangeSum& sum : mine) {
                read(sum, before_part);
            }
        });
        for (const RangeSum& sum : mpi::gather_all(comm_, mine)) {
            known_[sum.record].push_back(sum);
        }
        require_right_sums();
        return count();
    }

  private:
    [[nodiscard]] const StorageRecord& record(std::uint32_t i) const {
        return sums_.records().all[i];
    }

    /// A record that one rank has read as a whole is proved. The ranges that are known of all
    /// others go to all ranks.
    void share_known() {
        std::vector<NumberRange> whole;
        std::vector<NumberRange> partly;
        const std::vector<RangeSum> mine = sums_.all();
        for (std::size_t i = 0; i < mine.size();) {
            std::size_t end = i + 1;
            while (end < mine.size() && mine[end].record == mine[i].record) {
                ++end;
            }
            const bool is_whole = end == i + 1 && is_proof(mine[i]);
            append(is_whole ? whole : partly, mine[i].record);
            i = end;
        }
        for (const NumberRange& run : mpi::gather_all(comm_, whole)) {
            std::fill(proved_.begin() + run.begin, proved_.begin() + run.end, true);
        }
        std::vector<bool> is_open(proved_.size(), false);
        for (const NumberRange& run : mpi::gather_all(comm_, partly)) {
            std::fill(is_open.begin() + run.begin, is_open.begin() + run.end, true);
        }
        auto told = filter_list(mine, [&](const RangeSum& sum) { return is_open[sum.record]; });
        for (const RangeSum& sum : mpi::gather_all(comm_, told)) {
            known_[sum.record].push_back(sum);
        }
    }

    [[nodiscard]] bool is_proof(const RangeSum& sum) const {
        const StorageRecord& whole = record(sum.record);
        return sum.end - sum.begin == whole.bytes && sum.crc32 == whole.crc32;
    }

    [[nodiscard]] OpenRecord open_of(std::uint32_t i, bool is_due) const {
        auto* const found = find_value(known_, i);
        OpenRecord open{i, is_due, 0, {}};
        if (found != nullptr) {
            open.missing = missing(record(i).bytes, *found);
        } else {
            open.missing = {{0, record(i).bytes}};
        }
        for (const RecordStretch& stretch : open.missing) {
            open.bytes += stretch.end - stretch.begin;
        }
        return open;
    }

    /// The cheapest ones as far as they are worth it: those that matter first, then what only some
    /// rank has read beside the others.
    std::vector<OpenRecord> choose(Completion completion) {
        std::vector<OpenRecord> open;
        for (std::uint32_t i = 0; i < proved_.size(); ++i) {
            const bool is_due = sums_.is_due(i) && !proved_[i];
            if (is_due || known_.contains(i)) {
                open.push_back(open_of(i, is_due));
            }
        }
        std::ranges::stable_sort(
            open, {}, [](const OpenRecord& one) { return std::pair(!one.is_due, one.bytes); });
        const auto was_read = static_cast<Bytes>(comm_.all_sum(static_cast<Index>(sums_.bytes())));
        Bytes left = std::max(kLittle, was_read / kCheapShare);
        std::size_t n_chosen = 0;
        while (n_chosen < open.size() &&
               (completion == Completion::all || open[n_chosen].bytes <= left)) {
            left -= std::min(left, open[n_chosen].bytes);
            ++n_chosen;
        }
        open.resize(n_chosen);
        std::ranges::sort(open, {}, &OpenRecord::record);
        return open;
    }

    /// The rank that begins where this share of all bytes lies, or another one that sees the file.
    [[nodiscard]] int reader_of(std::uint32_t file, double share) const {
        const auto n_ranks = comm_.size();
        const int first = std::min(n_ranks - 1, static_cast<int>(share * n_ranks));
        for (int i = 0; i < n_ranks; ++i) {
            const int rank = (first + i) % n_ranks;
            if (visibility_.sees(rank, file)) {
                return rank;
            }
        }
        return first;
    }

    /// What this rank reads, still without sums; sets how much there is to read.
    std::vector<RangeSum> share_of(const std::vector<OpenRecord>& chosen) {
        for (const OpenRecord& open : chosen) {
            bytes_read_ += open.bytes;
        }
        std::vector<RangeSum> mine;
        Bytes before = 0;
        for (const OpenRecord& open : chosen) {
            for (const RecordStretch& stretch : open.missing) {
                const double share = static_cast<double>(before) / static_cast<double>(bytes_read_);
                before += stretch.end - stretch.begin;
                if (reader_of(record(open.record).file, share) == comm_.rank()) {
                    mine.push_back({stretch.begin, stretch.end, open.record, 0});
                    own_ += stretch.end - stretch.begin;
                }
            }
        }
        return mine;
    }

    const io::InputFile& opened(std::uint32_t file) {
        if (!file_.is_open() || opened_ != file) {
            const fs::path path = source_.directory / source_.files->at(file).path;
            if (source_.on_open) {
                source_.on_open(path);
            }
            file_ = io::InputFile::open(path);
            opened_ = file;
        }
        return file_;
    }

    void read(RangeSum& sum, const mpi::OnStep& before_part) {
        const StorageRecord& whole = record(sum.record);
        const io::InputFile& file = opened(whole.file);
        for (Bytes at = sum.begin; at < sum.end; at += part_.size()) {
            before_part();
            part_.resize(std::min(kPart, sum.end - at));
            if (source_.throttle) {
                source_.throttle->wait_for(part_.size());
            }
            file.read_at(whole.offset + at, part_);
            sum.crc32 = crc32(part_, sum.crc32);
            done_ += part_.size();
        }
        if (sum.end - sum.begin == whole.bytes && sum.crc32 != whole.crc32) {
            throw sums_.wrong(sum.record, sum.crc32);
        }
    }

    /// Alike on all ranks, but for who names the record.
    void require_right_sums() {
        mpi::collectively(comm_, [&] {
            for (const auto& [i, known] : known_) {
                const JoinedSums joined = join(record(i).bytes, known);
                const bool is_right = !joined.crc32 || *joined.crc32 == record(i).crc32;
                if ((!is_right || !joined.is_consistent) &&
                    reader_of(record(i).file, 0) == comm_.rank()) {
                    throw is_right ? sums_.unsteady(i) : sums_.wrong(i, *joined.crc32);
                }
                proved_[i] = proved_[i] || joined.crc32.has_value();
            }
        });
    }

    [[nodiscard]] RecordCounts count() const {
        RecordCounts counts;
        counts.without = sums_.n_without();
        counts.bytes_read = bytes_read_;
        for (std::uint32_t i = 0; i < proved_.size(); ++i) {
            if (sums_.is_due(i)) {
                (proved_[i] ? counts.checked : counts.unchecked) += 1;
                (proved_[i] ? counts.checked_bytes : counts.unchecked_bytes) += record(i).bytes;
            }
        }
        return counts;
    }

    mpi::Comm& comm_;
    const RecordSums& sums_;
    const SourceFiles& source_;
    const plan::Visibility& visibility_;
    std::vector<bool> proved_;  ///< by record
    ByRecord known_;            ///< of the others, by all ranks
    io::InputFile file_;
    std::uint32_t opened_ = 0;
    ByteBuffer part_;
    Bytes bytes_read_ = 0;  ///< by all ranks
    Bytes own_ = 0;         ///< of these, by this one
    Bytes done_ = 0;        ///< so far
};

}  // namespace

RecordCounts check_records(mpi::Comm& comm, const RecordSums& sums, const SourceFiles& source,
                           const plan::Visibility& visibility, Completion completion,
                           const mpi::WhyStop& why_stop, const mpi::OnShare& on_read) {
    return Check(comm, sums, source, visibility).run(completion, why_stop, on_read);
}

}  // namespace shardweld::execute
