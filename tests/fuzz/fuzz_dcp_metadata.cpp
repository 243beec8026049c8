// Any bytes as `.metadata`; every chunk must name a file inside the directory and lie inside its
// tensor, every view inside its item.
#include <algorithm>
#include <cstdint>

#include "core/text.hpp"
#include "formats/containers/dcp_metadata.hpp"
#include "formats/shared/dcp_pieces.hpp"

#include "expect.hpp"
#include "input_file.hpp"

namespace {

using namespace shardweld;

/// The last element that a view reaches lies inside its item.
void check_view(const formats::StoredTensor& view, const formats::DcpChunk& chunk) {
    Index last = view.element_offset;
    for (std::size_t axis = 0; axis < view.shape.size(); ++axis) {
        last += view.strides[axis] * (view.shape[axis] - 1);
    }
    fuzz::require(std::ranges::equal(view.shape, chunk.sizes));
    fuzz::require(view.volume() == 0 ||
                  static_cast<Bytes>(last + 1) * size_of(view.dtype) <= chunk.length);
}

void check(const formats::DcpTensor& tensor, const formats::DcpMetadata& metadata) {
    for (const auto& chunk : tensor.chunks) {
        if (!metadata.views.empty()) {
            check_view(metadata.views.at(chunk.view), chunk);
        }
        fuzz::require(chunk.file < metadata.files.size() &&
                      chunk.offsets.size() == tensor.shape.size());
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
        for (const auto& [file, end] : metadata.files) {
            fuzz::require(!file.empty() && file.front() != '/');
            for (const std::string_view part : split(file, '/')) {
                fuzz::require(part != "..");
            }
        }
        for (const formats::DcpTensor& tensor : metadata.tensors) {
            check(tensor, metadata);
            fuzz::expect_errors_only([&] { formats::check_tiling(formats::tensor_of(tensor)); });
        }
    });
    return 0;
}
