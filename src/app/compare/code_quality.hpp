// How near the codes of quantised models are to the weights that they were made of, for people and
// for machines. Knows comparisons; reads no tensor.
#pragma once

#include <string>
#include <vector>

#include "comparison.hpp"

namespace shardweld::app {

/// A model and what was found of it beside the base, which is the reference.
struct CodedModel {
    std::string directory;
    Outcome outcome;
};

/// The worst tensors first.
std::string quality_text(const std::string& base, const std::vector<CodedModel>& models);
std::string quality_json(const std::string& base, const std::vector<CodedModel>& models);

/// Error(differs) where one of both has a tensor that the other lacks or has in another shape.
void require_same_tensors(const CodedModel& model, const std::string& base);

}  // namespace shardweld::app
