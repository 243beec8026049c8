// Any bytes as `.metadata`; every chunk must name a file and lie inside its tensor.
#include <cstdint>
#include <string_view>

#include "shardweld/formats/shared/dcp_metadata.hpp"

#include "support/memory_file.hpp"
#include "walk.hpp"

namespace {

void check(const shardweld::formats::DcpTensor& tensor, std::size_t n_files) {
    for (const auto& chunk : tensor.chunks) {
        if (chunk.file >= n_files || chunk.offsets.size() != tensor.shape.size()) {
            __builtin_trap();
        }
        for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
            if (chunk.offsets[axis] + chunk.sizes[axis] > tensor.shape[axis]) {
                __builtin_trap();
            }
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace shardweld;
    const test::MemoryFile memory({reinterpret_cast<const char*>(data), size});
    fuzz::expect_errors_only([&] {
        const auto metadata = formats::DcpMetadata::read(memory.path());
        for (const formats::DcpTensor& tensor : metadata.tensors) {
            check(tensor, metadata.files.size());
            fuzz::expect_errors_only([&] { formats::check_tiling(tensor); });
        }
    });
    return 0;
}
