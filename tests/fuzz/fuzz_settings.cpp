// Any text as the JSON files that come into or from a model: an adapter's settings, config.json
// corrected, reports of a merge, the index of a model to be verified.
#include <array>

#include "adapters/settings.hpp"
#include "app/report/report_json.hpp"
#include "core/names/weight_map.hpp"
#include "models/config.hpp"
#include "publish/config_edits.hpp"

#include "json_files.hpp"

namespace {

using namespace shardweld;
using fuzz::JsonFile;

void adapter(const JsonFile& file) {
    adapters::SettingsSources sources;
    sources.adapter_config = {"adapter_config.json", file.text};
    sources.train_meta = {"lora_train_meta.json", "{\"lora_alpha\": 16, \"r\": 4}"};
    std::array<adapters::Module, 2> modules;
    modules[0].path = "model.layers.0.self_attn.q_proj";
    modules[1].path = "model.layers.1.mlp.up_proj";
    modules[0].rank = 4;
    modules[1].rank = 8;
    static_cast<void>(adapters::biases_of(sources));
    const auto settings = adapters::resolve_settings(sources, modules, {{"score"}, {}, 2});
    fuzz::require(settings.scales.size() == modules.size() && settings.scales[0] > 0);
}

/// Corrected, it must be JSON again and say what was asked for.
void true_config(const JsonFile& file) {
    publish::Facts facts;
    facts.dtype = DType::bf16;
    facts.labels = 1;
    facts.to_token_classes = true;
    facts.edits = {{"tie_word_embeddings", "true", false, ""},
                   {"num_nextn_predict_layers", "0", false, "mtp.*"},
                   {"rope_scaling.type", std::nullopt, false, "mtp.*"}};
    const auto config = models::Config::parse(file.text, "config.json");
    std::vector<std::string> notes;
    const std::string edited = publish::true_config(config, facts, notes).text_to_write();
    const auto again = models::Config::parse(edited, "config.json");
    // A field that is stated nowhere is not made.
    const bool is_stated = config.integer("tie_word_embeddings").has_value();
    fuzz::require(!is_stated || again.integer("tie_word_embeddings").value_or(0) != 0);
}

void report(const JsonFile& file) {
    static_cast<void>(app::read_reported_output(file.path));
}

void weight_index(const JsonFile& file) {
    static_cast<void>(parse_weight_map(file.text, "index"));
}

constexpr std::array<fuzz::JsonReader, 4> kReaders = {adapter, true_config, report, weight_index};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::read_json(kReaders, data, size);
    return 0;
}
