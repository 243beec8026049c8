// What rules share: the directory with its configuration parsed and the weights that the loader
// reads, and where findings go.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "directory.hpp"
#include "scheme.hpp"

namespace shardweld::loaders {

/// The tensors of those files of weights that a loader takes.
struct Weights {
    std::map<std::string, StoredTensor> tensors;
    bool is_whole = true;  ///< all of them can be read: what is not among them is missing
    /// What is wrong with the files themselves, or not looked at.
    std::vector<Finding> findings;
};

/// A directory that rules look at.
struct ModelUnderCheck {
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

/// "layer.weight and 31 more".
std::string first_of(const std::vector<std::string>& names);

/// Adds the findings of one rule. Those of many tensors are told once, by the first of them.
class Findings {
  public:
    Findings(std::string_view rule, std::vector<Finding>& out) : rule_(rule), out_(out) {}

    void fatal(const std::string& text, const std::string& hint) { add(true, text, hint); }
    void doubtful(const std::string& text, const std::string& hint) { add(false, text, hint); }
    void add(bool is_fatal, const std::string& text, const std::string& hint) {
        out_.push_back({is_fatal, std::string(rule_), text, hint});
    }
    /// Nothing where there are no names; else the text with the first of them behind it.
    void fatal_for(const std::vector<std::string>& names, const std::string& text,
                   const std::string& hint) {
        if (!names.empty()) {
            fatal(text + first_of(names), hint);
        }
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
    void (*look)(const ModelUnderCheck&, Findings&) = nullptr;
    std::string_view text;
    std::string_view source;
};

/// What config.json says by itself.
extern const std::span<const Rule> kConfigRules;
/// The tokenizer, templates and generation_config.json.
extern const std::span<const Rule> kTextRules;
/// Embedding and head.
extern const std::span<const Rule> kEndRules;
/// Names and shapes of the tensors against config.json and the model's family.
extern const std::span<const Rule> kTensorRules;
/// Names of towers, and of families that are not known.
extern const std::span<const Rule> kPartRules;
/// quantization_config against the tensors.
extern const std::span<const Rule> kQuantisationRules;
/// What must divide by the number of devices.
extern const std::span<const Rule> kParallelRules;
/// GGUF files.
extern const std::span<const Rule> kGgufRules;

/// The text as JSON, in which a string stands for each NaN and infinity; discarded when it is none.
nlohmann::json parsed_json(const std::string& text);

/// Whether classes of this name generate text.
bool is_language_model(std::string_view architecture);

/// `rule`: whose findings they are.
Weights weights_for(const Directory& directory, const nlohmann::json& config, Loader loader,
                    std::string_view rule);

}  // namespace shardweld::loaders
