// The small files of a model: config, tokenizer, recipes and what is said of an adapter; and a
// finished model of the same family, as which a model is spelled where the hub has more than one
// spelling: experts one by one or in one tensor, the order of its dims, how names begin.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "adapters/settings.hpp"
#include "app/settings/job.hpp"
#include "app/tokenizer/gguf_tokenizer.hpp"
#include "core/codec.hpp"
#include "core/index.hpp"
#include "core/path.hpp"
#include "formats/format.hpp"
#include "models/recipe.hpp"
#include "models/symbols.hpp"
#include "publish/assets.hpp"

#include "vocabulary.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

/// The shapes of another model's tensors, which tell what a reference copy looks like: by name with
/// its digits hidden; no extents where only an index tells of it. Empty: there is none.
using Reference = std::map<std::string, std::vector<Index>>;

/// Takes those lines of a logical tensor that the reference has, into the recipe what is written
/// and into the dialect what is stored: `module` lines where it has their names and none of the
/// hub lines'. Where two lines have one name and different orders of dims, takes the line of the
/// reference's shape; where the reference has no shape, the line of the stored shape in a module
/// tree, else the hub line. Pure.
void spell_as(const Reference& reference, const catalogue::Catalogue& catalogue,
              const models::Symbols& symbols, models::Recipe& recipe, models::Dialect& dialect);

/// Takes the older names of tensors (`unwritten`) that the reference has in place of the hub's.
void follow_old_names(const Reference& reference, models::Recipe& recipe);

/// The name, or another beginning of it (`rename`, `either`), where only that is the reference's.
std::string spelled_name(const Reference& reference, const models::Recipe& recipe,
                         const std::string& name);

inline constexpr const char* kConfigName = "config.json";
/// The adapter's directory in a model's, and its files.
inline constexpr const char* kAdapterWeights = "lora_adapter/adapter_model.safetensors";
inline constexpr const char* kAdapterConfig = "lora_adapter/adapter_config.json";
/// Where factors lie while a model is folded, below the output's partial directory.
inline constexpr const char* kFactors = ".factors.safetensors";

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
    std::vector<std::string> unread_files = {};  ///< side files called .json that are none
    bool has_tokenizer = true;                   ///< false: it was looked for, and is not there
    std::optional<TokenizerTokens> tokens = {};  ///< where the vocabulary may be padded
    Reference reference = {};  ///< an adapter's base, else the model in --hf_config, if any
    GgufTokenizer gguf_tokenizer = {};        ///< of them, where GGUF is written
    std::vector<publish::Asset> assets = {};  ///< side files, on the rank that has read them alone

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.hf_directory, self.config_path, self.config_text, self.recipes,
                        self.adapter_config, self.train_meta, self.lost_assets, self.unread_files,
                        self.has_tokenizer, self.tokens, self.reference, self.gguf_tokenizer);
    };
};

/// The directory of config.json: --hf_config (or the directory of the file it names), else the
/// checkpoint's own. Error(usage) when there is none, saying what to do.
fs::path hf_directory(const Job& job, const formats::Location& location);

/// Reads the small files of `checkpoint`, or, where there is one, config and tokenizer of `base`
/// (--base). `needs_config`: without one its text is not "{}". `asked`: the checkpoint as the
/// command line has it; "": --local_dir. Local. Error(usage) as above and when --hf_config or
/// --recipe name nothing.
ModelFiles read_model_files(const Job& job, const formats::Location& checkpoint,
                            const std::optional<formats::Location>& base = {},
                            bool needs_config = true, const fs::path& asked = {});

/// What is wrong with them whatever the checkpoint holds. Pure. Error(usage), Error(corrupt) for
/// texts that cannot be read; Error(unsupported) for a family without a recipe that needs one.
void check_model_files(const ModelFiles& files, bool needs_recipe);

/// Error(usage) as by hf_directory where no config was found.
void require_config(const ModelFiles& files, const Job& job, const formats::Location& location);

/// Whether every tensor of the format must be renamed, so that there is no merge without a config.
bool needs_recipe(const formats::Format& format);

/// Error(io) listing side files that this user may not read. Local.
void require_readable(const ModelFiles& files);

}  // namespace shardweld::app
