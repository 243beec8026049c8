// The first elements of a tensor, by which a weight and its fp32 master are held against each other
// while metadata are read.
#pragma once

#include <cstddef>
#include <tuple>
#include <vector>

#include "catalogue/tensor.hpp"
#include "core/dtype.hpp"

namespace shardweld::io {
class InputFile;
}  // namespace shardweld::io

namespace shardweld::formats::deepspeed {

struct Beginning {
    DType dtype = DType::f32;
    std::vector<std::byte> bytes;  ///< of at most 64 elements; none where they do not lie dense

    static constexpr auto fields = [](auto& self) { return std::tie(self.dtype, self.bytes); };
};

/// The beginning of a tensor that is one piece of `input`. Error(io).
Beginning beginning_of(const catalogue::Tensor& tensor, const io::InputFile& input);

/// Whether each element of the fp32 master rounds to that of the weight, as far as both have it:
/// exactly for bf16 and fp32, for fp16 to half of a unit in the last place. Other types are not
/// compared. Elements that are no numbers are equal.
bool rounds_to(const Beginning& master, const Beginning& weight);

}  // namespace shardweld::formats::deepspeed
