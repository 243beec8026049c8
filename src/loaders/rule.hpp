// What rules share: the directory with its configuration parsed and the weights that the loader
// reads, and where findings go.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "directory.hpp"
#include "scheme.hpp"
#include "weight_files.hpp"

namespace shardweld::loaders {

/// A directory that rules look at.
struct Case {
    const Directory& directory;
    const Request& request;
    nlohmann::json config;  ///< an object; empty without config.json
    Weights weights;        ///< those of the files that the loader reads
    Scheme scheme;
    std::map<std::string, Module> modules;  ///< by name; see modules_of

    /// A field of config.json or of its text_config; null where there is none.
    [[nodiscard]] nlohmann::json field(const char* name) const;
    /// A field of config.json that is a whole number; nullopt for anything else.
    [[nodiscard]] std::optional<Index> number(const char* name) const;
    /// The first class that config.json names, "" for none.
    [[nodiscard]] std::string architecture() const;
    /// The tensor whose name ends in one of `endings`, nullptr if there is none.
    [[nodiscard]] const std::pair<const std::string, StoredTensor>* ending_in(
        const std::vector<std::string_view>& endings) const;
    [[nodiscard]] bool is_for(Loader loader) const { return request.loader == loader; }
};

/// Adds the findings of one rule. Those of many tensors are told once, by the first of them.
class Findings {
  public:
    Findings(std::string_view rule, std::vector<Finding>& out) : rule_(rule), out_(out) {}

    void fatal(const std::string& text, const std::string& hint) { add(true, text, hint); }
    void doubtful(const std::string& text, const std::string& hint) { add(false, text, hint); }
    void add(bool is_fatal, const std::string& text, const std::string& hint) {
        out_.push_back({is_fatal, std::string(rule_), text, hint});
    }

  private:
    std::string_view rule_;
    std::vector<Finding>& out_;
};

/// Bits of Loader.
constexpr unsigned bit(Loader loader) {
    return 1U << static_cast<unsigned>(loader);
}
inline constexpr unsigned kPython = bit(Loader::transformers);
inline constexpr unsigned kServers = bit(Loader::vllm) | bit(Loader::sglang) | bit(Loader::tgi);
inline constexpr unsigned kHub = kPython | kServers;

struct Rule {
    std::string_view name;
    unsigned loaders = 0;
    void (*look)(const Case&, Findings&) = nullptr;
    std::string_view text;
    std::string_view source;
};

/// What config.json says by itself.
const std::vector<Rule>& config_rules();
/// The tokenizer, templates and generation_config.json.
const std::vector<Rule>& text_rules();
/// Embedding and head.
const std::vector<Rule>& end_rules();
/// Names and shapes of the tensors against config.json and the model's family.
const std::vector<Rule>& tensor_rules();
/// Names of towers, and of families that are not known.
const std::vector<Rule>& part_rules();
/// quantization_config against the tensors.
const std::vector<Rule>& quantisation_rules();
/// What must divide by the number of devices.
const std::vector<Rule>& parallel_rules();
/// GGUF files.
const std::vector<Rule>& gguf_rules();

/// "layer.weight and 31 more".
std::string first_of(const std::vector<std::string>& names);

/// The value of a field, null where there is none or `object` is none.
nlohmann::json value_in(const nlohmann::json& object, const char* name);

/// The text as JSON, in which a string stands for each NaN and infinity; discarded when it is none.
nlohmann::json parsed_json(const std::string& text);

/// Whether classes of this name generate text.
bool is_language_model(std::string_view architecture);

}  // namespace shardweld::loaders
