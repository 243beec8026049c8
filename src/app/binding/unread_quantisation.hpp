// Quantisations that are not read, recognised by what the files hold: names that one library alone
// gives, and weights that are integers.
#pragma once

#include <string>

#include "models/config.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

/// "the quantisation gptq", as config.json calls it; `otherwise` where it says nothing.
std::string quantisation_text(const models::Config& config, const std::string& otherwise);

/// A tensor that gives a quantisation away.
struct QuantisationTrace {
    std::string tensor;   ///< "": there is none
    std::string library;  ///< "mlx by its names"
};

/// The first whose name says so.
QuantisationTrace named_trace(const catalogue::Catalogue& catalogue);
/// The first weight that is made of integers, other than those of the weight's own shape that
/// compressed-tensors' W8A8 has: where it does not fit, that is why.
QuantisationTrace integer_trace(const catalogue::Catalogue& catalogue);

/// Error(unsupported): the tensor belongs to a quantisation that is not read.
[[noreturn]] void refuse_unread(const models::Config& config, const QuantisationTrace& trace);

}  // namespace shardweld::app
