// What adapter_config.json and lora_train_meta.json declare, read field by field: a value that is
// no value of its field is an error, never a default. Facts: PEFT's LoraConfig (peft 0.21).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <nlohmann/json.hpp>

namespace shardweld::adapters {

/// A small JSON file beside the checkpoint; text "" when there is none.
struct ConfigFile {
    std::string path;  ///< for messages
    std::string text;

    static constexpr auto fields = [](auto& self) { return std::tie(self.path, self.text); };
};

/// What becomes of an adapter.
enum class AdapterUse {
    beside,             ///< written as it is, for PEFT to read
    folded,             ///< added into the base that was saved with it
    folded_into_given,  ///< added into another copy of the base
};

/// The object a file holds; an empty one when there is no file. Error(corrupt) when it holds none.
nlohmann::ordered_json parse_declared(const ConfigFile& file);

/// A number above 0; nullopt where the field is absent, null or 0 (verl writes 0 for an alpha it
/// does not know). Error(mismatch) for anything else, naming the file.
std::optional<double> positive(const nlohmann::ordered_json& json, const char* field,
                               const ConfigFile& file);

/// Whether a switch is on; absent and null are off. Error(mismatch) for anything but true and
/// false.
bool flag(const nlohmann::ordered_json& json, const char* field, const ConfigFile& file);

/// The texts of a list; none where the field holds no list.
std::vector<std::string> texts_of(const nlohmann::ordered_json& json, const char* field);

/// Error(unsupported) where the configuration declares what no LoRA of factors beside modules has:
/// another method, trainable_token_indices, layer_replication; and where it is folded what W + s B
/// A does not say.
void require_plain(const nlohmann::ordered_json& declared, const ConfigFile& file, AdapterUse use);

/// The value of the first pattern in `field` (rank_pattern, alpha_pattern) that matches the
/// module's path, as PEFT looks it up; 0 for what is no number, which is refused as any 0 is.
std::optional<double> by_pattern(const nlohmann::ordered_json& declared, const char* field,
                                 const std::string& path);

/// Error(unsupported) where so many modules and patterns would take hours to hold together.
void require_few_patterns(const nlohmann::ordered_json& declared, const ConfigFile& file,
                          std::size_t n_modules);

}  // namespace shardweld::adapters
