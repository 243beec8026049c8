// A model directory as the program that loads it meets it, and what is found wrong with it.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/index.hpp"

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

/// A safetensors file, by its header.
struct WeightFile {
    std::string name;
    std::string fault;  ///< "": its header can be read
    std::map<std::string, StoredTensor> tensors;
    std::string unknown = "";  ///< what in it this program cannot read, "" for nothing
};

/// The index of several files (model.safetensors.index.json), as loaders read it.
struct WeightIndex {
    std::string fault;                           ///< "": it can be read
    std::map<std::string, std::string> file_of;  ///< by tensor
    bool has_metadata = false;
};

/// A tensor that the model's family has.
struct ExpectedTensor {
    std::vector<Index> shape;
    bool is_optional = false;  ///< models without it are whole
    bool is_linear = false;    ///< the weight of a linear layer
    /// Other names in use for it on the Hub, and that in the tree of transformers' modules.
    std::vector<std::string> spellings;
    std::string logical;  ///< the recipe's tensor that it is, or is a part of ("layer.0.qkv")
};

/// A GGUF file, by its header.
struct GgufFile {
    std::string name;
    std::string fault;         ///< "": its header can be read
    std::string unknown = "";  ///< what in it this program cannot read, "" for nothing
    std::map<std::string, std::vector<Index>> tensors = {};  ///< shapes, the longest stride first
    std::map<std::string, std::string> texts = {};           ///< metadata that are short texts
    std::map<std::string, Index> numbers = {};               ///< those that are whole numbers
    std::set<std::string> keys = {};                         ///< of all metadata
    std::map<std::string, Index> lengths = {};               ///< entries of those that are lists

    [[nodiscard]] bool has(const std::string& key) const {
        return texts.contains(key) || numbers.contains(key) || lengths.contains(key);
    }
};

/// The tokenizer beside the weights.
struct Tokenizer {
    bool is_there = false;
    std::string fault = "";         ///< of one of its files, "": none is seen
    std::optional<Index> n_tokens;  ///< its largest number, and one; nullopt: unknown
    std::string config_text;        ///< tokenizer_config.json; "": there is none
    std::string eos;                ///< the token that ends a text, as the files name it
    std::optional<Index> eos_number;
};

/// A model directory as a loader meets it.
struct Directory {
    std::set<std::string> files;  ///< names of what lies in the directory
    std::string config_text;      ///< "": there is no config.json
    std::string generation_text;  ///< generation_config.json, likewise
    std::vector<WeightFile> weights;
    std::optional<WeightIndex> index;
    std::vector<GgufFile> gguf;
    Tokenizer tokenizer;
    /// Whether two stored tensors have the same values, as far as is seen at a glance; nullopt
    /// where they cannot be compared. May be empty.
    std::function<std::optional<bool>(const std::string&, const std::string&)> equal;

    std::string family;                              ///< the recipe's name; "": not known
    std::map<std::string, ExpectedTensor> expected;  ///< what it makes of config.json
    std::string fault;                               ///< why it makes nothing of it; "": it does
    /// Tensors of the tree of transformers' modules that together stand for a recipe's tensor, by
    /// that: of each the names that it may have.
    std::map<std::string, std::vector<std::vector<std::string>>> whole;
    std::vector<std::string> passes;  ///< names that it lets pass, with '*'
    std::vector<std::string> needs;   ///< ends of names that are there; '|' between alternatives
    /// How names of the language model begin, where all of them pass; none: not known.
    std::vector<std::string> roots;
};

/// One thing that is wrong with it.
struct Finding {
    bool is_fatal = false;  ///< would not load, or would load wrong values
    std::string rule;       ///< its name in loader_rules
    std::string text;
    std::string hint;
};

}  // namespace shardweld::loaders
