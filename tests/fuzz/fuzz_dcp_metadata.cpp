// Any bytes as `.metadata`; every chunk must name a file inside the directory and lie inside its
// tensor.
#include <cstdint>

#include "shardweld/core/text.hpp"
#include "shardweld/formats/containers/dcp_metadata.hpp"

#include "expect.hpp"
#include "input_file.hpp"

namespace {

using namespace shardweld;

void check(const formats::DcpTensor& tensor, std::size_t n_files) {
    for (const auto& chunk : tensor.chunks) {
        fuzz::require(chunk.file < n_files && chunk.offsets.size() == tensor.shape.size());
        for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
            fuzz::require(chunk.offsets[axis] >= 0 && chunk.sizes[axis] >= 0 &&
                          chunk.offsets[axis] <= tensor.shape[axis] - chunk.sizes[axis]);
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::expect_errors_only([&] {
        const auto metadata = formats::DcpMetadata::read(fuzz::file_with(data, size));
        for (const std::string& file : metadata.files) {
            fuzz::require(!file.empty() && file.front() != '/');
            for (const std::string_view part : split(file, '/')) {
                fuzz::require(part != "..");
            }
        }
        for (const formats::DcpTensor& tensor : metadata.tensors) {
            check(tensor, metadata.files.size());
            fuzz::expect_errors_only([&] { formats::check_tiling(tensor); });
        }
    });
    return 0;
}
