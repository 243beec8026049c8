// Several checkpoints' bindings as one, whose targets are mixed of theirs.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "plan/binding.hpp"

namespace shardweld::plan {

/// One checkpoint's part. The files of its operands are counted among those of all.
struct MixInput {
    Binding binding;
    std::string name;  ///< of the checkpoint, for messages
    float weight = 1;
    /// Names that it leaves out, and what each is equal to.
    std::map<std::string, std::string> tied = {};
};

/// The inputs' tensors in one binding: floats become a mix with a term for each input, in their
/// order; of others the lead's are written, and the rest must equal them (Binding::same). What one
/// input ties and another has is that of which it is a copy, with a warning. Written types are the
/// lead's, ledgers are added up. Error(mismatch) naming both sides where the inputs
/// have other tensors, shapes or kinds of numbers; Error(unsupported) for floats of 8 bits and for
/// targets that something is added to.
Binding mixed(std::vector<MixInput> inputs, MixKind kind, std::size_t lead = 0);

}  // namespace shardweld::plan
