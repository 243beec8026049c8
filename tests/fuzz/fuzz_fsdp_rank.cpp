// Any bytes as a rank file of FSDP, with the mesh it states and with one given by hand.
#include <cstdint>

#include "rank_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace shardweld;
    fuzz::file_with(data, size);
    static auto location = fuzz::location_of("verl fsdp", "model_world_size_4_rank_0.pt");
    for (const formats::Mesh& mesh : {formats::Mesh(), formats::Mesh{{"fsdp", "tp"}, {2, 2}}}) {
        location.mesh = mesh;
        fuzz::expect_errors_only([&] { fuzz::scan_and_combine(location); });
    }
    return 0;
}
