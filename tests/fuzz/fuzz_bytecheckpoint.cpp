// Any bytes as ByteCheckpoint's `.metadata`, from its scan to the catalogue. Where items lie is not
// known before their files are opened; their boxes must lie inside their tensors.
#include <cstdint>

#include "rank_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace shardweld;
    fuzz::file_with(data, size);
    static auto location = fuzz::location_of("bytecheckpoint", ".metadata");
    location.shard_files = {"__0_0.distcp", "__1_0.distcp"};
    fuzz::expect_errors_only([&] {
        const formats::Format& format = formats::format_of(location);
        const auto catalogue = format.combine(location, {format.scan(location, ".metadata")});
        for (const auto& tensor : catalogue.tensors) {
            for (const auto& piece : tensor.pieces) {
                const auto& axes = piece.patch.axes;
                fuzz::require(axes.size() == tensor.shape.size());
                fuzz::require(piece.file < catalogue.files.size());
                for (std::size_t k = 0; k < axes.size(); ++k) {
                    fuzz::require(axes[k].lo >= 0 && axes[k].extent >= 0 &&
                                  axes[k].lo <= tensor.shape[k] - axes[k].extent);
                }
            }
        }
    });
    return 0;
}
