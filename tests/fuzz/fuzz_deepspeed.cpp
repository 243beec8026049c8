// Any bytes as every file of a DeepSpeed checkpoint: one dictionary can be model states and
// optimizer states at once. The first letter says which files there are, and which weights are
// asked for: two letters for each set of files.
#include <array>
#include <cstdint>
#include <string>

#include "rank_file.hpp"

namespace {

using namespace shardweld;

formats::Location zero(const std::vector<std::string>& names) {
    return fuzz::found_in(fuzz::directory_with(names), "deepspeed");
}

std::array<formats::Location, 6> locations() {
    return {zero({"mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt"}),
            zero({"mp_rank_00_model_states.pt", "mp_rank_01_model_states.pt",
                  "zero_pp_rank_0_mp_rank_00_optim_states.pt",
                  "zero_pp_rank_0_mp_rank_01_optim_states.pt"}),
            zero({"zero_pp_rank_0_mp_rank_00_model_states.pt",
                  "zero_pp_rank_1_mp_rank_00_model_states.pt",
                  "zero_pp_rank_0_mp_rank_00_optim_states.pt",
                  "zero_pp_rank_1_mp_rank_00_optim_states.pt"}),
            zero({"mp_rank_00_model_states.pt", "layer_00-model_states.pt"}),
            zero({"mp_rank_00_model_states.pt", "layer_0_expert_0_mp_rank_00_model_states.pt",
                  "expp_rank_0_mp_rank_00_optim_states.pt"}),
            fuzz::found_in(fuzz::directory_with(
                               {"mp_rank_00_model_states.pt", "zero/w/fp32.pt", "zero/v/fp32.pt"}),
                           "deepspeed universal")};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::file_with(data, 0);
    static std::array<formats::Location, 6> all = locations();
    if (size == 0 || data[0] < 'a' || data[0] - std::size_t{'a'} >= 2 * all.size()) {
        return 0;
    }
    const std::size_t way = data[0] - std::size_t{'a'};
    fuzz::file_with(data + 1, size - 1);
    formats::Location& location = all[way / 2];
    location.weights = way % 2 == 0 ? formats::WeightsFrom::automatic : formats::WeightsFrom::model;
    fuzz::expect_errors_only([&] { fuzz::scan_and_join(location, size - 1); });
    return 0;
}
