// Any bytes as what the lister of HDF5 files prints; every piece must lie inside its tensor and the
// file.
#include <cstdint>
#include <span>

#include "formats/hdf5/dataset.hpp"
#include "formats/hdf5/lister.hpp"

#include "expect.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace shardweld;
    constexpr Bytes kFileSize = 1 << 20;
    fuzz::expect_errors_only([&] {
        const auto datasets = formats::hdf5::parse_listing(std::as_bytes(std::span(data, size)));
        for (const auto& dataset : datasets) {
            fuzz::expect_errors_only([&] {
                const auto tensor = formats::hdf5::tensor_of(dataset, kFileSize);
                for (const auto& piece : tensor.pieces) {
                    fuzz::require_inside(piece, tensor.shape, tensor.dtype, kFileSize);
                }
            });
        }
    });
    return 0;
}
