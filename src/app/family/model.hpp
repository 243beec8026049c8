// The model a checkpoint holds: its recipe and the values of the recipe's symbols.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/runtime/memory.hpp"
#include "app/settings/job.hpp"
#include "models/config.hpp"
#include "models/recipe.hpp"
#include "models/symbols.hpp"
#include "models/verification.hpp"
#include "mpi/comm.hpp"
#include "plan/binding.hpp"

#include "model_files.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

/// What becomes of finished tensors, as far as it matters before there are any.
enum class Purpose {
    model,       ///< a directory, in which an adapter has its place beside the model
    comparison,  ///< held against another model, or read: there is no place for an adapter
};

/// What `output` is bound for, by what was asked of the model.
JobModel model_choice(const Job& job, const JobOutput& output, Purpose sink);

class TrainingForm;

struct PreparedModel {
    JobModel choice;
    /// The family's recipe, with what this checkpoint, a reference and the written form change.
    std::shared_ptr<const models::Recipe> recipe;
    std::shared_ptr<const models::Dialect> dialect;
    std::shared_ptr<const models::Dialect> form;  ///< a written form's; null for hub names
    models::Verification verification;            ///< of the recipe in the checkpoint's format
    models::Config config;                        ///< with the command line's changes
    std::shared_ptr<const models::Symbols> symbols;
    /// The same model in the names of a framework that keeps an adapter; null: there is none.
    std::shared_ptr<const PreparedModel> framework;
    /// The form of a training checkpoint that it is bound in; null: a model's.
    std::shared_ptr<const TrainingForm> training;
    std::vector<std::string> kept;   ///< plan::BindOptions::kept
    bool is_value = false;           ///< the head is score.weight
    std::vector<Warning> warnings;   ///< e.g. recipe_unverified
    std::vector<std::string> notes;  ///< for people

    std::map<std::string, Index> given = {};  ///< to symbols, beside what a checkpoint states

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

/// Renames the catalogue's tensors as the family's are, where their prefix differs and it is
/// certain how (family_names.hpp). Error(unsupported) for a family or dialect without a recipe;
/// Error(mismatch) listing every field in which config.json contradicts the checkpoint, or where
/// the prefix is another.
PreparedModel prepare_model(const ModelFiles& files, const JobModel& choice,
                            catalogue::Catalogue& catalogue);

/// What plan::make_plan is to choose by; options win over `resources`.
plan::PlanChoice plan_choice(const Job& job, const Resources& resources);

}  // namespace shardweld::app
