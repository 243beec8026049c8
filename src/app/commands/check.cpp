// `shardweld check`: whether a model directory would load where it is to be served.
// Knows how a directory becomes what the rules look at; the rules are the loaders' module's.

#include "shardweld/loaders/check.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/formats/containers/gguf_header.hpp"
#include "shardweld/io/input_file.hpp"
#include "shardweld/io/paths.hpp"
#include "shardweld/io/whole_file.hpp"
#include "shardweld/models/config.hpp"
#include "shardweld/models/hub_tensors.hpp"
#include "shardweld/models/recipe.hpp"
#include "shardweld/models/symbols.hpp"
#include "shardweld/publish/assets.hpp"

#include "../cli/table.hpp"
#include "../compare/written_model.hpp"
#include "../family/tokenizer_tokens.hpp"
#include "../report/json_parts.hpp"
#include "commands.hpp"

namespace shardweld::app {

namespace {

using loaders::Finding;
using nlohmann::ordered_json;

constexpr int kCheckSchema = 1;
constexpr const char* kConfig = "config.json";
constexpr Bytes kLongestTokenizerConfig = Bytes{64} << 20U;

std::string text_in(const fs::path& directory, const loaders::Directory& found,
                    const std::string& name, Bytes longest) {
    return found.files.contains(name) ? io::read_text(directory / name, longest) : "";
}

void take_weights(const fs::path& directory, loaders::Directory& found) {
    Problems problems;
    for (catalogue::Tensor& tensor : look_at_written_model(directory, problems).tensors) {
        found.tensors.emplace(tensor.name,
                              loaders::StoredTensor{tensor.dtype, std::move(tensor.shape)});
    }
    found.faults = problems.texts();
    // Told by a rule of its own.
    std::erase_if(found.faults,
                  [](const std::string& fault) { return fault == "config.json is missing"; });
}

void take_tokenizer(const fs::path& directory, loaders::Directory& found) {
    const std::vector<publish::Asset> assets = publish::collect_assets(directory);
    std::vector<std::string> names;
    for (const publish::Asset& asset : assets) {
        names.push_back(asset.name);
    }
    found.has_tokenizer = publish::has_tokenizer(names);
    if (const auto tokens = tokenizer_tokens(assets)) {
        found.n_tokens = tokens->count;
    }
    found.tokenizer_config_text =
        text_in(directory, found, "tokenizer_config.json", kLongestTokenizerConfig);
}

/// What the model's family makes of config.json. Of what no recipe knows nothing is said, and what
/// is wrong with a config is told by the rules.
void take_family(const fs::path& directory, loaders::Directory& found) {
    try {
        const auto library = models::RecipeLibrary::load();
        const auto config =
            models::Config::parse(found.config_text, (directory / kConfig).string());
        const models::Recipe& recipe = models::recipe_for(library, config);
        const auto own = models::own_names(recipe, *library.find_dialect("hf_module"));
        const models::Symbols symbols(recipe, own, config, {}, {});
        for (models::HubTensor& tensor : models::hub_tensors(recipe, symbols)) {
            const bool is_optional = tensor.line->optional || tensor.line->together;
            found.expected[tensor.name] = {std::move(tensor.shape), is_optional};
        }
        found.family = recipe.name;
        found.passes = recipe.passes;
    } catch (const Error&) {
        found.expected.clear();
    }
}

loaders::GgufFile gguf_file(const fs::path& directory, const std::string& name) {
    loaders::GgufFile file{name, "", false, false};
    try {
        const auto header = formats::read_gguf(io::InputFile::open(directory / name));
        file.has_tokens = header.keys.contains("tokenizer.ggml.tokens");
        file.has_template = header.keys.contains("tokenizer.chat_template");
    } catch (const Error& error) {
        file.fault = error.full_text();
    }
    return file;
}

loaders::Directory read_directory(const fs::path& directory, loaders::Loader loader) {
    loaders::Directory found;
    for (const fs::directory_entry& entry : io::entries_of(directory)) {
        found.files.insert(entry.path().filename().string());
    }
    found.config_text = text_in(directory, found, kConfig, models::kMaxConfig);
    if (loader != loaders::Loader::llama_cpp) {
        take_weights(directory, found);
        take_tokenizer(directory, found);
        take_family(directory, found);
        return found;
    }
    for (const std::string& name : found.files) {
        if (name.ends_with(".gguf")) {
            found.gguf.push_back(gguf_file(directory, name));
        }
    }
    return found;
}

std::string label_of(const Options& options) {
    std::string text(loaders::name_of(options.loader));
    if (options.n_devices > 1) {
        text += " on " + std::to_string(options.n_devices) + " devices";
    }
    if (options.n_stages > 1) {
        text += " in " + std::to_string(options.n_stages) + " stages";
    }
    return text;
}

std::string text_of(const std::vector<Finding>& findings, const Options& options) {
    std::vector<std::vector<std::string>> rows;
    for (const Finding& finding : findings) {
        rows.push_back({finding.is_fatal ? "error" : "warning", finding.rule,
                        finding.text + "; hint: " + finding.hint});
    }
    return table({Align::left, Align::left, Align::left}, rows) +
           (findings.empty() ? "nothing found that would keep " : "checked for ") +
           (findings.empty() ? options.local_dir.string() + " from loading in " : "") +
           label_of(options) + "\n";
}

std::string findings_json(const std::vector<Finding>& findings, const Options& options) {
    ordered_json json = {{"schema", kCheckSchema},
                         {"directory", options.local_dir.string()},
                         {"target", loaders::name_of(options.loader)},
                         {"tp", options.n_devices},
                         {"pp", options.n_stages},
                         {"findings", ordered_json::array()}};
    for (const Finding& finding : findings) {
        json["findings"].push_back({{"fatal", finding.is_fatal},
                                    {"rule", finding.rule},
                                    {"text", finding.text},
                                    {"hint", finding.hint}});
    }
    return json_text(json);
}

}  // namespace

int check(const Options& options, std::ostream& out) {
    const std::vector<Finding> findings =
        loaders::check(read_directory(options.local_dir, options.loader),
                       {options.loader, options.n_devices, options.n_stages});
    out << (options.json ? findings_json(findings, options) : text_of(findings, options));
    const auto fatal = std::ranges::count(findings, true, &Finding::is_fatal);
    if (fatal > 0) {
        throw Error(ErrorCode::strict,
                    options.local_dir.string() + " would not load rightly in " + label_of(options) +
                        ": " + counted(static_cast<std::size_t>(fatal), "error"),
                    "the lines above say what to do");
    }
    return 0;
}

}  // namespace shardweld::app
