#include "model_files.hpp"

#include <algorithm>
#include <iterator>

#include "adapters/run_config.hpp"
#include "app/survey/own_files.hpp"
#include "core/text.hpp"
#include "formats/recognise.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "models/symbols.hpp"
#include "publish/config_edits.hpp"
#include "shardweld/error.hpp"

#include "vocabulary.hpp"

namespace shardweld::app {

namespace {

constexpr const char* kTrainMeta = "lora_train_meta.json";
constexpr const char* kRunConfig = "run_config.yaml";  // of Megatron-Bridge
constexpr const char* kSwiftArgs = "args.json";        // of ms-swift, above the iteration

/// Reads a file that the command line names; its absence is a mistake in the command line.
std::string read_named(const fs::path& path, Bytes limit, const std::string& option) {
    try {
        return io::read_text(path, limit);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::not_found) {
            throw;
        }
        const std::string hint = formats::hub_hint(path.parent_path());
        throw Error(ErrorCode::usage, option + ": there is no file " + path.string(),
                    hint.empty() ? "check the path" : hint);
    }
}

/// A small file of the checkpoint in `given`, or above it; text "" when there is none.
adapters::ConfigFile read_if_there(const fs::path& path, const fs::path& given) {
    if (!io::is_file(path)) {
        return {path.string(), ""};
    }
    const publish::Opener open = own_opener(path.parent_path(), given);
    return {path.string(), io::text_of(open(path), models::kMaxConfig)};
}

/// PEFT saves an adapter's weights and settings together: a directory of one without the settings
/// lost them, and PEFT's defaults are not what it was trained with.
void require_adapter_config(const adapters::ConfigFile& config) {
    const fs::path directory = fs::path(config.path).parent_path();
    if (config.text.empty() && io::is_directory(directory)) {
        throw Error(ErrorCode::not_found,
                    directory.string() + " has no adapter_config.json, which every adapter has",
                    "copy it again; without the whole directory PEFT's defaults apply");
    }
}

/// verl keeps an adapter's settings below the shards or where its manifest says, transformers'
/// trainer beside their directory.
adapters::ConfigFile adapter_config_of(const formats::Location& location, const fs::path& given) {
    const fs::path name = fs::path(kAdapterConfig).filename();
    const fs::path& shards = location.directory;
    adapters::ConfigFile nearest = read_if_there(
        location.adapter_directory ? *location.adapter_directory / name : shards / kAdapterConfig,
        given);
    require_adapter_config(nearest);
    if (!nearest.text.empty()) {
        return nearest;
    }
    adapters::ConfigFile beside = read_if_there(shards.parent_path() / name, given);
    return beside.text.empty() ? nearest : beside;
}

/// What a framework says of the adapter that it trained.
adapters::ConfigFile train_meta_of(const fs::path& shards, const fs::path& given) {
    adapters::ConfigFile meta = read_if_there(shards / kTrainMeta, given);
    if (!meta.text.empty()) {
        return meta;
    }
    const auto run_config = read_if_there(shards / kRunConfig, given);
    const auto of_bridge = adapters::train_meta_of(run_config);
    if (!of_bridge.text.empty()) {
        return of_bridge;
    }
    const auto of_swift =
        adapters::train_meta_of_args(read_if_there(shards.parent_path() / kSwiftArgs, given));
    return of_swift.text.empty() ? meta : of_swift;
}

/// Where there is none, as save_pretrained makes one.
void add_generation_config(ModelFiles& files) {
    constexpr const char* kName = "generation_config.json";
    const bool is_there =
        std::any_of(files.assets.begin(), files.assets.end(),
                    [&](const publish::Asset& asset) { return asset.name == kName; });
    const std::string text = publish::made_generation_config(
        models::Config::parse(files.config_text, files.config_path));
    if (!is_there && !text.empty()) {
        files.assets.push_back({kName, {}, text});
    }
}

std::vector<std::string> names_of(const std::vector<publish::Asset>& assets) {
    std::vector<std::string> names;
    for (const publish::Asset& asset : assets) {
        names.push_back(asset.name);
    }
    return names;
}

/// Those of a directory that has no config.json; they give way to what lies beside one.
void add_tokenizer(const fs::path& directory, const publish::Opener& open, ModelFiles& files) {
    std::vector<publish::Asset> assets = publish::collect_assets(directory, open);
    std::erase_if(assets, [&](const publish::Asset& asset) {
        return std::ranges::count(files.assets, asset.name, &publish::Asset::name) > 0;
    });
    std::ranges::move(assets, std::back_inserter(files.assets));
    files.has_tokenizer = publish::has_tokenizer(names_of(files.assets));
}

}  // namespace

fs::path hf_directory(const Options& options, const formats::Location& location) {
    if (options.hf_config) {
        return io::is_file(*options.hf_config) ? fs::absolute(*options.hf_config).parent_path()
                                               : *options.hf_config;
    }
    if (location.hf_directory) {
        return *location.hf_directory;
    }
    const bool needs_base = options.lora == Lora::fold && !options.base &&
                            formats::format_of(location).backend() == "peft";
    throw Error(ErrorCode::usage,
                "the checkpoint in " + location.directory.string() +
                    " has no HuggingFace config.json beside it",
                needs_base
                    ? "pass --base DIR: the model that the adapter was trained on"
                    : "pass --hf_config DIR: the directory with the trained model's config.json");
}

ModelFiles read_model_files(const Options& options, const ModelPlaces& places) {
    const formats::Location& model = places.base ? *places.base : places.checkpoint;
    const fs::path& given = places.given.empty() ? options.local_dir : places.given;
    ModelFiles files;
    files.config_text = "{}";
    if (places.needs_config || options.hf_config || model.hf_directory) {
        files.hf_directory = hf_directory(options, model);
        const publish::Opener open =
            options.hf_config
                ? publish::Opener([](const fs::path& path) { return io::InputFile::open(path); })
                : own_opener(files.hf_directory, places.base ? *options.base : given);
        const fs::path config = files.hf_directory / kConfigName;
        files.config_path = config.string();
        files.config_text = options.hf_config
                                ? read_named(config, models::kMaxConfig, "--hf_config")
                                : io::text_of(open(config), models::kMaxConfig);
        files.assets = publish::collect_assets(files.hf_directory, open);
        files.lost_assets = publish::lost_assets(files.hf_directory, open);
        files.has_tokenizer = publish::has_tokenizer(names_of(files.assets));
        if (!files.has_tokenizer && model.tokenizer_directory) {
            const fs::path& directory = *model.tokenizer_directory;
            add_tokenizer(directory, own_opener(directory, given), files);
        }
        if (options.hf_config) {
            files.reference = read_reference(files.hf_directory);
        }
        if (options.is_verl) {
            add_generation_config(files);
        }
        if (becomes_gguf(options.quantise) || has_gguf_beside(options)) {
            files.gguf_tokenizer = gguf_tokenizer(files.assets, files.config_text);
        }
        if (formats::format_of(model).pads_vocabulary()) {
            files.tokens = tokenizer_tokens(files.assets);
        }
    }
    files.adapter_config = adapter_config_of(places.checkpoint, given);
    files.train_meta = train_meta_of(places.checkpoint.directory, given);
    if (options.recipe) {
        files.recipes.push_back({options.recipe->filename().string(),
                                 read_named(*options.recipe, models::kMaxRecipe, "--recipe")});
    }
    return files;
}

void require_config(const ModelFiles& files, const Options& options,
                    const formats::Location& location) {
    if (files.config_path.empty()) {
        (void)hf_directory(options, location);
    }
}

bool needs_recipe(const formats::Format& format) {
    const models::Dialect* const dialect =
        models::RecipeLibrary::load().find_dialect(std::string(format.dialect()));
    return dialect != nullptr && !dialect->has_own_names;
}

void check_model_files(const ModelFiles& files, bool needs_recipe) {
    const auto library = models::RecipeLibrary::load(files.recipes);
    const models::Config config = models::Config::parse(files.config_text, files.config_path);
    if (needs_recipe) {
        (void)models::recipe_for(library, config);
    }
}

void require_readable(const ModelFiles& files) {
    std::vector<std::string> unreadable;
    for (const publish::Asset& asset : files.assets) {
        if (!asset.text && !asset.file) {
            unreadable.push_back(asset.source.string());
        }
    }
    if (!unreadable.empty()) {
        throw Error(ErrorCode::io,
                    std::to_string(unreadable.size()) +
                        " file(s) that belong to the model cannot be read by this "
                        "user: " +
                        listed(unreadable),
                    "have their owner permit it");
    }
}

}  // namespace shardweld::app
