#include "processor.hpp"

#include "kernels.hpp"
#include "low_rank.hpp"
#include "quantise_kernels.hpp"

namespace shardweld::numeric {

std::string instruction_sets() {
    const bool casts = avx2_kernels() != nullptr;
    const bool folds = add_low_rank_avx2() != nullptr;
    if (!casts && !folds) {
        return "portable code";
    }
    return std::string("AVX2") + (casts ? ", F16C" : "") + (folds ? ", FMA" : "") +
           (avx512_quantise_kernels() != nullptr ? ", AVX-512" : "");
}

}  // namespace shardweld::numeric
