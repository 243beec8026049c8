// What sentence-transformers keeps beside a model: modules.json, which names a directory for each
// module behind the transformer (pooling, dense layers with weights of their own).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardweld::publish {

/// Whether a file of this name is sentence-transformers', beside config.json.
bool is_of_sentence_model(std::string_view file_name);

/// Whether modules keep a file of this name in their directories.
bool is_of_module(std::string_view file_name);

/// Whether a directory has such a name as modules get: "1_Pooling".
bool is_module_directory(std::string_view name);

/// What modules.json says.
struct ModuleList {
    std::vector<std::string> directories;  ///< "1_Pooling", of modules behind the transformer
    std::vector<std::string> lost;         ///< what cannot be followed: "0_Transformer (why)"
};

/// Reads the text of a modules.json; paths that lead out of the model are among the lost. Pure.
ModuleList parse_modules(const std::string& text);

}  // namespace shardweld::publish
