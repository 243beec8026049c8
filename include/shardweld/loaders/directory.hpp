// A model directory as the program that loads it meets it, and what is found wrong with it.
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

/// A tensor that the model's family has.
struct ExpectedTensor {
    std::vector<Index> shape;
    bool is_optional = false;  ///< models without it are whole
};

/// A GGUF file, by its header.
struct GgufFile {
    std::string name;
    std::string fault;  ///< "": its header can be read
    bool has_tokens = false;
    bool has_template = false;  ///< for chats
};

/// A model directory as a loader meets it.
struct Directory {
    std::string config_text;                         ///< "": there is no config.json
    std::map<std::string, StoredTensor> tensors;     ///< of all files of weights
    std::vector<std::string> faults;                 ///< of the files of weights and their index
    std::set<std::string> files;                     ///< names of what lies in the directory
    std::string family;                              ///< the recipe's name; "": not known
    std::map<std::string, ExpectedTensor> expected;  ///< what it makes of config.json
    std::vector<std::string> passes;                 ///< names that it lets pass, with '*'
    std::vector<GgufFile> gguf;
    std::string tokenizer_config_text;  ///< "": there is none
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

}  // namespace shardweld::loaders
