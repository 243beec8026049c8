// Whether a model directory would load: the rules of the programs that serve it, without running
// them. Pure; knows names, shapes and config.json as those programs read them; reads no file.
// Sources: what was run with transformers 5.23, safetensors 0.8 and compressed-tensors 0.20, and
// what was read in vLLM's and SGLang's code, stand at each rule (loader_rules).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardweld/core/dtype.hpp"
#include "shardweld/core/index.hpp"

namespace shardweld::loaders {

enum class Loader { transformers, vllm, sglang, tgi, llama_cpp };

std::span<const Loader> all_loaders();
/// As the command line spells it ("llama.cpp").
std::string_view name_of(Loader loader);

/// What loads the model, and over how many devices it spreads it.
struct Request {
    Loader loader = Loader::transformers;
    Index tensor_parallel = 1;
    Index pipeline_parallel = 1;
};

struct StoredTensor {
    DType dtype = DType::bf16;
    std::vector<Index> shape;
};

/// A model directory as a loader meets it.
struct Directory {
    std::string config_text;                      ///< "": there is no config.json
    std::map<std::string, StoredTensor> tensors;  ///< of all files of weights
    std::vector<std::string> faults;              ///< of the files of weights and their index
    std::set<std::string> files;                  ///< names of what lies in the directory
    std::string tokenizer_config_text;            ///< "": there is none
    bool has_tokenizer = false;
    std::optional<Index> n_tokens;  ///< the tokenizer's largest number, and one; nullopt: unknown
};

/// One thing that is wrong with it.
struct Finding {
    bool is_fatal = false;  ///< would not load, or would load wrong values
    std::string rule;       ///< its name in loader_rules
    std::string text;
    std::string hint;
};

/// A rule as documents show it.
struct RuleText {
    std::string_view name;
    std::string_view text;
    std::string_view source;  ///< what was run, or which code was read
    std::vector<Loader> loaders;
};

/// All rules, in the order in which they are checked.
std::vector<RuleText> loader_rules();

/// What would go wrong, the fatal ones first. Error(corrupt) when config.json is no JSON object.
std::vector<Finding> check(const Directory& directory, const Request& request);

}  // namespace shardweld::loaders
