// The header of a safetensors file as it is written here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "outputs/output.hpp"

namespace shardweld::outputs {

/// The format keeps one name for itself. Error(unsupported) for it, and for what is no UTF-8.
void require_header_name(const std::string& name);

/// The length field and JSON of a file whose tensors lie in the given order, padded with spaces so
/// that data begins at a multiple of 4096. Error(unsupported) for more than 100 MB.
std::string header_of(const std::vector<OutputTensor>& tensors,
                      const std::vector<std::uint32_t>& order);

}  // namespace shardweld::outputs
