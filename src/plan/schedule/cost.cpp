#include "cost.hpp"

#include <algorithm>

namespace shardweld::plan {

namespace {

double seconds_for(double amount, double rate) {
    return rate > 0 ? amount / rate : 0;
}

double seconds_for(Bytes bytes, double rate) {
    return seconds_for(static_cast<double>(bytes), rate);
}

/// What a rank needs for itself; total_s is the sum.
Timeline own_time(const RankTraffic& rank, const Rates& rates) {
    Timeline time;
    time.read_s = static_cast<double>(rank.reads) * rates.read_latency_s +
                  seconds_for(rank.bytes_read, rates.read_bytes_s);
    time.exchange_s =
        static_cast<double>(std::max(rank.messages_sent, rank.messages_received)) *
            rates.message_latency_s +
        seconds_for(std::max(rank.bytes_sent, rank.bytes_received), rates.exchange_bytes_s);
    time.copy_s = seconds_for(rank.bytes_copied, rates.copy_bytes_s);
    time.write_s = seconds_for(rank.bytes_written, rates.write_bytes_s);
    time.total_s = time.read_s + time.exchange_s + time.copy_s + time.write_s;
    return time;
}

/// The longer of both, phase by phase.
void raise_to(Timeline& time, const Timeline& other) {
    time.read_s = std::max(time.read_s, other.read_s);
    time.exchange_s = std::max(time.exchange_s, other.exchange_s);
    time.copy_s = std::max(time.copy_s, other.copy_s);
    time.write_s = std::max(time.write_s, other.write_s);
}

/// What the link of a node with ranks [begin, end) needs.
Timeline node_time(const Traffic& traffic, const Shared& shared, std::size_t begin,
                   std::size_t end) {
    Bytes read = 0;
    Bytes written = 0;
    Bytes sent = 0;
    Bytes received = 0;
    for (std::size_t rank = begin; rank < end; ++rank) {
        read += traffic.ranks[rank].bytes_read;
        written += traffic.ranks[rank].bytes_written;
        sent += traffic.ranks[rank].bytes_sent;
        received += traffic.ranks[rank].bytes_received;
    }
    // The part of the other ranks that are on other nodes.
    const auto others = static_cast<double>(traffic.ranks.size() - 1);
    const auto outside = static_cast<double>(traffic.ranks.size() - (end - begin));
    const double leaves = others > 0 ? outside / others : 0;
    Timeline time;
    time.read_s = seconds_for(read, shared.node_read_bytes_s);
    time.write_s = seconds_for(written, shared.node_write_bytes_s);
    time.exchange_s = leaves * seconds_for(std::max(sent, received), shared.node_exchange_bytes_s);
    return time;
}

Timeline system_time(const Traffic& traffic, const Shared& shared) {
    Timeline time;
    const auto total = [&](auto figure) { return spread_of(traffic.ranks, figure).total; };
    time.read_s = std::max(seconds_for(total(&RankTraffic::bytes_read), shared.system_read_bytes_s),
                           seconds_for(total(&RankTraffic::reads), shared.system_reads_s));
    time.write_s = seconds_for(total(&RankTraffic::bytes_written), shared.system_write_bytes_s);
    return time;
}

/// What the links of nodes and of the whole system need; total_s is the sum.
Timeline shared_time(const Traffic& traffic, const Shared& shared) {
    Timeline time;
    const auto per_node = static_cast<std::size_t>(std::max(shared.ranks_per_node, 1));
    const std::size_t n_ranks = traffic.ranks.size();
    for (std::size_t begin = 0; begin < n_ranks; begin += per_node) {
        raise_to(time, node_time(traffic, shared, begin, std::min(n_ranks, begin + per_node)));
    }
    raise_to(time, system_time(traffic, shared));
    time.total_s = time.read_s + time.exchange_s + time.write_s;
    return time;
}

}  // namespace

double metadata_seconds(const MetadataWork& work, const Machine& machine, int n_readers) {
    const double of_reader = work.reads / n_readers / work.in_flight * machine.rank.read_latency_s;
    return std::max(of_reader, seconds_for(work.reads, machine.shared.system_reads_s)) +
           work.planning_s;
}

Timeline timeline_of(const Traffic& traffic, const Machine& machine, bool is_lockstep) {
    Timeline time;
    double slowest = 0;
    for (const RankTraffic& rank : traffic.ranks) {
        const Timeline mine = own_time(rank, machine.rank);
        raise_to(time, mine);
        slowest = std::max(slowest, mine.total_s);
    }
    const Timeline shared = shared_time(traffic, machine.shared);
    raise_to(time, shared);
    time.total_s = is_lockstep ? time.read_s + time.exchange_s + time.copy_s + time.write_s
                               : std::max(slowest, shared.total_s);
    return time;
}

Bottleneck bottleneck_of(const Traffic& traffic, const Machine& machine, bool is_lockstep) {
    Shared nodes = machine.shared;
    nodes.system_read_bytes_s = nodes.system_write_bytes_s = nodes.system_reads_s = 0;
    Shared system = machine.shared;
    system.node_read_bytes_s = system.node_write_bytes_s = system.node_exchange_bytes_s = 0;
    const auto seconds = [&](const Machine& one) {
        return timeline_of(traffic, one, is_lockstep).total_s;
    };
    const double of_ranks = seconds({machine.rank, {}});
    const double of_nodes = seconds({{}, nodes});
    const double of_system = seconds({{}, system});
    return of_ranks >= std::max(of_nodes, of_system) ? Bottleneck::ranks
           : of_nodes >= of_system                   ? Bottleneck::nodes
                                                     : Bottleneck::system;
}

const char* name_of(Bottleneck limit) {
    return limit == Bottleneck::ranks   ? "ranks"
           : limit == Bottleneck::nodes ? "nodes"
                                        : "file system";
}

}  // namespace shardweld::plan
