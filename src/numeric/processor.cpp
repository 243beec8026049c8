#include "processor.hpp"

#include "instruction_sets.hpp"
#include "kernels.hpp"

namespace shardweld::numeric {

std::string instruction_sets() {
    if (!has_avx2()) {
        return "portable code";
    }
    return std::string("AVX2") + (has_f16c() ? ", F16C" : "") + ", FMA" +
           (has_avx512() ? ", AVX-512" : "");
}

}  // namespace shardweld::numeric
