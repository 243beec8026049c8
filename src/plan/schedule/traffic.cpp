#include "traffic.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "plan/plan.hpp"

#include "reading.hpp"

namespace shardweld::plan {

namespace {

std::size_t index_of(int rank) {
    return static_cast<std::size_t>(rank);
}

/// The rounds of one owner, counted along its part of the output space as if they were always full.
class RoundCounter {
  public:
    RoundCounter(const Limits& limits, int n_ranks)
        : limits_(limits), next_(index_of(n_ranks), 0) {}

    void enter(bool is_scattered) {
        if (is_scattered != is_scattered_) {
            at_ = std::ceil(at_);
            is_scattered_ = is_scattered;
        }
    }
    /// Elements that one round assembles, each of which takes `width` bytes of buffers.
    [[nodiscard]] Index elements(Bytes width) const {
        const Bytes room = is_scattered_ ? limits_.round : limits_.step;
        return std::max<Index>(1, static_cast<Index>(room / width));
    }
    void advance(double rounds) { at_ += rounds; }
    [[nodiscard]] Index count() const { return static_cast<Index>(std::ceil(at_)); }

    /// Rounds that meet the stretch between two places behind here (in rounds).
    [[nodiscard]] Index met(double begin, double end) const {
        return static_cast<Index>(std::ceil(at_ + end)) -
               static_cast<Index>(std::floor(at_ + begin));
    }
    /// Rounds between two places behind here in which `sender` has not sent so far.
    Index new_rounds(int sender, double begin, double end) {
        Index& next = next_[index_of(sender)];
        const Index first = std::max(next, static_cast<Index>(std::floor(at_ + begin)));
        const Index last = std::max(first, static_cast<Index>(std::ceil(at_ + end)));
        next = std::max(next, last);
        return last - first;
    }

  private:
    const Limits& limits_;
    std::vector<Index> next_;  ///< by sender: the first round without a message of it
    double at_ = 0;
    bool is_scattered_ = false;
};

/// Reads of one operand with gaps, for all of its owners.
struct GappyRead {
    int reader = 0;
    Reading most;  ///< of one owner
    Bytes needed = 0;
};

class TrafficCounter {
  public:
    explicit TrafficCounter(const Plan& plan) : plan_(plan) {
        const std::size_t n_files =
            plan.visibility.group_sees.empty() ? 0 : plan.visibility.group_sees.front().size();
        traffic_.ranks.resize(index_of(plan.n_ranks()));
        traffic_.inputs.resize(n_files);
        traffic_.outputs.resize(plan.placement.files.size());
        reads_file_.assign(traffic_.ranks.size(), std::vector<bool>(n_files, false));
    }

    Traffic count() {
        for (int owner = 0; owner < plan_.n_ranks(); ++owner) {
            RoundCounter rounds(plan_.limits, plan_.n_ranks());
            std::size_t last_file = traffic_.outputs.size();
            const OutputRange own{plan_.cuts[index_of(owner)], plan_.cuts[index_of(owner) + 1]};
            for_each_slice(plan_, own, [&](const Slice& slice) {
                const std::size_t file = plan_.placement.slots[slice.tensor].file;
                add_written(owner, slice, file, file != last_file);
                add_slice(owner, slice, rounds);
                last_file = file;
            });
            traffic_.ranks[index_of(owner)].rounds = rounds.count() * plan_.n_terms;
        }
        for (const auto& [of, read] : gappy_) {
            Reading once = read.most;
            once.bytes = std::max(once.bytes, read.needed);
            add_read(read.reader, of.second->file, once, read.needed);
        }
        return std::move(traffic_);
    }

  private:
    void add_written(int owner, const Slice& slice, std::size_t file, bool is_new) {
        RankTraffic& rank = traffic_.ranks[index_of(owner)];
        const Bytes bytes = plan_.bytes_of(slice);
        rank.bytes_written += bytes;
        rank.files_written += is_new ? 1 : 0;
        traffic_.outputs[file].bytes += bytes;
        traffic_.outputs[file].ranks += is_new ? 1 : 0;
    }

    void add_slice(int owner, const Slice& slice, RoundCounter& rounds) {
        const OutputOfTarget made = plan_.tensors[slice.tensor];
        const Target& target = plan_.targets[made.target];
        rounds.enter(plan_.is_read_scattered(slice.tensor));
        const Index written = rounds.elements(buffer_bytes(target, 1, made.output));
        const layout::Range sources = plan_.sources(slice);
        const Index round = written * target.packing();
        for (const Operand& operand : plan_.operands_of(slice.tensor)) {
            add_operand(owner, target, sources, round, operand, 1, rounds);
        }
        if (const Index every = plan_.sample_every[made.target]; every > 0) {
            for (const Operand& replica : plan_.replicas_of(slice.tensor)) {
                add_operand(owner, target, sources, round, replica, every, rounds);
            }
        }
        rounds.advance(static_cast<double>(slice.end - slice.begin) / static_cast<double>(written));
    }

    /// `elements`: the slice's, of the source; `round`: how many of them a round has.
    void add_operand(int owner, const Target& target, const layout::Range& elements, Index round,
                     const Operand& operand, Index sample_every, RoundCounter& rounds) {
        const layout::Range all = layout::dst_span(operand.copy);
        const Index end = elements.lo + elements.extent;
        if (all.extent == 0 || elements.lo >= all.lo + all.extent || end <= all.lo) {
            return;
        }
        // Most operands have one owner: nothing is cut then.
        const bool is_whole = elements.lo <= all.lo && end >= all.lo + all.extent;
        const std::vector<layout::Copy> cut =
            is_whole ? std::vector<layout::Copy>{}
                     : layout::restrict_dst(operand.copy, elements.lo, end);
        const int reader = plan_.reader_of(operand, target, owner);
        ReadingSteps steps{size_of(target.stored_as(operand)), round, 0,
                           std::max<Bytes>(plan_.limits.scratch / 2, 1), reader != owner};
        Bytes bytes = 0;
        for (const layout::Copy& part : is_whole ? std::span(&operand.copy, 1) : std::span(cut)) {
            const layout::Range span = is_whole ? all : layout::dst_span(part);
            const auto place = [&](Index element) {
                return static_cast<double>(element - elements.lo) / static_cast<double>(round);
            };
            const double begin = place(span.lo);
            const double behind = place(span.lo + span.extent);
            steps.n_rounds = rounds.met(begin, behind);
            const Reading reading = sampled(reading_of(part, steps), sample_every);
            const Bytes used = static_cast<Bytes>(part.volume()) * steps.element_bytes /
                               static_cast<Bytes>(sample_every);
            if (plan_.is_lockstep && reading.bytes > used) {
                add_gappy(reader, target, operand, reading, used);
            } else {
                add_read(reader, operand.file, reading, used);
            }
            bytes += used;
            if (reader != owner) {
                add_messages(reader, owner, rounds.new_rounds(reader, begin, behind));
            }
        }
        if (reader != owner) {
            traffic_.ranks[index_of(reader)].bytes_sent += bytes;
            traffic_.ranks[index_of(owner)].bytes_received += bytes;
            traffic_.ranks[index_of(owner)].bytes_copied += bytes;
        }
    }

    static Reading sampled(Reading reading, Index every) {
        const auto n = static_cast<Bytes>(every);
        return {(reading.requests + every - 1) / every, reading.bytes / n, reading.copied / n};
    }

    /// In lockstep a reader serves all owners of a round from the same windows: what lies between
    /// the elements of one belongs to the others.
    void add_gappy(int reader, const Target& target, const Operand& operand, const Reading& reading,
                   Bytes needed) {
        GappyRead& read = gappy_[{&target, &operand}];
        read.reader = reader;
        read.needed += needed;
        read.most.requests = std::max(read.most.requests, reading.requests);
        read.most.bytes = std::max(read.most.bytes, reading.bytes);
        read.most.copied += reading.copied;
    }

    void add_read(int reader, std::uint32_t file, const Reading& reading, Bytes needed) {
        RankTraffic& rank = traffic_.ranks[index_of(reader)];
        rank.bytes_read += reading.bytes;
        rank.bytes_read_over += reading.bytes - needed;
        rank.bytes_copied += reading.copied;
        rank.reads += reading.requests;
        FileTraffic& input = traffic_.inputs[file];
        input.bytes += reading.bytes;
        if (!reads_file_[index_of(reader)][file]) {
            reads_file_[index_of(reader)][file] = true;
            ++rank.files_read;
            ++input.ranks;
        }
    }

    void add_messages(int from, int to, Index count) {
        traffic_.ranks[index_of(from)].messages_sent += count;
        traffic_.ranks[index_of(to)].messages_received += count;
    }

    const Plan& plan_;
    Traffic traffic_;
    std::vector<std::vector<bool>> reads_file_;  ///< [rank][file]
    /// Targets that are copies of another share its operands.
    std::map<std::pair<const Target*, const Operand*>, GappyRead> gappy_;
};

}  // namespace

Traffic traffic_of(const Plan& plan) {
    return TrafficCounter(plan).count();
}

}  // namespace shardweld::plan
