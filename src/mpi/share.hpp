// Values of one rank on all ranks, and those of all ranks on each.
#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/codec.hpp"
#include "core/lists.hpp"

#include "comm.hpp"

namespace shardweld::mpi {

/// Collective. What `make` returns on rank `root`, on every rank; others do not call it, and get
/// what its fields say. An error that it throws is every rank's.
template <typename Make>
auto share(Comm& comm, int root, Make&& make) -> std::invoke_result_t<Make> {
    using Value = std::invoke_result_t<Make>;
    std::optional<Value> value;
    ByteWriter out;
    collectively(comm, [&] {
        if (comm.rank() == root) {
            value.emplace(std::invoke(std::forward<Make>(make)));
            if (comm.size() > 1) {
                out.put(*value);
            }
        }
    });
    const auto bytes = comm.broadcast(out.take(), root);
    return value ? std::move(*value) : ByteReader(bytes).get<Value>();
}

/// Collective. Every rank's value, by rank. They may be large: what travelled is freed rank by
/// rank.
template <typename T>
std::vector<T> gather(Comm& comm, T mine) {
    ByteWriter out;
    if (comm.size() > 1) {
        out.put(mine);
    }
    auto travelled = comm.all_gather(out.take());
    std::vector<T> all(travelled.size());
    const auto own = as_size(comm.rank());
    for (const std::size_t rank : indices(all)) {
        const ByteBuffer bytes = std::move(travelled[rank]);
        if (rank != own) {
            all[rank] = ByteReader(bytes).get<T>();
        }
    }
    all[own] = std::move(mine);
    return all;
}

/// Collective. All ranks' lists, one behind the other.
template <typename T>
std::vector<T> gather_all(Comm& comm, std::vector<T> mine) {
    std::vector<T> all;
    for (auto& part : gather(comm, std::move(mine))) {
        all.insert(all.end(), std::make_move_iterator(part.begin()),
                   std::make_move_iterator(part.end()));
    }
    return all;
}

}  // namespace shardweld::mpi
