#include "read_shares.hpp"

#include <algorithm>
#include <map>

#include "plan/plan.hpp"

namespace shardweld::plan {

namespace {

/// What is to be read of one operand for owners that do not read it themselves.
struct Read {
    ReadCut at;
    Bytes bytes = 0;

    friend bool operator<(const Read& a, const Read& b) { return is_before(a.at, b.at); }
};

/// Files that the same ranks see: what is to be read of them, in file order.
struct SharedView {
    std::vector<std::size_t> ranks;
    std::vector<Read*> reads;
    Bytes bytes = 0;
};

/// The part of `bytes` that brings each of `loads` to one level, as far as they are below it.
std::vector<Bytes> shares_to_level(const std::vector<Bytes>& loads, Bytes bytes) {
    std::vector<Bytes> sorted = loads;
    std::ranges::sort(sorted);
    Bytes level = 0;
    Bytes below = bytes;
    for (std::size_t n = 1; n <= sorted.size(); ++n) {
        below += sorted[n - 1];
        level = below / n;
        if (n < sorted.size() && level <= sorted[n]) {
            break;
        }
    }
    return collect_list(loads, [&](const Bytes load) { return level - std::min(level, load); });
}

class Sharing {
  public:
    explicit Sharing(const Plan& plan)
        : plan_(plan), loads_(static_cast<std::size_t>(plan.n_ranks()), 0) {}

    std::vector<ReadCut> cuts() {
        collect();
        for (SharedView& view : views()) {
            share(view);
        }
        std::vector<ReadCut> cuts;
        for (const Read& read : reads_) {
            if (cuts.empty() || cuts.back().reader != read.at.reader) {
                cuts.push_back(read.at);
            }
        }
        return cuts;
    }

  private:
    /// All reads in file order, and what owners read themselves.
    void collect() {
        const OutputSpace& space = plan_.space;
        for (const std::size_t at : indices(space.order)) {
            const OutputRange range{space.begins[at], space.begins[at + 1]};
            const std::uint32_t tensor = space.order[at];
            const Target& target = plan_.target_of(tensor);
            for (const Operand& operand : plan_.operands_of(tensor)) {
                add(range, target, operand, 1);
            }
            if (const Bytes every = plan_.sample_every[plan_.tensors[tensor].target]; every > 0) {
                for (const Operand& replica : plan_.replicas_of(tensor)) {
                    add(range, target, replica, every);
                }
            }
        }
        std::sort(reads_.begin(), reads_.end());
    }

    void add(OutputRange range, const Target& target, const Operand& operand, Bytes every) {
        const Bytes all = source_bytes(target, operand);
        const Bytes own =
            plan_.strategy == Strategy::direct ? read_by_owners(range, target, operand, every) : 0;
        if (own < all) {
            reads_.push_back({{operand.file, address_of(target, operand)}, (all - own) / every});
        }
    }

    /// Bytes of owners that see the file, noted as theirs.
    Bytes read_by_owners(OutputRange range, const Target& target, const Operand& operand,
                         Bytes every) {
        const auto& cuts = plan_.cuts;
        const Bytes all = range.end - range.begin;
        const auto elements = static_cast<double>(target.sources(0, target.volume()).extent);
        // About whole strips: a cut lies between two.
        const auto element_at = [&](Bytes position) {
            return target.encode || target.decode
                       ? static_cast<Index>(elements * static_cast<double>(position) /
                                            static_cast<double>(all))
                       : static_cast<Index>(position / size_of(target.dtype));
        };
        Bytes own = 0;
        auto owner = static_cast<std::size_t>(
            std::upper_bound(cuts.begin(), cuts.end() - 1, range.begin) - cuts.begin() - 1);
        for (; owner < loads_.size() && cuts[owner] < range.end; ++owner) {
            if (!plan_.visibility.sees(static_cast<int>(owner), operand.file)) {
                continue;
            }
            const Bytes begin = std::max(cuts[owner], range.begin) - range.begin;
            const Bytes end = std::min(cuts[owner + 1], range.end) - range.begin;
            Bytes bytes = 0;
            for (const layout::Copy& part :
                 layout::restrict_dst(operand.copy, element_at(begin), element_at(end))) {
                bytes += static_cast<Bytes>(part.volume()) * size_of(target.stored_as(operand));
            }
            loads_[owner] += bytes / every;
            own += bytes;
        }
        return own;
    }

    /// Those that few ranks see first: who sees more can make up for them.
    std::vector<SharedView> views() {
        std::map<std::vector<bool>, SharedView> by_groups;
        std::vector<bool> groups(plan_.visibility.group_sees.size());
        SharedView* view = nullptr;
        for (const std::size_t i : indices(reads_)) {
            if (i == 0 || reads_[i].at.file != reads_[i - 1].at.file) {
                for (const std::size_t group : indices(groups)) {
                    groups[group] = plan_.visibility.group_sees[group][reads_[i].at.file];
                }
                view = &by_groups[groups];
            }
            view->reads.push_back(&reads_[i]);
            view->bytes += reads_[i].bytes;
        }
        std::vector<SharedView> views;
        for (auto& [seeing, one] : by_groups) {
            for (const int reader : plan_.readers) {
                const auto rank = static_cast<std::size_t>(reader);
                if (seeing[plan_.visibility.group_of_rank[rank]]) {
                    one.ranks.push_back(rank);
                }
            }
            views.push_back(std::move(one));
        }
        std::ranges::stable_sort(views, [](const SharedView& a, const SharedView& b) {
            return a.ranks.size() < b.ranks.size();
        });
        return views;
    }

    void share(const SharedView& view) {
        std::vector<Bytes> loads =
            collect_list(view.ranks, [&](const std::size_t rank) { return loads_[rank]; });
        const std::vector<Bytes> parts = shares_to_level(loads, view.bytes);
        std::size_t at = 0;
        Bytes end = parts.empty() ? 0 : parts.front();
        Bytes seen = 0;
        for (Read* read : view.reads) {
            while (at + 1 < parts.size() && seen + read->bytes / 2 >= end) {
                end += parts[++at];
            }
            seen += read->bytes;
            if (!parts.empty()) {
                read->at.reader = static_cast<std::uint32_t>(view.ranks[at]);
                loads_[view.ranks[at]] += read->bytes;
            }
        }
    }

    const Plan& plan_;
    std::vector<Bytes> loads_;  ///< by rank
    std::vector<Read> reads_;
};

}  // namespace

Bytes address_of(const Target& target, const Operand& operand) {
    return operand.base +
           static_cast<Bytes>(operand.copy.src_offset) * size_of(target.stored_as(operand));
}

std::vector<ReadCut> share_reading(const Plan& plan) {
    const auto& sees = plan.visibility.group_sees;
    const bool is_all_seen =
        std::ranges::all_of(sees, [](const auto& files) { return !contains(files, false); });
    if (plan.n_ranks() == 1 || (plan.strategy == Strategy::direct && is_all_seen)) {
        return {};
    }
    return Sharing(plan).cuts();
}

}  // namespace shardweld::plan
