// Any bytes as torch_checkpointing's metadata.pkl; every file must lie below the directory, and
// what a rank of a mesh holds must lie inside its tensor.
#include <algorithm>
#include <cstdint>

#include "core/names/names.hpp"
#include "formats/fsdp/dtensor.hpp"
#include "formats/torch_checkpointing/metadata.hpp"

#include "expect.hpp"
#include "input_file.hpp"

namespace {

using namespace shardweld;
using formats::torch_checkpointing::Placing;
using formats::torch_checkpointing::Saved;

void check(const Saved& saved, const Placing& placing) {
    const auto& ranks = saved.meshes.at(placing.mesh).ranks;
    for (std::size_t i = 0; i < std::min<std::size_t>(ranks.size(), 4); ++i) {
        const auto mesh = saved.seen_by(ranks[i], placing.mesh);
        fuzz::require(mesh.has_value() && ranks[i] < saved.world);
        fuzz::expect_errors_only([&] {
            const auto holding =
                formats::fsdp::make_holding({placing.shape, placing.placements, &*mesh});
            for (std::size_t d = 0; d < placing.shape.size(); ++d) {
                for (const auto& run : holding.runs[d]) {
                    fuzz::require(run.lo >= 0 && run.extent > 0 &&
                                  run.lo <= placing.shape[d] - run.extent);
                }
            }
        });
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::expect_errors_only([&] {
        const auto saved = formats::torch_checkpointing::read_saved(fuzz::file_with(data, size));
        for (const auto& [name, item] : saved ? saved->items : decltype(saved->items)()) {
            for (const auto& [rank, file] : item.files) {
                fuzz::require(rank < saved->world && leads_below(file));
            }
            for (const auto& [path, placings] : item.tensors) {
                fuzz::require(!placings.empty());
                std::ranges::for_each(placings, [&](const Placing& one) { check(*saved, one); });
            }
        }
    });
    return 0;
}
