// Any bytes as the only rank file of a legacy Megatron checkpoint.
#include <cstdint>

#include "rank_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace shardweld;
    fuzz::file_with(data, size);
    static const auto location =
        fuzz::location_of("megatron legacy", "mp_rank_00/model_optim_rng.pt");
    fuzz::expect_errors_only([&] { fuzz::scan_and_combine(location); });
    return 0;
}
