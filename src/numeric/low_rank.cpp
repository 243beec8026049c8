#include "low_rank.hpp"

#include <cmath>

namespace shardweld::numeric {

void add_low_rank_portable(const LowRankUpdate& update) {
    for (std::size_t i = 0; i < update.n_rows; ++i) {
        const float* const left = update.left + i * update.rank;
        float* const row = update.values + i * update.n_cols;
        for (std::size_t j = 0; j < update.n_cols; ++j) {
            float sum = 0;
            for (std::size_t k = 0; k < update.rank; ++k) {
                sum = std::fma(left[k], update.right[k * update.right_stride + j], sum);
            }
            const float delta = update.scale * sum;
            row[j] += delta;
        }
    }
}

void add_low_rank(const LowRankUpdate& update) {
    static const LowRankKernel fast = add_low_rank_avx2();
    (fast != nullptr ? fast : add_low_rank_portable)(update);
}

}  // namespace shardweld::numeric
