#include "consumption.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "io/holes.hpp"
#include "layout/copy.hpp"

namespace shardweld::execute {

namespace {

bool precedes(const FileRange& a, const FileRange& b) {
    return std::tie(a.file, a.begin, a.end) < std::tie(b.file, b.begin, b.end);
}

bool share_bytes(const FileRange& a, const FileRange& b) {
    return a.file == b.file && a.begin < b.end && b.begin < a.end;
}

Bytes width_of(const plan::Target& target, const plan::Operand& operand) {
    return size_of(target.stored_as(operand));
}

/// From the first byte that a copy reads to the last.
FileRange span_of(const plan::Operand& operand, const layout::Copy& copy, Bytes width) {
    const layout::Range span = layout::src_span(copy);
    const Bytes begin = operand.base + static_cast<Bytes>(span.lo) * width;
    return {operand.file, begin, begin + static_cast<Bytes>(span.extent) * width};
}

/// Whether parts of the output are made of as many bytes that lie together.
bool is_contiguous(const layout::Copy& copy) {
    return copy.loops.empty() || (copy.loops.size() == 1 && copy.loops[0].src_stride == 1 &&
                                  copy.loops[0].dst_stride == 1);
}

/// What a file system gives back of a range.
Bytes given_back(const FileRange& range) {
    const Bytes first = (range.begin + io::kHoleBlock - 1) / io::kHoleBlock * io::kHoleBlock;
    const Bytes last = range.end / io::kHoleBlock * io::kHoleBlock;
    return last > first ? last - first : 0;
}

/// The most bytes that one rank's output, made in steps, is ahead of the input that was given back.
Bytes most_of_rank(const plan::Plan& plan, int rank, Bytes every, Consumption& consumption) {
    const auto at = static_cast<std::size_t>(rank);
    Bytes written = 0;
    Bytes freed = 0;
    Bytes most = 0;
    for (const plan::Slice& whole : plan::work_of(plan, {plan.cuts[at], plan.cuts[at + 1]})) {
        const auto step = static_cast<Index>(every / size_of(plan.tensor(whole.tensor).dtype));
        for (Index begin = whole.begin; begin < whole.end; begin += step) {
            plan::Slice part = whole;
            part.begin = begin;
            part.end = std::min(begin + step, whole.end);
            written += plan.bytes_of(part);
            most = std::max(most, written - std::min(written, freed));
            for (const FileRange& range : consumption.take(part, rank)) {
                freed += given_back(range);
            }
        }
    }
    return most;
}

}  // namespace

Consumption::Consumption(const plan::Plan& plan) : plan_(plan) {
    std::vector<Stretch> replicas;
    for (const plan::Target& target : plan.targets) {
        for (const plan::Operand& operand : target.operands) {
            add(target, operand, stretches_, false);
        }
        for (const plan::Operand& replica : target.replicas) {
            add(target, replica, replicas, true);
        }
    }
    stretches_ = joined(std::move(stretches_));
    std::erase_if(replicas, [&](const Stretch& replica) {
        const auto behind =
            std::partition_point(stretches_.begin(), stretches_.end(), [&](const Stretch& one) {
                return std::tie(one.file, one.end) <= std::tie(replica.file, replica.begin);
            });
        return behind != stretches_.end() && share_bytes(*behind, replica);
    });
    replicas = joined(std::move(replicas));
    const auto n = std::ssize(stretches_);
    stretches_.insert(stretches_.end(), replicas.begin(), replicas.end());
    std::inplace_merge(stretches_.begin(), stretches_.begin() + n, stretches_.end(), precedes);
}

void Consumption::add(const plan::Target& target, const plan::Operand& operand,
                      std::vector<Stretch>& out, bool is_replica) const {
    const Bytes width = width_of(target, operand);
    Stretch one{span_of(operand, operand.copy, width)};
    one.needed = static_cast<Bytes>(operand.copy.volume()) * width;
    one.n_operands = 1;
    one.is_of_replicas = is_replica;
    if (one.needed > 0) {
        out.push_back(one);
    }
}

/// Those that overlap become one.
std::vector<Consumption::Stretch> Consumption::joined(std::vector<Stretch> ranges) {
    std::sort(ranges.begin(), ranges.end(), precedes);
    std::size_t n = 0;
    for (const Stretch& one : ranges) {
        if (n > 0 && share_bytes(ranges[n - 1], one)) {
            Stretch& last = ranges[n - 1];
            last.end = std::max(last.end, one.end);
            last.needed += one.needed;
            last.n_operands += one.n_operands;
        } else {
            ranges[n++] = one;
        }
    }
    ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(n), ranges.end());
    ranges.shrink_to_fit();
    return ranges;
}

Consumption::Stretch* Consumption::stretch_at(std::uint32_t file, Bytes begin) {
    const auto at = std::partition_point(
        stretches_.begin(), stretches_.end(),
        [&](const Stretch& one) { return std::tie(one.file, one.end) <= std::tie(file, begin); });
    return at == stretches_.end() || at->file != file || at->begin > begin ? nullptr : &*at;
}

std::vector<FileRange> Consumption::take(const plan::Slice& slice, int rank) {
    std::vector<FileRange> free;
    take_operands(plan_.operands_of(slice.tensor), slice, false, rank, free);
    take_operands(plan_.replicas_of(slice.tensor), slice, true, rank, free);
    return free;
}

void Consumption::take_operands(std::span<const plan::Operand> operands, const plan::Slice& slice,
                                bool are_replicas, int rank, std::vector<FileRange>& out) {
    const plan::Target& target = plan_.target_of(slice.tensor);
    const layout::Range elements = plan_.sources(slice);
    for (const plan::Operand& operand : operands) {
        const Bytes width = width_of(target, operand);
        for (const layout::Copy& part :
             layout::restrict_dst(operand.copy, elements.lo, elements.lo + elements.extent)) {
            const FileRange range = span_of(operand, part, width);
            Stretch* const stretch = stretch_at(range.file, range.begin);
            if (stretch == nullptr || stretch->is_of_replicas != are_replicas) {
                continue;  // an operand has the bytes of this replica
            }
            stretch->is_shared =
                stretch->is_shared || (stretch->rank >= 0 && stretch->rank != rank);
            stretch->rank = rank;
            stretch->taken += static_cast<Bytes>(part.volume()) * width;
            if (stretch->n_operands == 1 && is_contiguous(operand.copy)) {
                out.push_back(range);
            } else if (stretch->taken >= stretch->needed && !stretch->is_shared) {
                out.push_back(*stretch);
            }
        }
    }
}

const plan::Operand* Consumption::needing(const plan::Slice& slice,
                                          std::span<const FileRange> ranges) const {
    const plan::Target& target = plan_.target_of(slice.tensor);
    const layout::Range elements = plan_.sources(slice);
    for (const plan::Operand& operand : plan_.operands_of(slice.tensor)) {
        for (const layout::Copy& part :
             layout::restrict_dst(operand.copy, elements.lo, elements.lo + elements.extent)) {
            const FileRange wanted = span_of(operand, part, width_of(target, operand));
            const auto behind =
                std::partition_point(ranges.begin(), ranges.end(), [&](const FileRange& one) {
                    return std::tie(one.file, one.end) <= std::tie(wanted.file, wanted.begin);
                });
            if (behind != ranges.end() && share_bytes(*behind, wanted)) {
                return &operand;
            }
        }
    }
    return nullptr;
}

std::vector<Bytes> Consumption::used_of_files(std::size_t n) const {
    std::vector<Bytes> used(n);
    for (const Stretch& one : stretches_) {
        used[one.file] += std::min(one.needed, one.end - one.begin);
    }
    return used;
}

Bytes most_beside(const plan::Plan& plan, Bytes every) {
    Consumption consumption(plan);
    Bytes most = 0;
    for (int rank = 0; rank < plan.n_ranks(); ++rank) {
        most += most_of_rank(plan, rank, every, consumption);
    }
    return most;
}

FileRange FreedRanges::add(const FileRange& range) {
    auto& ends = files_[range.file];
    FileRange grown = range;
    auto at = ends.upper_bound(range.begin);
    if (at != ends.begin() && std::prev(at)->second >= range.begin) {
        --at;
    }
    while (at != ends.end() && at->first <= grown.end) {
        grown.begin = std::min(grown.begin, at->first);
        grown.end = std::max(grown.end, at->second);
        at = ends.erase(at);
    }
    ends[grown.begin] = grown.end;
    return grown;
}

std::vector<FileRange> FreedRanges::all() const {
    std::vector<FileRange> ranges;
    for (std::uint32_t file = 0; file < files_.size(); ++file) {
        for (const auto& [begin, end] : files_[file]) {
            ranges.push_back({file, begin, end});
        }
    }
    return ranges;
}

}  // namespace shardweld::execute
