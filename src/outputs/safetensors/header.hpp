// The header of a safetensors file as it is written here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "outputs/output.hpp"

namespace shardweld::outputs {

/// safetensors 0.8, tensor.rs: MAX_HEADER_SIZE, N_LEN.
inline constexpr Bytes kMaxHeader = 100'000'000;
inline constexpr Bytes kLengthField = 8;

/// The length field and the JSON behind it, filled up with spaces to `whole` bytes. Requires that
/// both fit into them.
std::string padded_header(std::string json, Bytes whole);

/// The format keeps one name for itself. Error(unsupported) for it, and for what is no UTF-8.
void require_header_name(const std::string& name);

/// The length field and JSON of a file whose tensors lie in the given order, padded with spaces so
/// that data begins at a multiple of 4096. Error(unsupported) for more than 100 MB.
std::string header_of(const std::vector<OutputTensor>& tensors,
                      const std::vector<std::uint32_t>& order);

}  // namespace shardweld::outputs
