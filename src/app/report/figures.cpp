#include "figures.hpp"

#include <algorithm>
#include <utility>

#include "plan/plan.hpp"
#include "plan/schedule/footprint.hpp"

namespace shardweld::app {

Figures figures_of(const plan::Plan& plan) {
    using plan::FileTraffic;
    using plan::RankTraffic;
    using plan::spread_of;
    Figures figures;
    plan::Traffic traffic = traffic_of(plan);
    figures.written = spread_of(traffic.ranks, &RankTraffic::bytes_written);
    figures.read = spread_of(traffic.ranks, &RankTraffic::bytes_read);
    figures.readers = spread_of(traffic.inputs, &FileTraffic::ranks);
    figures.writers = spread_of(traffic.outputs, &FileTraffic::ranks);
    for (const RankTraffic& rank : traffic.ranks) {
        figures.network_bytes += rank.bytes_sent;
        figures.read_over_bytes += rank.bytes_read_over;
        figures.reads += rank.reads;
        figures.messages += rank.messages_sent;
        figures.rounds = std::max(figures.rounds, rank.rounds);
    }
    figures.buffer_bytes = plan.limits.total();
    figures.metadata_bytes = plan::metadata_bytes(plan);
    figures.traffic = std::move(traffic);
    return figures;
}

}  // namespace shardweld::app
