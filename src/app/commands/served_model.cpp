#include "served_model.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/family/vocabulary.hpp"
#include "app/report/report_json.hpp"
#include "core/config_fields.hpp"
#include "core/json.hpp"
#include "core/text.hpp"
#include "core/weight_map.hpp"
#include "formats/containers/gguf_header.hpp"
#include "formats/containers/safetensors_header.hpp"
#include "formats/containers/torch_file.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "models/config.hpp"
#include "models/hub_tensors.hpp"
#include "models/recipe.hpp"
#include "models/spellings.hpp"
#include "models/symbols.hpp"
#include "publish/assets.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

constexpr Bytes kLook = Bytes{1} << 16U;
constexpr Bytes kLooks = 256;

/// Where a tensor's bytes are.
struct Found {
    io::InputFile file;
    formats::StoredTensor tensor;
};

std::optional<Found> found_in(const fs::path& directory, const std::vector<std::string>& files,
                              const std::string& name) {
    for (const std::string& path : files) {
        if (path.ends_with(".safetensors")) {
            auto file = io::InputFile::open(directory / path);
            auto tensors = formats::read_safetensors(file, 0, formats::Twice::last_counts).tensors;
            if (const auto at = tensors.find(name); at != tensors.end()) {
                return Found{std::move(file), std::move(at->second)};
            }
        }
    }
    return std::nullopt;
}

std::vector<std::byte> bytes_of(const Found& found, Bytes begin) {
    std::vector<std::byte> bytes(
        to_size(std::min(kLook, found.tensor.storage_bytes - begin), "a look"));
    found.file.read_at(found.tensor.storage_offset + begin, bytes);
    return bytes;
}

/// Whether both have the same bytes where they are looked at: everywhere if they are small, else in
/// places all over them. Tensors that were trained apart differ in almost all rows. nullopt where
/// they are not both in safetensors among `files`. Error(io).
std::optional<bool> equal_at_a_glance(const fs::path& directory,
                                      const std::vector<std::string>& files, const std::string& one,
                                      const std::string& other) {
    const auto a = found_in(directory, files, one);
    const auto b = found_in(directory, files, other);
    if (!a || !b || a->tensor.dtype != b->tensor.dtype || a->tensor.shape != b->tensor.shape) {
        return std::nullopt;
    }
    const Bytes step = std::max(kLook, a->tensor.storage_bytes / kLooks);
    for (Bytes begin = 0; begin < a->tensor.storage_bytes; begin += step) {
        if (bytes_of(*a, begin) != bytes_of(*b, begin)) {
            return false;
        }
    }
    return true;
}

constexpr const char* kConfigFile = "config.json";
constexpr Bytes kLongestSideFile = Bytes{64} << 20U;
constexpr Bytes kLongestTokenizerFile = Bytes{256} << 20U;

/// "" for a file that is not there.
std::string side_text(const fs::path& directory, const loaders::Directory& found,
                      const std::string& name, Bytes longest = kLongestSideFile) {
    return found.files.contains(name) ? io::read_text(directory / name, longest) : "";
}

/// What a safetensors file holds by its header, a pickled one by its dictionary.
std::map<std::string, formats::StoredTensor> stored_tensors(const fs::path& path) {
    const auto file = io::InputFile::open(path);
    if (path.extension() != ".bin") {
        return formats::read_safetensors(file, 0, formats::Twice::last_counts).tensors;
    }
    const auto torch_file = formats::TorchFile::read(file);
    const formats::PickleValue& root = torch_file.root();
    if (!root.is_mapping()) {
        throw Error(ErrorCode::corrupt, "holds no dictionary of tensors");
    }
    std::map<std::string, formats::StoredTensor> tensors;
    for (std::size_t i = 0; i < root.pair_count(); ++i) {
        auto tensor = torch_file.tensor(root.value(i));
        if (tensor && root.key(i).kind == formats::PickleKind::text) {
            tensors.emplace(root.key(i).text(), std::move(*tensor));
        }
    }
    return tensors;
}

loaders::WeightFile weight_file(const fs::path& directory, const std::string& name) {
    loaders::WeightFile file{name, "", {}};
    try {
        for (auto& [tensor, stored] : stored_tensors(directory / name)) {
            file.tensors.emplace(tensor,
                                 loaders::StoredTensor{stored.dtype, std::move(stored.shape)});
        }
    } catch (const Error& error) {
        (error.code() == ErrorCode::unsupported ? file.unknown : file.fault) = error.full_text();
    }
    return file;
}

loaders::WeightIndex weight_index(const std::string& text, const std::string& name) {
    loaders::WeightIndex index;
    try {
        if (text.starts_with("\xef\xbb\xbf")) {
            throw Error(ErrorCode::corrupt, name + " begins with a byte order mark");
        }
        const WeightMap map = parse_weight_map(without_nonfinite(text), name);
        for (const auto& [tensor, number] : map.file_of) {
            index.file_of.emplace(tensor, map.file(number));
        }
        index.has_metadata = map.has_metadata;
    } catch (const Error& error) {
        index.fault = error.full_text();
    }
    return index;
}

/// Whether the loader takes safetensors, not pickles: transformers only where they have the name
/// that it looks for, or no pickle has.
bool takes_safetensors(const loaders::Directory& found, loaders::Loader loader) {
    const auto& files = found.files;
    const bool is_named =
        files.contains("model.safetensors") || files.contains("model.safetensors.index.json");
    const bool is_pickle_named =
        files.contains("pytorch_model.bin") || files.contains("pytorch_model.bin.index.json");
    return is_named || (!(loader == loaders::Loader::transformers && is_pickle_named) &&
                        std::ranges::any_of(files, [](const std::string& name) {
                            return name.ends_with(".safetensors");
                        }));
}

/// The files of the directory, and others that the index names: safetensors, else pickles.
void take_served_weights(const fs::path& directory, loaders::Directory& found,
                         loaders::Loader loader) {
    const bool is_safe = takes_safetensors(found, loader);
    const std::string index =
        is_safe ? "model.safetensors.index.json" : "pytorch_model.bin.index.json";
    std::set<std::string> names;
    std::ranges::copy_if(
        found.files, std::inserter(names, names.end()), [&](const std::string& name) {
            return is_safe ? name.ends_with(".safetensors")
                           : name.starts_with("pytorch_model") && name.ends_with(".bin");
        });
    if (found.files.contains(index)) {
        found.index = weight_index(side_text(directory, found, index, kLongestWeightMap), index);
        for (const auto& [tensor, file] : found.index->file_of) {
            std::error_code failed;
            if (fs::exists(directory / file, failed)) {
                names.insert(file);
            }
        }
    }
    for (const std::string& name : names) {
        found.weights.push_back(weight_file(directory, name));
    }
}

/// Which of the files that transformers reads whole is no JSON object; "" if none.
std::string tokenizer_fault(const fs::path& directory, const loaders::Directory& found) {
    for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                             "added_tokens.json"}) {
        const std::string text = side_text(directory, found, name, kLongestTokenizerFile);
        if (!found.files.contains(name)) {
            continue;
        }
        if (trim(text).substr(0, 1) != "{" ||
            parse_known_json<nlohmann::json>(without_nonfinite(text)).is_discarded()) {
            return std::string(name) + " is not a JSON object";
        }
    }
    return "";
}

void take_served_tokenizer(const fs::path& directory, loaders::Directory& found) {
    const std::vector<publish::Asset> assets = publish::collect_assets(directory);
    loaders::Tokenizer& tokenizer = found.tokenizer;
    tokenizer.is_there = publish::has_tokenizer(publish::names_of(assets));
    if (const auto tokens = tokenizer_tokens(assets)) {
        tokenizer.n_tokens = tokens->count;
    }
    tokenizer.config_text = side_text(directory, found, "tokenizer_config.json");
    const EndToken end =
        end_token(tokenizer.config_text,
                  side_text(directory, found, "tokenizer.json", kLongestTokenizerFile));
    tokenizer.fault = tokenizer_fault(directory, found);
    tokenizer.eos = end.text;
    tokenizer.eos_number = end.number;
}

std::string text_of_logical(const models::HubTensor& tensor) {
    std::string text = tensor.line->logical;
    const auto captures = tensor.line->name.match(tensor.name, [](const auto&) { return 0; });
    if (captures) {
        for (const auto& [name, value] : *captures) {
            const std::string capture = "{" + name + "}";
            const std::size_t at = text.find(capture);
            if (at != std::string::npos) {
                text.replace(at, capture.size(), std::to_string(value));
            }
        }
    }
    return text;
}

bool is_linear_weight(const models::Recipe& recipe, const models::Line& line) {
    const std::string part = line.logical.substr(line.logical.rfind('.') + 1);
    return std::ranges::any_of(recipe.linear, [&](const auto& together) {
        return std::ranges::find(together, part) != together.end();
    });
}

void take_expected(const models::Recipe& recipe, const models::Symbols& symbols,
                   loaders::Directory& found) {
    const models::Spellings spellings(recipe);
    for (models::HubTensor& tensor : models::hub_tensors(recipe, symbols)) {
        const bool is_optional = tensor.line->optional || tensor.line->together;
        std::string logical = text_of_logical(tensor);
        found.expected[tensor.name] = {std::move(tensor.shape), is_optional,
                                       is_linear_weight(recipe, *tensor.line),
                                       spellings.others(tensor.name), std::move(logical)};
    }
}

Index elements_of(const std::vector<Index>& shape) {
    return volume_of(shape, "a shape of config.json");
}

Index elements_of_logical(const loaders::Directory& found, const std::string& logical) {
    Index sum = 0;
    for (const auto& [name, tensor] : found.expected) {
        sum += tensor.logical == logical ? elements_of(tensor.shape) : 0;
    }
    return sum;
}

/// Tensors of the tree of modules that have no name of their own on the Hub.
void take_whole(const models::Recipe& recipe, const models::Symbols& symbols,
                loaders::Directory& found) {
    const models::Spellings spellings(recipe);
    models::Recipe tree = recipe;
    tree.hub = recipe.module;
    for (const models::HubTensor& tensor : models::hub_tensors(tree, symbols)) {
        if (found.expected.contains(tensor.name)) {
            continue;
        }
        std::vector<std::string> names = spellings.others(tensor.name);
        names.push_back(tensor.name);
        const std::string logical = text_of_logical(tensor);
        auto& parts = found.whole[logical];
        // What has all elements is another form, not another part.
        if (!parts.empty() && elements_of(tensor.shape) == elements_of_logical(found, logical)) {
            std::ranges::move(names, std::back_inserter(parts.front()));
        } else {
            parts.push_back(std::move(names));
        }
    }
}

/// Notes both names of a language model's root where the family renames it.
void take_roots(const models::Recipe& recipe, loaders::Directory& found) {
    for (const models::RenameRule& rule : recipe.renames) {
        if (rule.to.starts_with("language_model.") && rule.from.ends_with("language_model.")) {
            found.roots.insert(found.roots.end(), {rule.to, rule.from});
        }
    }
}

models::Symbols symbols_of(const models::RecipeLibrary& library, const models::Recipe& recipe,
                           const models::Config& config) {
    const bool is_value = config.model_class() == models::ModelClass::token_classification;
    return {recipe,
            models::own_names(recipe, *library.find_dialect("hf_module")),
            config,
            {},
            {{"value", is_value ? 1 : 0}}};
}

bool ends_so(std::string_view name, std::string_view entry) {
    return std::ranges::any_of(split(entry, '|'), [&](std::string_view ending) {
        return name == ending || name.ends_with("." + std::string(ending));
    });
}

/// Whether the family has optional lines that end so, but makes no such tensor of this config.json.
bool is_of_no_tensor(const models::Recipe& recipe, const loaders::Directory& found,
                     std::string_view entry) {
    return std::ranges::any_of(recipe.hub,
                               [&](const auto& line) {
                                   return line.optional && !line.together &&
                                          ends_so(line.name.text, entry);
                               }) &&
           std::ranges::none_of(found.expected,
                                [&](const auto& one) { return ends_so(one.first, entry); });
}

/// A condition on a field that is not there does not hold.
void take_needs(const models::Recipe& recipe, const models::Symbols& symbols,
                loaders::Directory& found) {
    for (const models::NeedsRule& rule : recipe.needs) {
        if (rule.condition == nullptr || symbols.try_expr(rule.condition).value_or(0) != 0) {
            std::ranges::copy_if(
                rule.ends, std::back_inserter(found.needs),
                [&](const auto& entry) { return !is_of_no_tensor(recipe, found, entry); });
        }
    }
}

/// The language model's configuration in a composite one, "" where there is none.
std::string inner_config(const std::string& text) {
    const nlohmann::json config = parse_with_nonfinite(text);
    for (const std::string_view path : kInnerConfigs) {
        const auto at = config.find(path);
        if (at != config.end() && at->is_object()) {
            return at->dump();
        }
    }
    return "";
}

/// Takes the layers from the language model's own family where `outer` knows only the tensors
/// before and behind them.
void take_layers_inside(const models::RecipeLibrary& library, const models::Recipe& outer,
                        loaders::Directory& found) {
    constexpr std::string_view kBelow = "language_model.";
    constexpr std::string_view kLayer = "layer.";
    const bool has_ends = std::ranges::any_of(
        found.expected, [&](const auto& entry) { return entry.first.starts_with(kBelow); });
    const std::string text = has_ends ? inner_config(found.config_text) : "";
    if (text.empty() || std::ranges::any_of(found.expected, [&](const auto& entry) {
            return entry.second.logical.starts_with(kLayer);
        })) {
        return;
    }
    const auto config = models::Config::parse(text, kConfigFile);
    const models::Recipe& recipe = models::recipe_for(library, config);
    loaders::Directory inner;
    take_expected(recipe, symbols_of(library, recipe, config), inner);
    for (auto& [name, tensor] : inner.expected) {
        if (tensor.logical != "head") {
            std::string below = std::string(kBelow) + name;
            tensor.spellings = models::Spellings(outer).others(below);
            found.expected.emplace(std::move(below), std::move(tensor));
        }
    }
}

/// Nothing is said of what no recipe knows, and what is wrong with a config is told by the rules.
void take_served_family(const fs::path& directory, loaders::Directory& found) {
    std::string fault;
    const auto attempt = [&](const auto& step) {
        try {
            step();
            return true;
        } catch (const Error& error) {
            fault = error.code() == ErrorCode::mismatch ? error.what() : "";
            return false;
        }
    };
    const auto take = [&] {
        const auto library = models::RecipeLibrary::load();
        const auto config =
            models::Config::parse(found.config_text, (directory / kConfigFile).string());
        const models::Recipe& recipe = models::recipe_for(library, config);
        found.family = recipe.name;
        found.passes = recipe.passes;
        take_roots(recipe, found);
        const models::Symbols symbols = symbols_of(library, recipe, config);
        if (!attempt([&] { take_expected(recipe, symbols, found); })) {
            found.expected.clear();
            found.fault = fault;
        } else if (!attempt([&] { take_whole(recipe, symbols, found); })) {
            found.whole.clear();
        }
        take_needs(recipe, symbols, found);
        (void)attempt([&] { take_layers_inside(library, recipe, found); });
    };
    (void)attempt(take);
}

loaders::GgufFile gguf_file(const fs::path& directory, const std::string& name) {
    loaders::GgufFile file{name, ""};
    try {
        auto header = formats::read_gguf(io::InputFile::open(directory / name));
        file.tensors = std::move(header.extents);
        file.texts = std::move(header.texts);
        file.numbers = std::move(header.numbers);
        file.keys = std::move(header.keys);
        file.lengths = std::move(header.lengths);
    } catch (const Error& error) {
        (error.code() == ErrorCode::unsupported ? file.unknown : file.fault) = error.full_text();
    }
    return file;
}

}  // namespace

loaders::Directory read_served_model(const fs::path& directory, loaders::Loader loader) {
    loaders::Directory found;
    for (const fs::directory_entry& entry : io::entries_of(directory)) {
        found.files.insert(entry.path().filename().string());
    }
    found.config_text = side_text(directory, found, kConfigFile, models::kMaxConfig);
    if (loader == loaders::Loader::llama_cpp) {
        for (const std::string& name : found.files) {
            if (name.ends_with(".gguf")) {
                found.gguf.push_back(gguf_file(directory, name));
            }
        }
        return found;
    }
    found.generation_text = side_text(directory, found, "generation_config.json");
    take_served_weights(directory, found, loader);
    std::vector<std::string> names;
    for (const loaders::WeightFile& file : found.weights) {
        if (file.fault.empty() && file.unknown.empty()) {
            names.push_back(file.name);
        }
    }
    found.equal = [directory, names](const std::string& one, const std::string& other) {
        return equal_at_a_glance(directory, names, one, other);
    };
    take_served_tokenizer(directory, found);
    take_served_family(directory, found);
    return found;
}

}  // namespace shardweld::app
