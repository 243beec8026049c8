// Weights that are stored as codes and scales put together again, around bind.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "catalogue/tensor.hpp"
#include "plan/binding.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::plan {

/// A stored weight of fewer bits.
struct EncodedWeight {
    Encoding encoding{};
    std::string name;          ///< of the weight
    std::vector<Index> shape;  ///< of the weight
    catalogue::Tensor codes;
    catalogue::Tensor scales;
    std::optional<catalogue::Tensor> global;  ///< the divisor of scales
    Index rows_per_scale = 0;                 ///< 0: as the encoding's tiles say
};

/// Bits of a code of a module's weight, as config.json states them; nullopt: it does not.
using BitsOf = std::function<std::optional<Index>(const std::string& module)>;

/// Takes the weights that are stored as codes out of a catalogue and puts weights of bf16 in their
/// places, which have no bytes yet. Which encoding it is, names, types and shapes of codes and
/// scales say, and `bits`. Scales of activations are left out, with a reason. Error(unsupported)
/// for encodings that are not known (zero points).
std::vector<EncodedWeight> take_encoded(catalogue::Catalogue& catalogue, const BitsOf& bits);

/// Takes the scales of weights that are stored as values out of a catalogue, with a reason, and
/// returns the names of these weights: compressed-tensors 0.20 saves a model so after a forward
/// pass has multiplied them. The type of the weight says it, no config.
std::vector<std::string> leave_idle_scales(catalogue::Catalogue& catalogue);

/// Whether it would take any.
bool holds_encoded(const catalogue::Catalogue& catalogue);

/// Gives the targets of these weights their codes; returns the targets that their scales become in
/// `file`, which is read while codes are. Error(unsupported) for a weight that is not written as it
/// is stored.
std::vector<Target> make_of_codes(Binding& binding, const std::vector<EncodedWeight>& weights,
                                  const std::string& file);

}  // namespace shardweld::plan
