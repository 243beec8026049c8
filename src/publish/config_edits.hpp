// Keeps config.json true to the weights that are written beside it. Facts: HuggingFace's field
// names.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "models/config.hpp"
#include "models/recipe.hpp"
#include "plan/binding.hpp"

namespace shardweld::publish {

/// What was written, as far as config.json states it.
struct Facts {
    std::optional<DType> dtype;        ///< of most bytes; nullopt: no float tensor
    std::optional<Index> labels;       ///< rows of the classification head, when there is one
    bool to_token_classes = false;     ///< name the class that has the head
    bool is_quantised = false;         ///< some tensor holds codes instead of values
    std::string quantisation;          ///< what quantization_config must say, in JSON; "": leave it
    bool predicts = false;             ///< there are layers that predict further tokens
    std::optional<Index> predictions;  ///< how many of these; nullopt: not known
    std::optional<Index> last_layer;   ///< the highest number of a layer of the language model
    std::vector<models::ConfigEdit> edits;  ///< the recipe's
    std::set<std::string> logicals;         ///< logical tensors that are written ("mtp.0.proj")
};

/// The dtype that a config states; nullopt: none, or none that is known.
std::optional<DType> stated_dtype(const models::Config& config);

/// Undoes what wrappers made of the names in `architectures` while the model was trained, and makes
/// a list of a text, which loaders take for none; returns the names as they are then.
std::vector<std::string> name_trained_classes(models::Config& config);

/// generation_config.json as transformers 5.10 makes one of a config for a model that generates:
/// the numbers of its special tokens, and the defaults it states; "" for other models.
std::string made_generation_config(const models::Config& config);

/// Whether a tensor holds codes of a quantised model, by its name and type.
bool is_codes(const std::string& name, DType dtype, std::span<const Index> shape);

/// Facts of a list of targets; `to_token_classes` is the caller's to set.
Facts facts_of(const plan::Targets& targets, const std::set<std::string>& logicals,
               const models::Recipe& recipe);

/// The config with every field corrected that contradicts the facts. Fields that are right, and the
/// order, stay; when nothing is wrong, the text stays byte for byte. vocab_size is never touched.
/// `notes` gets what had to be corrected that people should know of.
models::Config true_config(models::Config config, const Facts& facts,
                           std::vector<std::string>& notes);

/// The value of quantization_config as JSON. `kept`: modules whose matrices stay as they are, which
/// it lists under each name that readers look at.
std::string quantisation_config(Encoding encoding, const std::vector<std::string>& kept);

}  // namespace shardweld::publish
