// A cast between any two types made of kernels, so that tests can run it on each set of kernels.
#pragma once

#include <cstddef>
#include <span>

#include "core/dtype.hpp"

#include "kernels.hpp"

namespace shardweld::numeric {

/// convert() and add_constant() with the given kernels.
void convert_with(const Kernels& kernels, DType from, std::span<const std::byte> src, DType to,
                  std::span<std::byte> dst);
void add_constant_with(const Kernels& kernels, DType dtype, std::span<std::byte> values,
                       float constant);

}  // namespace shardweld::numeric
