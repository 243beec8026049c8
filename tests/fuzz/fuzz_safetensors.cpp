// Any bytes as a safetensors file, and its metadata as DCP_SHARDING_INFO; every tensor must lie in
// the file.
#include <cstdint>

#include "formats/containers/safetensors_header.hpp"
#include "formats/dcp/join_scans.hpp"
#include "io/input_file.hpp"

#include "expect.hpp"
#include "input_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace shardweld;
    fuzz::expect_errors_only([&] {
        const auto header =
            formats::read_safetensors(io::InputFile::open(fuzz::file_with(data, size)));
        for (const auto& [name, tensor] : header.tensors) {
            fuzz::require(tensor.storage_offset <= size &&
                          tensor.storage_bytes <= size - tensor.storage_offset &&
                          static_cast<std::uint64_t>(tensor.volume()) * size_of(tensor.dtype) ==
                              tensor.storage_bytes);
        }
        for (const auto& entry : header.metadata) {
            fuzz::expect_errors_only([&] { formats::dcp::parse_sharding_info(entry.second); });
        }
    });
    fuzz::expect_errors_only([&] {
        formats::dcp::parse_sharding_info({reinterpret_cast<const char*>(data), size});
    });
    return 0;
}
