// What files beside the shards declare of an adapter (adapter_config.json, lora_train_meta.json,
// Megatron-Bridge's run_config.yaml, ms-swift's args.json), read field by field: a value that is no
// value of its field is an error, never a default. Facts: PEFT's LoraConfig (peft 0.21);
// megatron-bridge 0.3.1 megatron/bridge/peft/{lora,canonical_lora}.py; ms-swift 4
// swift/arguments/tuner_args.py.
#pragma once

#include <cstddef>
#include <memory>
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
    /// What json() has read: several steps ask for it, and a hostile text takes seconds each time.
    mutable std::shared_ptr<const nlohmann::ordered_json> parsed = {};

    static constexpr auto fields = [](auto& self) { return std::tie(self.path, self.text); };

    /// The object that the text holds; an empty one when there is no file. Error(corrupt) when it
    /// holds none.
    [[nodiscard]] const nlohmann::ordered_json& json() const;
};

/// What becomes of an adapter.
enum class AdapterUse {
    beside,             ///< written as it is, for PEFT to read
    folded,             ///< added into the base that was saved with it
    folded_into_given,  ///< added into another copy of the base
};

/// What a field says; nullptr where it is absent or null.
const nlohmann::ordered_json* stated(const nlohmann::ordered_json& json, const char* field);

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
/// another method, layer_replication; and where it is folded what W + s B
/// A does not say.
void require_plain(const nlohmann::ordered_json& declared, const ConfigFile& file, AdapterUse use);

/// The value of the first pattern in `field` (rank_pattern, alpha_pattern) that matches the
/// module's path, as PEFT looks it up; 0 for what is no number, which is refused as any 0 is.
std::optional<double> by_pattern(const nlohmann::ordered_json& declared, const char* field,
                                 const std::string& path);

/// Error(unsupported) where so many modules and patterns would take hours to hold together.
void require_few_patterns(const nlohmann::ordered_json& declared, const ConfigFile& file,
                          std::size_t n_modules);

/// Which PEFT wrote a file. The version is of the one that made the adapter first: PEFT keeps it
/// where it saves what it has loaded.
struct Release {
    std::string version;       ///< as stated; "" where it is not
    std::string field;         ///< the newest release that a field is of, by that field; "" none
    std::string since;         ///< the release: "0.20.0"
    bool lacks_newer = false;  ///< it has fields of 0.18, and none that came later
};

Release release_of(const nlohmann::ordered_json& declared);

/// `dim` and `alpha` as lora_train_meta.json has them; text "" where there is no section `peft`.
/// Error(unsupported) for other adapters than LoRA.
ConfigFile train_meta_of(const ConfigFile& run_config);

/// Makes one of ms-swift's args.json (`lora_rank`, `lora_alpha`, `use_rslora`): text "" where it
/// says nothing of LoRA. Error(corrupt) for a file that is no JSON object.
ConfigFile train_meta_of_args(const ConfigFile& args);

}  // namespace shardweld::adapters
