// Any bytes as every file of a DeepSpeed checkpoint: one dictionary can be model states and
// optimizer states at once. One rank, two tensor-parallel ranks, and ZeRO-3.
#include <array>
#include <cstdint>
#include <filesystem>

#include "rank_file.hpp"

namespace {

using namespace shardweld;

using Names = std::vector<std::string>;

formats::Location location_with(const Names& names) {
    static const fuzz::LinkDirectory directory("link");
    static int n_locations = 0;
    const auto path = directory.path() / std::to_string(n_locations++);
    std::filesystem::create_directory(path);
    for (const std::string& name : names) {
        std::filesystem::create_symlink(fuzz::input_path(), path / name);
    }
    formats::Location location;
    location.format = "deepspeed";
    return formats::format_of(location).probe(path).value();
}

void scan_and_join(const formats::Location& location, Bytes size) {
    const formats::Format& format = formats::format_of(location);
    std::vector<catalogue::Catalogue> scans;
    for (const std::string& file : format.scan_list(location)) {
        scans.push_back(format.scan(location, file));
    }
    const auto catalogue = format.combine(location, std::move(scans));
    for (const auto& tensor : catalogue.tensors) {
        for (const auto& piece : tensor.pieces) {
            fuzz::require_inside(piece, tensor.shape, tensor.dtype, size);
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::file_with(data, size);
    static std::array<formats::Location, 4> locations = {
        location_with({"mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt"}),
        location_with({"mp_rank_00_model_states.pt", "mp_rank_01_model_states.pt",
                       "zero_pp_rank_0_mp_rank_00_optim_states.pt",
                       "zero_pp_rank_0_mp_rank_01_optim_states.pt"}),
        location_with({"zero_pp_rank_0_mp_rank_00_model_states.pt",
                       "zero_pp_rank_1_mp_rank_00_model_states.pt",
                       "zero_pp_rank_0_mp_rank_00_optim_states.pt",
                       "zero_pp_rank_1_mp_rank_00_optim_states.pt"}),
        location_with({"mp_rank_00_model_states.pt", "layer_00-model_states.pt"})};
    for (formats::Location& location : locations) {
        for (const auto weights : {formats::WeightsFrom::automatic, formats::WeightsFrom::model}) {
            location.weights = weights;
            fuzz::expect_errors_only([&] { scan_and_join(location, size); });
        }
    }
    return 0;
}
