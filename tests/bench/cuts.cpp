#include "cuts.hpp"

#include <utility>

namespace shardweld::bench {

std::string layer_name(Index layer) {
    return "model.layers." + std::to_string(layer) + ".";
}

Band rows(const std::string& tensor, Index columns, Index row, Index n_rows) {
    return {tensor, columns, row, n_rows, 0, columns};
}

Shard norm(std::string name, const std::string& hub, Index size) {
    return {std::move(name), {size}, {{{0}, {size}, {rows(hub, size, 0, 1)}}}, true};
}

Shard row_split(const std::string& name, const Band& whole, Index n_ranks, Index rank) {
    const Index n = whole.n_rows / n_ranks;
    const Band mine = rows(whole.tensor, whole.n_columns, rank * n, n);
    return {name,
            {whole.n_rows, whole.n_columns},
            {{{rank * n, 0}, {n, whole.n_columns}, {mine}}},
            false};
}

Shard column_split(const std::string& name, const Band& whole, Index n_ranks, Index rank) {
    const Index n = whole.n_columns / n_ranks;
    Band mine = whole;
    mine.column = rank * n;
    mine.n_columns = n;
    return {
        name, {whole.n_rows, whole.n_columns}, {{{0, rank * n}, {whole.n_rows, n}, {mine}}}, false};
}

Shard gate_up_split(const std::string& name, const Band& gate, const Band& up, Index n_ranks,
                    Index rank) {
    const Index n = gate.n_rows / n_ranks;
    Shard shard{name, {2 * gate.n_rows, gate.n_columns}, {}, false};
    Index offset = 0;
    for (const Band& half : {gate, up}) {
        shard.chunks.push_back({{offset + rank * n, 0},
                                {n, half.n_columns},
                                {rows(half.tensor, half.n_columns, rank * n, n)}});
        offset += half.n_rows;
    }
    return shard;
}

}  // namespace shardweld::bench
