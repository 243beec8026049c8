// The module's tensors in a file of model states.
// Knows which of them are wanted; nothing of what else the file lists.
#pragma once

#include <set>
#include <string>

#include "catalogue/catalogue.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/shared/ignored_rows.hpp"

#include "rules.hpp"
#include "scan.hpp"

namespace shardweld::formats::deepspeed {

/// What the file lists beside its module.
struct Listed {
    Shapes shapes;                 ///< of the parameters in flat groups, on this rank
    std::set<std::string> frozen;  ///< parameters that are taken from their fragments
    std::set<std::string> buffers;
};

/// Adds the module's tensors to those of `out`, which has the parameters already: these get their
/// 16-bit dtypes; a second name of one becomes a claim. Error(corrupt) for what is no dictionary of
/// tensors and for names that changed, Error(unsupported) for other objects.
void add_module(const PickleValue& module, const TorchFile& file, const FileName& name,
                const Wish& wish, const Listed& listed, IgnoredRows& ignored,
                catalogue::Catalogue& out);

/// Narrow floats beside fp32 weights of others are written as these.
void widen(catalogue::Tensor& tensor, const Wish& wish);

}  // namespace shardweld::formats::deepspeed
