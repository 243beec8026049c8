#include "rounds.hpp"

#include <algorithm>
#include <bit>

#include "plan/plan.hpp"

namespace shardweld::plan {

namespace {

/// Bytes each reader sends to `owner` for a part of the output space, added to `sent`: by term,
/// then reader.
void add_sent(const Plan& plan, int owner, OutputRange range, std::vector<Bytes>& sent) {
    const auto n_ranks = static_cast<std::size_t>(plan.n_ranks());
    for (const Slice& slice : work_of(plan, range)) {
        const Target& target = plan.target_of(slice.tensor);
        const auto add = [&](const Operand& operand) {
            const int reader = plan.reader_of(operand, target, owner);
            if (reader == owner) {
                return;
            }
            const layout::Range wanted = plan.sources(slice);
            for (const layout::Copy& part :
                 layout::restrict_dst(operand.copy, wanted.lo, wanted.lo + wanted.extent)) {
                sent[operand.term * n_ranks + static_cast<std::size_t>(reader)] +=
                    static_cast<Bytes>(part.volume()) * size_of(target.stored_as(operand));
            }
        };
        std::ranges::for_each(plan.operands_of(slice.tensor), add);
        std::ranges::for_each(plan.replicas_of(slice.tensor), add);
    }
}

/// What all ranks send in the round of one term beyond what they did before, the most of any.
Bytes most_added(const std::vector<Bytes>& with, const std::vector<Bytes>& before,
                 std::size_t n_ranks) {
    Bytes most = 0;
    for (std::size_t first = 0; first < with.size(); first += n_ranks) {
        Bytes added = 0;
        for (std::size_t i = first; i < first + n_ranks; ++i) {
            added += with[i] - before[i];
        }
        most = std::max(most, added);
    }
    return most;
}

/// The output position nearest below `end` at which the file's offset is a multiple of the part's
/// size (rounded down to a power of two), so that the parts that follow are whole extents; `end`
/// where there is none. The part begins at `begin` and ends inside tensor `space.order[at]`.
Bytes aligned_end(const Plan& plan, std::size_t at, Bytes begin, Bytes end) {
    const std::uint32_t tensor = plan.space.order[at];
    const Bytes extent = std::bit_floor(end - begin);
    const Bytes offset = plan.placement.slots[tensor].offset + (end - plan.space.begins[at]);
    const Bytes beyond = offset % extent;
    const bool is_whole = beyond % size_of(plan.tensor(tensor).dtype) == 0;
    return is_whole && beyond < end - std::max(begin, plan.space.begins[at]) ? end - beyond : end;
}

/// What rounds are made of: an element, or a strip of codes and scales.
struct RoundUnit {
    Bytes size = 0;   ///< in the output space
    Bytes width = 0;  ///< in buffers
};

RoundUnit unit_of(const Plan& plan, std::uint32_t tensor) {
    const Target& target = plan.target_of(tensor);
    if (plan.strip_elements(tensor) == 0) {
        return {size_of(plan.tensor(tensor).dtype),
                buffer_bytes(target, 1, plan.tensors[tensor].output)};
    }
    return {target.strip_bytes(), strip_buffer(target)};
}

}  // namespace

Rounds::Rounds(const Plan& plan, std::span<const OutputRange> done) : plan_(plan) {
    for (std::size_t owner = 0; owner + 1 < plan.cuts.size(); ++owner) {
        OwnerWork& run = runs_.emplace_back();
        run.parts = without({plan.cuts[owner], plan.cuts[owner + 1]}, done);
        run.at = run.parts.empty() ? plan.cuts[owner] : run.parts.front().begin;
    }
}

Rounds::Rounds(const Plan& plan, int rank, std::span<const OutputRange> done) : Rounds(plan, done) {
    for (const std::size_t other : indices(runs_)) {
        if (other != static_cast<std::size_t>(rank)) {
            runs_[other] = {};
        }
    }
}

/// Whether an owner has something left to do; goes on to its next part at the end of one.
bool Rounds::has_more(std::size_t owner) {
    OwnerWork& run = runs_[owner];
    if (run.part < run.parts.size() && run.at == run.parts[run.part].end &&
        ++run.part < run.parts.size()) {
        run.at = run.parts[run.part].begin;
    }
    return run.part < run.parts.size();
}

/// The largest output position whose slices from `begin` lie in one file and need at most `most`
/// buffer bytes, or a round's for scattered targets; at least one element further.
Bytes Rounds::step_end(Bytes begin, Bytes run_end, Bytes most) const {
    const auto& begins = plan_.space.begins;
    auto at =
        static_cast<std::size_t>(std::ranges::upper_bound(begins, begin) - begins.begin()) - 1;
    const bool is_scattered = plan_.is_read_scattered(plan_.space.order[at]);
    Bytes room =
        is_scattered ? std::min(most, plan_.limits.round) : std::min(most, plan_.limits.step);
    const auto file_of = [&](std::size_t position) {
        return plan_.placement.slots[plan_.space.order[position]].file;
    };
    const std::uint32_t file = file_of(at);
    Bytes end = begin;
    for (; at < plan_.space.order.size() && begins[at] < run_end; ++at) {
        const std::uint32_t tensor = plan_.space.order[at];
        if (plan_.is_read_scattered(tensor) != is_scattered || file_of(at) != file) {
            break;
        }
        const RoundUnit unit = unit_of(plan_, tensor);
        const Bytes size = unit.size;
        const Bytes width = unit.width;
        const Bytes stop = std::min(run_end, begins[at + 1]);
        const Bytes n_left = (stop - end + size - 1) / size;
        const Bytes n_fit =
            std::min(n_left, std::max(room / width, end == begin ? Bytes{1} : Bytes{0}));
        end = std::min(end + n_fit * size, stop);
        if (n_fit < n_left) {
            return plan_.strip_elements(tensor) > 0 ? end : aligned_end(plan_, at, begin, end);
        }
        room -= std::min(room, n_fit * width);
    }
    return end;
}

void Rounds::fill(int owner, OutputRange& range, std::vector<Bytes>& sent) {
    OwnerWork& run = runs_[static_cast<std::size_t>(owner)];
    const Bytes end = run.parts[run.part].end;
    const Bytes limit = step_end(run.at, end, plan_.limits.round);
    const bool is_first = std::ranges::all_of(sent, [](Bytes bytes) { return bytes == 0; });
    const std::vector<Bytes> before = sent;
    Bytes received = 0;
    while (range.end < limit) {
        // Small limits need small steps: one step never sends more than a round holds.
        Bytes most = plan_.limits.step;
        Bytes stop = 0;
        std::vector<Bytes> with;
        // Replicas are received beside what they are compared with.
        do {
            stop = std::min(limit, step_end(range.end, end, most));
            with = sent;
            add_sent(plan_, owner, {range.end, stop}, with);
            received = most_added(with, before, runs_.size());
            most /= 2;
        } while (received > plan_.limits.receive && range.end == range.begin && most > 0);
        const bool fits =
            received <= plan_.limits.receive &&
            std::ranges::all_of(with, [&](Bytes bytes) { return bytes <= plan_.limits.send; });
        if (!fits && !(is_first && range.end == range.begin)) {
            break;
        }
        sent = std::move(with);
        range.end = stop;
        most_.received = std::max(most_.received, received);
    }
    most_.output = std::max(most_.output, range.end - range.begin);
    run.at = range.end;
}

bool Rounds::next(std::vector<OutputRange>& ranges) {
    if (term_ + 1 < plan_.n_terms && !ranges_.empty()) {
        ++term_;
        ranges = ranges_;
        return true;
    }
    term_ = 0;
    const bool any = next_part(ranges);
    ranges_ = any && plan_.n_terms > 1 ? ranges : std::vector<OutputRange>();
    return any;
}

bool Rounds::next_part(std::vector<OutputRange>& ranges) {
    ranges.assign(runs_.size(), {});
    std::vector<Bytes> sent(runs_.size() * plan_.n_terms, 0);
    bool any = false;
    for (const std::size_t owner : indices(runs_)) {
        OwnerWork& run = runs_[owner];
        OutputRange& range = ranges[owner];
        const bool is_left = has_more(owner);
        range = {run.at, run.at};
        if (!is_left) {
            continue;
        }
        if (plan_.is_lockstep) {
            fill(static_cast<int>(owner), range, sent);
        } else {
            range.end = run.at = step_end(range.begin, run.parts[run.part].end, plan_.limits.round);
            most_.output = std::max(most_.output, range.end - range.begin);
        }
        any = any || range.end > range.begin;
    }
    most_.sent = std::max(most_.sent, *std::ranges::max_element(sent));
    return any;
}

}  // namespace shardweld::plan
