// The model a checkpoint holds: its config, its recipe and the values of the recipe's symbols.
// Knows which parts are needed and in which order; nothing of ranks and of tensor data.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "shardweld/adapters/settings.hpp"
#include "shardweld/core/codec.hpp"
#include "shardweld/formats/format.hpp"
#include "shardweld/models/config.hpp"
#include "shardweld/models/recipe.hpp"
#include "shardweld/models/symbols.hpp"
#include "shardweld/mpi/comm.hpp"
#include "shardweld/plan/binding.hpp"
#include "shardweld/publish/assets.hpp"

#include "../cli/options.hpp"
#include "../runtime/resources.hpp"
#include "tokenizer_tokens.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

/// Texts from files outside the checkpoint's shards; read by one rank, shared with all.
struct ModelFiles {
    fs::path hf_directory;    ///< that config.json came from: the side files' directory
    std::string config_path;  ///< for messages
    std::string config_text;
    std::vector<models::RecipeFile> recipes;  ///< --recipe
    adapters::ConfigFile adapter_config =
        {};                                ///< the checkpoint's lora_adapter/adapter_config.json
    adapters::ConfigFile train_meta = {};  ///< its lora_train_meta.json
    std::vector<std::string> lost_assets = {};   ///< side files that are none, see publish
    bool has_tokenizer = true;                   ///< false: it was looked for, and is not there
    std::optional<TokenizerTokens> tokens = {};  ///< where the vocabulary may be padded
    std::vector<publish::Asset> assets = {};  ///< side files, on the rank that has read them alone

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.hf_directory, self.config_path, self.config_text, self.recipes,
                        self.adapter_config, self.train_meta, self.lost_assets, self.has_tokenizer,
                        self.tokens);
    };
};

/// The directory of config.json: --hf_config (or the directory of the file it names), else the
/// checkpoint's own. Error(usage) when there is none, saying what to do.
fs::path hf_directory(const Options& options, const formats::Location& location);

/// Where small files are read from.
struct ModelPlaces {
    const formats::Location& checkpoint;
    std::optional<formats::Location> base = {};  ///< --base: config and tokenizer are its own
    bool needs_config = true;                    ///< false: without one its text is "{}"
};

/// Reads the files. Local. Error(usage) as above and when --hf_config or --recipe name nothing.
ModelFiles read_model_files(const Options& options, const ModelPlaces& places);

/// What is wrong with them whatever the checkpoint holds. Pure. Error(usage), Error(corrupt) for
/// texts that cannot be read; Error(unsupported) for a family without a recipe that needs one.
void check_model_files(const ModelFiles& files, bool needs_recipe);

/// Error(usage) as by hf_directory where no config was found.
void require_config(const ModelFiles& files, const Options& options,
                    const formats::Location& location);

/// Whether every tensor of the format must be renamed, so that there is no merge without a config.
bool needs_recipe(const formats::Format& format);

/// Error(io) listing side files that this user may not read. Local.
void require_readable(const ModelFiles& files);

/// What becomes of finished tensors, as far as it matters before there are any.
enum class Destination {
    model,       ///< a directory, in which an adapter has its place beside the model
    comparison,  ///< held against another model: there is no place for an adapter
};

/// How a model is to be understood, beyond what its files say.
struct ModelChoice {
    TensorNames names = TensorNames::hub;
    bool is_tied = false;             ///< head and embedding are one, whatever config.json says
    bool is_value = false;            ///< it classifies tokens
    std::optional<Index> vocab_size;  ///< instead of config.json's
    Lora lora = Lora::split;          ///< what becomes of an adapter
};
ModelChoice model_choice(const Options& options, Destination sink);

struct PreparedModel {
    ModelChoice choice;
    std::shared_ptr<const models::RecipeLibrary> library;  ///< owns recipe and dialect
    const models::Recipe* recipe = nullptr;
    std::shared_ptr<const models::Dialect> dialect;
    models::Config config;  ///< with the command line's changes
    std::shared_ptr<const models::Symbols> symbols;
    bool is_value = false;                ///< the head is score.weight
    std::vector<plan::Warning> warnings;  ///< e.g. recipe_unverified
    std::vector<std::string> notes;       ///< for people

    [[nodiscard]] plan::Model model() const { return {recipe, dialect.get(), symbols.get()}; }
};

/// Pure. Error(unsupported) for a family or dialect without a recipe; Error(mismatch) listing every
/// field in which config.json contradicts the checkpoint.
PreparedModel prepare_model(const ModelFiles& files, const ModelChoice& choice,
                            const catalogue::Catalogue& catalogue);

/// What the checkpoint's tensors become.
struct Bound {
    plan::Binding binding;              ///< the model's targets, and behind them a split adapter's
    std::vector<plan::Target> factors;  ///< what folding reads, in a file of their own
    std::string adapter_config;         ///< written beside a split adapter, "" if there is none
    bool has_model = true;              ///< false: only an adapter was saved
    std::vector<std::string> notes;     ///< for people
};

/// Binds base and adapter. Pure; `catalogue` moves into the result.
Bound bind_model(const PreparedModel& prepared, const ModelFiles& files, const Options& options,
                 catalogue::Catalogue catalogue);

/// What plan::make_plan is to choose by; options win over `resources`.
plan::PlanChoice plan_choice(const Options& options, const Resources& resources);

}  // namespace shardweld::app
