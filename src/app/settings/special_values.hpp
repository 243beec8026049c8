// The values of options that follow rules of their own, and what becomes of them.
// Knows one option each; what several say together is parse_options' matter.
#pragma once

#include "core/dtype.hpp"
#include "core/encoding.hpp"
#include "loaders/check.hpp"
#include "publish/striping.hpp"

#include "option_value.hpp"

namespace shardweld::app {

/// "auto (default), fsdp or dcp".
std::string choice_help(const std::string& first, const std::vector<std::string>& others);
std::string output_format_help();
const std::string& quantise_help();
Words<const outputs::Format*> output_formats();
Words<loaders::Loader> loaders_by_name();

// All of the following: Error(usage) when the text is no such value.

/// The values of --backend.
std::vector<std::string> backend_words();
/// Error(unsupported) for those that verl's mergers know and this version does not.
std::string backend_in(const Given& given);
/// "bf16", "bfloat16", "torch.bfloat16"; Error(unsupported) for types of 8 bits and fewer.
DType dtype_in(const Given& given);
/// "fp8-block", or a preset's name of compressed-tensors.
Encoding encoding_in(const Given& given);
/// "2,4": one or more, none of them 0.
std::vector<Index> extents_in(const Given& given);
/// "8", "all", "8,4MiB".
publish::Striping striping_in(const Given& given);
/// A regular expression.
std::string expression_in(const Given& given);
double lora_alpha_in(const Given& given);
/// More than 0.
double decay_in(const Given& given);
fs::path path_in(const Given& given);
/// Bytes that are read or written at once.
Bytes extent_in(const Given& given);
Bytes memory_limit_in(const Given& given);
int n_ranks_in(const Given& given);
int n_nodes_in(const Given& given);

// Setters.
void ignored(const Given& given, Options& options);
void ignored_with_note(const Given& given, Options& options);
void set_older_config(const Given& given, Options& options);
void set_verl(const Given& given, Options& options);
void set_also(const Given& given, Options& options);
void set_target(const Given& given, Options& options);
void set_quiet(const Given& given, Options& options);
void set_sbatch(const Given& given, Options& options);
void set_nodes(const Given& given, Options& options);
void set_rate(const Given& given, Options& options);

}  // namespace shardweld::app
