// A tensor of a file as its header has it.
#pragma once

#include <cstdint>
#include <string>

#include "catalogue/tensor.hpp"

namespace shardweld::formats {
struct StoredTensor;
}  // namespace shardweld::formats

namespace shardweld::app {

/// `file`: its number among those that are read.
catalogue::Tensor stored_tensor(const std::string& name, const formats::StoredTensor& stored,
                                std::uint32_t file);

}  // namespace shardweld::app
