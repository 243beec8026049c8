#include "model_files.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include "adapters/declared.hpp"
#include "app/survey/own_files.hpp"
#include "catalogue/catalogue.hpp"
#include "core/names/weight_map.hpp"
#include "core/text.hpp"
#include "formats/containers/safetensors_header.hpp"
#include "formats/recognise.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "models/pattern.hpp"
#include "plan/binding.hpp"
#include "publish/config_edits.hpp"
#include "shardweld/error.hpp"

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
        throw Error(ErrorCode::usage, option + ": there is no file " + path.string(),
                    formats::missing_hint(path.parent_path()));
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
    auto of_bridge = adapters::train_meta_of(run_config);
    if (!of_bridge.text.empty()) {
        return of_bridge;
    }
    const auto of_swift =
        adapters::train_meta_of_args(read_if_there(shards.parent_path() / kSwiftArgs, given));
    return of_swift.text.empty() ? meta : of_swift;
}

/// Adds the generation_config.json that save_pretrained would make, unless there is one.
void add_generation_config(ModelFiles& files) {
    constexpr const char* kName = "generation_config.json";
    const bool is_there = std::ranges::any_of(
        files.assets, [&](const publish::Asset& asset) { return asset.name == kName; });
    const std::string text = publish::made_generation_config(
        models::Config::parse(files.config_text, files.config_path));
    if (!is_there && !text.empty()) {
        files.assets.push_back({kName, {}, text});
    }
}

/// Adds the tokenizer's files of a directory that has no config.json. Files that lie beside the
/// config.json come first: one of the same name is not added.
void add_tokenizer(const fs::path& directory, const publish::Opener& open, ModelFiles& files) {
    std::vector<publish::Asset> assets = publish::collect_assets(directory, open);
    std::erase_if(assets, [&](const publish::Asset& asset) {
        return contains(files.assets, asset.name, &publish::Asset::name);
    });
    append_all(files.assets, std::move(assets));
    files.has_tokenizer = publish::has_tokenizer(publish::names_of(files.assets));
}

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kModelName = "model.safetensors";

using Shape = std::optional<std::vector<Index>>;

void add_header(const fs::path& path, Reference& reference) {
    for (const auto& [name, tensor] : formats::read_safetensors_header(io::InputFile::open(path))) {
        reference[models::digits_hidden(name)] = tensor.shape;
    }
}

/// Headers of files that hold a tensor of a kind whose shape no earlier one told.
void add_shapes(const fs::path& directory, const WeightMap& index, Reference& reference) {
    std::set<Index> opened;
    for (const auto& [name, file] : index.file_of) {
        if (!reference[models::digits_hidden(name)].empty() || !opened.insert(file).second) {
            continue;
        }
        try {
            add_header(directory / index.file(file), reference);
        } catch (const Error&) {  // not copied, or a pointer to it: the name is known all the same
        }
    }
}

/// Reads model.safetensors.index.json and, for shapes, the headers of files that it names, as few
/// as possible; else model.safetensors. What is not there or cannot be read tells nothing: an index
/// that is there is the `fault` then, which is "" otherwise.
Reference read_reference(const fs::path& directory, std::string& fault) {
    Reference reference;
    fault.clear();
    try {
        if (io::is_file(directory / kIndexName)) {
            const fs::path path = directory / kIndexName;
            const WeightMap index =
                parse_weight_map(io::read_text(path, kLongestWeightMap), path.string());
            add_shapes(directory, index, reference);
        } else if (io::is_file(directory / kModelName)) {
            add_header(directory / kModelName, reference);
        }
    } catch (const Error&) {  // only config.json and the tokenizer are asked for there
        reference.clear();
        // A model.safetensors there may be Git LFS's pointer.
        fault = io::is_file(directory / kIndexName) ? kIndexName : "";
    }
    return reference;
}

/// The layout's extents; nullopt where they are not the same in all layers.
Shape extents_of(const models::Line& line, const models::Symbols& symbols) {
    try {
        return layout::BoundLayout::bind(
                   line.layout, [&](const std::string& axis) { return symbols.value(axis); })
            .shape();
    } catch (const Error&) {
        return std::nullopt;
    }
}

Shape stored_shape(const catalogue::Catalogue& catalogue, const models::Recipe& recipe,
                   const std::string& hidden) {
    const auto is_it = [&](const auto& one) {
        return models::digits_hidden(plan::renamed(recipe, one.name)) == hidden;
    };
    auto* const tensor = find_where(catalogue.tensors, is_it);
    return tensor == nullptr ? std::nullopt : Shape(tensor->shape);
}

/// Writes a logical tensor by its module lines, which keep what its hub lines say of it.
void write_by_module_lines(const Reference& reference, const std::string& logical,
                           models::Recipe& recipe) {
    const auto is_of = [&](const models::Line& line) { return line.logical == logical; };
    const auto is_known = [&](const models::Line& line) {
        return is_of(line) && reference.contains(spelled_name(reference, recipe,
                                                              models::digits_hidden(line.name)));
    };
    auto* const first = find_where(recipe.hub, is_of);
    if (first == nullptr || std::ranges::any_of(recipe.hub, is_known) ||
        std::ranges::none_of(recipe.module, is_known)) {
        return;
    }
    const models::Line of_hub = *first;
    std::erase_if(recipe.hub, is_of);
    for (const models::Line& line : recipe.module) {
        if (is_known(line)) {
            recipe.hub.push_back(line);
            recipe.hub.back().keep = of_hub.keep;
            recipe.hub.back().optional = of_hub.optional;
            recipe.hub.back().together = of_hub.together;
        }
    }
}

/// write_by_module_lines() for each logical tensor that has a module line which `is_meant`.
template <typename IsMeant>
void write_by_lines_of(const Reference& reference, models::Recipe& recipe,
                       const IsMeant& is_meant) {
    std::set<std::string> logicals =
        collect_set(recipe.module, &models::Line::logical,
                    [&](const models::Line& line) { return std::invoke(is_meant, line); });
    for (const std::string& logical : logicals) {
        write_by_module_lines(reference, logical, recipe);
    }
}

/// The module line of the same name and another order of dims.
const models::Line* twin_of(const models::Line& line, const models::Recipe& recipe) {
    return find_where(recipe.module, [&](const models::Line& other) {
        return other.name.text == line.name.text && other.layout.text != line.layout.text;
    });
}

void settle_order(const Reference& reference, const catalogue::Catalogue& catalogue,
                  const models::Symbols& symbols, models::Line& line, const models::Recipe& recipe,
                  models::Dialect& dialect) {
    const models::Line* const twin = twin_of(line, recipe);
    const Shape of_hub = twin == nullptr ? std::nullopt : extents_of(line, symbols);
    const Shape of_twin = twin == nullptr ? std::nullopt : extents_of(*twin, symbols);
    if (!of_hub || !of_twin) {
        return;
    }
    const std::string hidden = models::digits_hidden(line.name);
    const bool is_tree = dialect.has_own_names;
    const Shape stored = is_tree ? stored_shape(catalogue, recipe, hidden) : std::nullopt;
    const layout::Layout in_store =
        stored == of_hub && of_hub != of_twin ? line.layout : twin->layout;
    for (models::Line& one : dialect.store) {
        if (is_tree && one.name.text == line.name.text) {
            one.layout = in_store;
        }
    }
    auto* const told = find_value(reference, hidden);
    const bool is_told = told != nullptr && !told->empty() && of_hub != of_twin &&
                         (*told == *of_hub || *told == *of_twin);
    if (is_told) {
        line.layout = *told == *of_hub ? line.layout : twin->layout;
    } else if (is_tree) {
        line.layout = in_store;
    }
}

}  // namespace

fs::path hf_directory(const Job& job, const formats::Location& location) {
    if (job.model.hf_config) {
        return io::is_file(*job.model.hf_config) ? fs::absolute(*job.model.hf_config).parent_path()
                                                 : *job.model.hf_config;
    }
    if (location.hf_directory) {
        return *location.hf_directory;
    }
    const bool needs_base = job.model.lora == Lora::fold && !job.model.base &&
                            formats::format_of(location).backend == "peft";
    if (needs_base) {
        throw Error(ErrorCode::usage,
                    "the LoRA adapter in " + location.directory.string() +
                        " is without its base, and --lora fold adds it to one",
                    "pass --base DIR: the model that the adapter was trained on");
    }
    throw Error(ErrorCode::usage,
                "the checkpoint in " + location.directory.string() +
                    " has no HuggingFace config.json beside it",
                "pass --hf_config DIR: the directory with the trained model's config.json");
}

ModelFiles read_model_files(const Job& job, const formats::Location& checkpoint,
                            const std::optional<formats::Location>& base, bool needs_config,
                            const fs::path& asked) {
    const formats::Location& model = base ? *base : checkpoint;
    const fs::path& given = asked.empty() ? job.inputs.front().directory : asked;
    ModelFiles files;
    files.config_text = "{}";
    if (needs_config || job.model.hf_config || model.hf_directory) {
        files.hf_directory = hf_directory(job, model);
        const publish::Opener open =
            job.model.hf_config
                ? publish::Opener([](const fs::path& path) { return io::InputFile::open(path); })
                : own_opener(files.hf_directory, base ? *job.model.base : given);
        const fs::path config = files.hf_directory / kConfigName;
        files.config_path = config.string();
        files.config_text = job.model.hf_config
                                ? read_named(config, models::kMaxConfig, "--hf_config")
                                : io::text_of(open(config), models::kMaxConfig);
        files.assets = publish::collect_assets(files.hf_directory, open);
        files.lost_assets = publish::lost_assets(files.hf_directory, open);
        files.has_tokenizer = publish::has_tokenizer(publish::names_of(files.assets));
        if (!files.has_tokenizer && model.tokenizer_directory) {
            const fs::path& directory = *model.tokenizer_directory;
            add_tokenizer(directory, own_opener(directory, given), files);
        }
        std::string fault;
        // An adapter's base keeps its names, of whatever age they are.
        if (base && job.model.lora == Lora::fold) {
            files.reference = read_reference(base->directory, fault);
        }
        if (job.model.hf_config && files.reference.empty()) {
            files.reference = read_reference(files.hf_directory, fault);
        }
        files.unread_files = publish::unread_json(files.assets);
        if (!fault.empty()) {
            files.unread_files.push_back(fault);
        }
        if (job.run.is_verl) {
            add_generation_config(files);
        }
        if (job.outputs.front().ggml() || has_gguf_beside(job)) {
            files.gguf_tokenizer = gguf_tokenizer(files.assets, files.config_text);
        }
        if (formats::format_of(model).pads_vocabulary) {
            files.tokens = tokenizer_tokens(files.assets);
        }
    }
    files.adapter_config = adapter_config_of(checkpoint, given);
    files.train_meta = train_meta_of(checkpoint.directory, given);
    if (job.model.recipe) {
        files.recipes.push_back({job.model.recipe->filename().string(),
                                 read_named(*job.model.recipe, models::kMaxRecipe, "--recipe")});
    }
    return files;
}

void require_config(const ModelFiles& files, const Job& job, const formats::Location& location) {
    if (files.config_path.empty()) {
        (void)hf_directory(job, location);
    }
}

bool needs_recipe(const formats::Format& format) {
    return !format.dialect.empty() && !models::RecipeLibrary::load().has_own_names(format.dialect);
}

void check_model_files(const ModelFiles& files, bool needs_recipe) {
    const auto library = models::RecipeLibrary::load(files.recipes);
    const models::Config config = models::Config::parse(files.config_text, files.config_path);
    if (needs_recipe) {
        (void)models::recipe_for(library, config);
    }
}

void require_readable(const ModelFiles& files) {
    std::vector<std::string> unreadable = collect_list(
        files.assets, [](const publish::Asset& asset) { return asset.source.string(); },
        [&](const publish::Asset& asset) { return !asset.text && !asset.file; });
    if (!unreadable.empty()) {
        throw Error(ErrorCode::io,
                    counted(unreadable.size(), "file") +
                        " of the model cannot be read by this user: " + listed(unreadable),
                    "have their owner permit it");
    }
}

void spell_as(const Reference& reference, const catalogue::Catalogue& catalogue,
              const models::Symbols& symbols, models::Recipe& recipe, models::Dialect& dialect) {
    for (models::Line& line : recipe.hub) {
        settle_order(reference, catalogue, symbols, line, recipe, dialect);
    }
    write_by_lines_of(reference, recipe, [](const models::Line&) { return true; });
}

void follow_old_names(const Reference& reference, models::Recipe& recipe) {
    write_by_lines_of(reference, recipe, &models::Line::is_read_only);
}

std::string spelled_name(const Reference& reference, const models::Recipe& recipe,
                         const std::string& name) {
    if (reference.contains(models::digits_hidden(name))) {
        return name;
    }
    const auto with = [&](const std::string& from, const std::string& to) -> std::string {
        const std::string other = name.starts_with(from) ? to + name.substr(from.size()) : "";
        return reference.contains(models::digits_hidden(other)) ? other : "";
    };
    for (const auto* rules : {&recipe.renames, &recipe.eithers}) {
        for (const models::RenameRule& rule : *rules) {
            const std::string there = with(rule.to, rule.from);
            const std::string back = rules == &recipe.eithers ? with(rule.from, rule.to) : "";
            if (!there.empty() || !back.empty()) {
                return there.empty() ? back : there;
            }
        }
    }
    return name;
}

}  // namespace shardweld::app
