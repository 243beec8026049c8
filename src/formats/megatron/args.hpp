// Hyper-parameters a Megatron checkpoint states about itself: `args` and transformer_config.json.
// Everything but parallel sizes is passed on as text.
// Sources: megatron-core 0.16.1 megatron/training/arguments.py, transformer_config.py.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "formats/catalogue_words.hpp"
#include "formats/containers/pickle.hpp"
#include "formats/shared/scalar_value.hpp"

namespace shardweld::formats::megatron {

/// The attributes of an argparse.Namespace or another object, or the values of a dict: flags,
/// numbers and words as ScalarReader reads them, lists of them as "[1, 2]", and of what is none of
/// these its class, so that it does not count as not stated. What is None is left out.
StatedConfig claims_of(const PickleValue& args, const ScalarReader& scalars);

/// The claims of a JSON object, lists and objects as JSON text. Error(corrupt) when `text` is none.
StatedConfig claims_of_json(const std::string& text);

/// The claims of Megatron-Bridge's run_config.yaml, its sections `model` and `tokenizer`, and of
/// NeMo's model.yaml, its section `config`.
StatedConfig claims_of_run_config(std::string_view text);

/// An integer claim; nullopt when it is absent or no whole number.
std::optional<Index> number_claim(const StatedConfig& claims, std::string_view key);

/// Whether a claim is there and has this value.
bool is_claimed(const StatedConfig& claims, const std::string& key, std::string_view value);

/// All arguments that every rank's file must agree on, those without a value ("None") and lists
/// included: all but what a rank has for itself (its number, device, host, times and places).
StatedConfig common_args(const PickleValue& args, const ScalarReader& scalars);

/// A fingerprint of claims: hundreds of arguments for each of thousands of files add up.
Index fingerprint_of(const StatedConfig& claims);

/// Error(mismatch) naming both files when a claim that both have differs between them, or one of
/// the model's or grid's sizes is only in one.
void require_agreement(const StatedConfig& a, const std::string& file_a, const StatedConfig& b,
                       const std::string& file_b);

/// Error(unsupported) when the run used a layout this program cannot undo (GLU interleaving).
void refuse_unsupported(const StatedConfig& claims);

/// The parallel sizes that claims state as facts tp, pp, vpp, ep, etp; only those stated, all
/// checked to be positive (Error(corrupt)).
std::map<std::string, Index> stated_sizes(const StatedConfig& claims);

/// Whether the run says that its tokenizer was none of HuggingFace's, whose files have other names
/// or, under the same names, another content (TikTokenizer's tokenizer.json).
bool has_other_tokenizer(const StatedConfig& claims);

/// Whether the run says that embedding and output layer are one tensor.
bool shares_embeddings(const StatedConfig& claims);

}  // namespace shardweld::formats::megatron
