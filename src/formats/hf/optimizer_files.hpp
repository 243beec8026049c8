// The states of an optimizer in a model's directory, as `reshape --state --to hf` writes them:
// optimizer/param.safetensors and the like, and optimizer/optimizer.json.
#pragma once

#include <string>
#include <vector>

#include "formats/catalogue_words.hpp"
#include "formats/format.hpp"

namespace shardweld::formats::hf {

/// Those that are there and asked for, relative to the location's directory.
std::vector<std::string> optimizer_files(const Location& location);

/// The state that a file of these names holds, "param" of "optimizer/param.safetensors"; "" of any
/// other file.
std::string state_in(const std::string& file);

/// Makes the tensors of such a file's scan a state of the optimizer; that of the first of
/// optimizer_files tells what optimizer.json says, too. Local.
void take_as_state(const Location& location, const std::string& file, Catalogue& scan);

/// Adds such scans to the model. Error(unsupported) for one moment without the other.
void add_states(std::vector<Catalogue> scans, Catalogue& out);

}  // namespace shardweld::formats::hf
