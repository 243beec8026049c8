// The model a checkpoint holds: its files, its recipe, the values of the recipe's symbols, and what
// its tensors become.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/messages/warnings.hpp"
#include "app/runtime/memory.hpp"
#include "app/settings/job.hpp"
#include "models/config.hpp"
#include "models/recipe.hpp"
#include "models/symbols.hpp"
#include "models/verification.hpp"
#include "outputs/format.hpp"
#include "plan/bind/quantise.hpp"
#include "plan/binding.hpp"
#include "reshape/optimizer.hpp"

#include "model_files.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

/// What `output` is bound for, by what was asked of the model. `is_written`: in a directory, in
/// which an adapter has its place beside the model; else tensors are held against another model, or
/// read.
JobModel model_choice(const Job& job, const JobOutput& output, bool is_written);

class TrainingForm;

/// The model a checkpoint holds. Each step completes it.
struct HeldModel {
    ModelFiles files = {};  ///< that it is prepared by

    // When it is prepared.
    JobModel choice = {};
    /// The family's recipe, with what this checkpoint, a reference and the written form change.
    std::shared_ptr<const models::Recipe> recipe = {};
    std::shared_ptr<const models::Dialect> dialect = {};
    std::shared_ptr<const models::Dialect> form = {};  ///< a written form's; null for hub names
    models::Verification verification = {};            ///< of the recipe in the checkpoint's format
    models::Config config = {};                        ///< with the command line's changes
    std::shared_ptr<const models::Symbols> symbols = {};
    /// The same model in the names of a framework that keeps an adapter; null: there is none.
    std::shared_ptr<const HeldModel> framework = {};
    /// The form of a training checkpoint that it is bound in; null: a model's.
    std::shared_ptr<const TrainingForm> training = {};
    std::vector<std::string> kept = {};       ///< plan::BindOptions::kept
    bool is_value = false;                    ///< the head is score.weight
    Warnings warnings = {};                   ///< e.g. recipe_unverified
    std::vector<std::string> notes = {};      ///< for people
    std::map<std::string, Index> given = {};  ///< to symbols, beside what a checkpoint states

    // When its tensors are bound.
    plan::Binding binding = {};  ///< the model's targets, and behind them a split adapter's
    /// What folding or dequantising reads, in a file of their own.
    plan::Targets factors = {};
    /// Weights whose norms a fold into parts of them needs (DoRA).
    plan::Targets normalised = {};
    std::string adapter_config = {};  ///< written beside a split adapter, "" if there is none
    bool has_model = true;            ///< false: only an adapter was saved
    std::optional<plan::Quantisation> quantisation = {};  ///< --quantize
    /// Made for this model; null: the option's.
    std::shared_ptr<const outputs::OutputFormat> output = {};
    std::string doubt = {};           ///< catalogue::Optimizer::doubt
    bool is_ordered = false;          ///< catalogue::Optimizer::is_ordered
    std::string optimizer_text = {};  ///< optimizer.json beside its states; "": there are none
    std::optional<reshape::OptimizerToWrite> optimizer = {};  ///< of its states
    std::vector<std::string> binding_notes = {};              ///< for people
    std::vector<std::string> told = {};                       ///< notes on states and supplements
    std::string unheeded = {};  ///< an option that changes nothing here; "": there is none
    std::vector<std::string> trace = {};  ///< --trace: what is stored of it
    /// What was bound: until it is known whether head and embedding are one, and then where it is
    /// bound in another form, too.
    std::shared_ptr<catalogue::Catalogue> stored = {};

    [[nodiscard]] plan::Model model() const;
    /// The values of symbols where another part of the checkpoint has facts of its own.
    [[nodiscard]] models::Symbols symbols_of(const catalogue::Catalogue& part) const;
};

/// Whether a framework keeps LoRA factors beside its own weights.
bool holds_framework_adapter(const catalogue::Catalogue& catalogue);

/// Whether a checkpoint holds an adapter, under whatever names, and nothing else.
bool holds_adapter_only(const catalogue::Catalogue& catalogue);

/// Whether the training job says that head and embedding are one.
bool shares_embeddings(const catalogue::Catalogue& catalogue);

/// Whether the run is about an adapter and nothing else: no model is written and no config needed.
/// A framework's own forms cannot be read without one.
bool is_adapter_alone(Lora lora, const catalogue::Catalogue& catalogue);

}  // namespace shardweld::app
