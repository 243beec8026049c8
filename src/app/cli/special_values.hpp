// The values of options that follow rules of their own.
// Knows one option each; what several say together is option_rules' matter.
#pragma once

#include "shardweld/core/dtype.hpp"
#include "shardweld/publish/striping.hpp"

#include "option_value.hpp"

namespace shardweld::app {

/// "a, b and c".
std::string joined(const std::vector<std::string>& words, std::string_view before_last);

// All of the following: Error(usage) when the text is no such value.

/// The values of --backend.
std::vector<std::string> backend_words();
/// Error(unsupported) for those that verl's mergers know and this version does not.
std::string backend_in(const Given& given);
/// "bf16", "bfloat16", "torch.bfloat16"; Error(unsupported) for types of 8 bits and fewer.
DType dtype_in(const Given& given);
/// "2,4": one or more, none of them 0.
std::vector<Index> extents_in(const Given& given);
/// "8", "all", "8,4MiB".
publish::Striping striping_in(const Given& given);
/// A regular expression.
std::string expression_in(const Given& given);
double lora_alpha_in(const Given& given);
/// Bytes that are read or written at once.
Bytes extent_in(const Given& given);
Bytes memory_limit_in(const Given& given);
int n_ranks_in(const Given& given);
int n_nodes_in(const Given& given);

}  // namespace shardweld::app
