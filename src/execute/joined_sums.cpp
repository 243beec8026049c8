#include "joined_sums.hpp"

#include <algorithm>

#include "core/crc32.hpp"

namespace shardweld::execute {

namespace {

std::vector<Bytes> places_of(Bytes size, std::span<const RangeSum> known) {
    std::vector<Bytes> places{0, size};
    for (const RangeSum& range : known) {
        places.insert(places.end(), {range.begin, range.end});
    }
    std::ranges::sort(places);
    places.erase(std::unique(places.begin(), places.end()), places.end());
    return places;
}

std::size_t index_of(const std::vector<Bytes>& places, Bytes place) {
    return static_cast<std::size_t>(std::ranges::lower_bound(places, place) - places.begin());
}

/// A union-find over the places in a record, with the difference of values along each tie. Let the
/// value of a place be the sum of all bytes before it, moved over those behind it: then the sum of
/// a range, moved over the bytes behind it, is the difference (exclusive or) of the values at its
/// two ends, and that at the end of the record is the record's sum. So ranges tie places together,
/// and what is tied in two ways must come to the same.
class WeightedUnionFind {
  public:
    WeightedUnionFind(Bytes size, std::span<const RangeSum> known)
        : size_(size), places_(places_of(size, known)) {
        for (const std::size_t i : indices(places_)) {
            ties_.push_back({i, 0});
        }
        for (const RangeSum& range : known) {
            is_consistent_ = tie(range) && is_consistent_;
        }
    }

    [[nodiscard]] bool is_consistent() const { return is_consistent_; }

    /// The difference between the values of two places, where they are tied.
    std::optional<std::uint32_t> difference(Bytes a, Bytes b) {
        const SumLink from = root_of(index_of(places_, a));
        const SumLink to = root_of(index_of(places_, b));
        return from.to == to.to ? std::optional(from.value ^ to.value) : std::nullopt;
    }

  private:
    struct SumLink {
        std::size_t to = 0;  ///< itself: a root
        std::uint32_t value = 0;
    };

    /// False when the range says something else than the others.
    bool tie(const RangeSum& range) {
        const std::uint32_t value = crc32_moved(range.crc32, size_ - range.end);
        if (const auto known = difference(range.begin, range.end)) {
            return *known == value;
        }
        const SumLink from = root_of(index_of(places_, range.begin));
        const SumLink to = root_of(index_of(places_, range.end));
        ties_[from.to] = {to.to, from.value ^ to.value ^ value};
        return true;
    }

    /// Halves the way as it goes.
    SumLink root_of(std::size_t i) {
        SumLink all{i, 0};
        while (ties_[all.to].to != all.to) {
            SumLink& next = ties_[all.to];
            const SumLink& after = ties_[next.to];
            if (after.to != next.to) {
                next = {after.to, next.value ^ after.value};
            }
            all = {next.to, all.value ^ next.value};
        }
        return all;
    }

    Bytes size_;
    std::vector<Bytes> places_;
    std::vector<SumLink> ties_;
    bool is_consistent_ = true;
};

/// The 2-edge-connected components of a graph: the parts that stay connected when any one edge is
/// taken away (R. E. Tarjan, 1974).
class TwoEdgeComponents {
  public:
    struct Edge {
        std::size_t a = 0;
        std::size_t b = 0;
    };

    TwoEdgeComponents(std::size_t n_places, const std::vector<Edge>& edges)
        : edges_(edges), at_(n_places), order_(n_places, 0), low_(n_places), part_(n_places) {
        for (const std::size_t i : indices(edges)) {
            at_[edges[i].a].push_back(i);
            at_[edges[i].b].push_back(i);
        }
        for (std::size_t place = 0; place < n_places; ++place) {
            if (order_[place] == 0) {
                walk(place);
            }
        }
        n_bridges_.assign(n_parts_, 0);
        for (const Edge& edge : edges) {
            if (part_[edge.a] != part_[edge.b]) {
                ++n_bridges_[part_[edge.a]];
                ++n_bridges_[part_[edge.b]];
            }
        }
    }

    [[nodiscard]] std::size_t n_parts() const { return n_parts_; }
    [[nodiscard]] std::size_t part_of(std::size_t place) const { return part_[place]; }
    /// Whether one edge at most leads out of the part.
    [[nodiscard]] bool is_leaf(std::size_t part) const { return n_bridges_[part] <= 1; }

  private:
    struct Visit {
        std::size_t place = 0;
        std::size_t by = 0;  ///< the edge that led here
        std::size_t next = 0;
    };

    void enter(std::size_t place, std::size_t by) {
        order_[place] = low_[place] = ++n_visited_;
        visits_.push_back({place, by});
        open_.push_back(place);
    }

    void walk(std::size_t first) {
        enter(first, edges_.size());
        while (!visits_.empty()) {
            Visit& visit = visits_.back();
            if (visit.next == at_[visit.place].size()) {
                leave();
                continue;
            }
            const std::size_t i = at_[visit.place][visit.next++];
            const std::size_t other = edges_[i].a == visit.place ? edges_[i].b : edges_[i].a;
            if (order_[other] == 0) {
                enter(other, i);
            } else if (i != visit.by) {
                low_[visit.place] = std::min(low_[visit.place], order_[other]);
            }
        }
    }

    void leave() {
        const std::size_t place = visits_.back().place;
        visits_.pop_back();
        if (!visits_.empty()) {
            std::size_t& low = low_[visits_.back().place];
            low = std::min(low, low_[place]);
        }
        if (low_[place] == order_[place]) {
            std::size_t member = 0;
            do {
                member = open_.back();
                open_.pop_back();
                part_[member] = n_parts_;
            } while (member != place);
            ++n_parts_;
        }
    }

    const std::vector<Edge>& edges_;
    std::vector<std::vector<std::size_t>> at_;  ///< edges by place
    std::vector<std::size_t> order_, low_, part_, open_;
    std::vector<Visit> visits_;
    std::vector<std::size_t> n_bridges_;  ///< by part
    std::size_t n_visited_ = 0;
    std::size_t n_parts_ = 0;
};

/// Gap by gap between the places: whether a range reaches over it.
std::vector<bool> covered(const std::vector<Bytes>& at, std::span<const RangeSum> known) {
    std::vector<Index> steps(at.size(), 0);
    for (const RangeSum& range : known) {
        ++steps[index_of(at, range.begin)];
        --steps[index_of(at, range.end)];
    }
    std::vector<bool> is_covered;
    Index n_over = 0;
    for (std::size_t gap = 0; gap + 1 < at.size(); ++gap) {
        n_over += steps[gap];
        is_covered.push_back(n_over > 0);
    }
    return is_covered;
}

/// By component: the shortest gap out of it that is not chosen, where it hangs by one edge or none.
std::vector<std::optional<std::size_t>> shortest_gaps(const TwoEdgeComponents& components,
                                                      const std::vector<Bytes>& at,
                                                      const std::vector<bool>& is_chosen) {
    std::vector<std::optional<std::size_t>> shortest(components.n_parts());
    for (const std::size_t gap : indices(is_chosen)) {
        const std::size_t a = components.part_of(gap);
        const std::size_t b = components.part_of(gap + 1);
        if (a == b || is_chosen[gap]) {
            continue;
        }
        for (const std::size_t part : {a, b}) {
            auto& best = shortest[part];
            if (components.is_leaf(part) &&
                (!best || at[gap + 1] - at[gap] < at[*best + 1] - at[*best])) {
                best = gap;
            }
        }
    }
    return shortest;
}

}  // namespace

std::vector<RecordStretch> missing(Bytes size, std::span<const RangeSum> known) {
    const std::vector<Bytes> at = places_of(size, known);
    // The stated sum ties begin and end.
    std::vector<TwoEdgeComponents::Edge> edges{{0, at.size() - 1}};
    for (const RangeSum& range : known) {
        edges.push_back({index_of(at, range.begin), index_of(at, range.end)});
    }
    std::vector<bool> is_chosen = covered(at, known);
    is_chosen.flip();
    for (const std::size_t gap : indices(is_chosen)) {
        if (is_chosen[gap]) {
            edges.push_back({gap, gap + 1});
        }
    }
    while (true) {
        const TwoEdgeComponents components(at.size(), edges);
        if (components.n_parts() == 1) {
            break;
        }
        // Greedy: every component that hangs by one edge, or none, takes the shortest gap.
        for (const auto& gap : shortest_gaps(components, at, is_chosen)) {
            if (gap && !is_chosen[*gap]) {
                is_chosen[*gap] = true;
                edges.push_back({*gap, *gap + 1});
            }
        }
    }
    std::vector<RecordStretch> stretches;
    for (const std::size_t gap : indices(is_chosen)) {
        if (is_chosen[gap]) {
            stretches.push_back({at[gap], at[gap + 1]});
        }
    }
    return stretches;
}

JoinedSums join(Bytes size, std::span<const RangeSum> known) {
    WeightedUnionFind ties(size, known);
    return {ties.difference(0, size), ties.is_consistent()};
}

}  // namespace shardweld::execute
