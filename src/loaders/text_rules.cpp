// The files between text and numbers: the tokenizer, chat templates, generation_config.json.
#include <algorithm>
#include <array>
#include <set>

#include "core/text.hpp"

#include "known_names.hpp"
#include "rule.hpp"

namespace shardweld::loaders {

namespace {

using nlohmann::json;

void look_for_tokenizer(const ModelUnderCheck& model, Findings& findings) {
    if (!model.directory.tokenizer.is_there) {
        findings.add(!model.is_for(Loader::transformers), "no tokenizer lies beside the weights",
                     "copy the tokenizer's files from the model that was trained");
    }
    if (const std::string& fault = model.directory.tokenizer.fault; !fault.empty()) {
        findings.fatal(fault, "copy it again from the model that was trained");
    }
}

bool is_template(const json& value) {
    return (value.is_string() && !value.get_ref<const std::string&>().empty()) ||
           (value.is_array() && !value.empty());
}

/// Where a chat template is, in the order in which they are looked for.
struct Templates {
    bool in_jinja = false;      ///< chat_template.jinja
    bool in_json = false;       ///< chat_template.json, of processors
    bool in_tokenizer = false;  ///< tokenizer_config.json
    bool among_others = false;  ///< additional_chat_templates, each of which has a name
};

Templates templates_of(const Directory& directory) {
    const json config = parsed_json(directory.tokenizer.config_text);
    return {directory.files.contains("chat_template.jinja"),
            directory.files.contains("chat_template.json"),
            is_template(value_in(config, "chat_template")),
            directory.files.contains("additional_chat_templates")};
}

/// Whether the loader's processor is made, which reads chat_template.json.
bool has_processor(const Directory& directory) {
    return directory.files.contains("preprocessor_config.json") ||
           directory.files.contains("processor_config.json");
}

/// Encoders generate nothing, nor do models that sentence-transformers' modules.json makes
/// embedding models of, whatever class they are of.
bool generates(const ModelUnderCheck& model) {
    const std::string name = model.architecture();
    return !model.directory.files.contains("modules.json") &&
           (name.empty() || is_language_model(name));
}

void look_for_template(const ModelUnderCheck& model, Findings& findings) {
    const Templates found = templates_of(model.directory);
    const bool is_tgi = model.is_for(Loader::tgi);
    const bool reads_json = is_tgi || has_processor(model.directory);
    const bool is_read =
        found.in_tokenizer || (found.in_json && reads_json) || (found.in_jinja && !is_tgi);
    if (is_read || !model.directory.tokenizer.is_there) {
        return;
    }
    const std::string loader(name_of(model.request.loader));
    const std::string move =
        "put the template into tokenizer_config.json (chat_template), or give "
        "the server one";
    if (found.in_jinja) {
        findings.doubtful(loader +
                              " does not read chat_template.jinja, and there is no other chat "
                              "template",
                          move);
    } else if (found.in_json) {
        findings.doubtful(loader +
                              " reads chat_template.json for models with a processor only, "
                              "and there is no other chat template",
                          "save it as chat_template.jinja");
    } else if (found.among_others) {
        findings.doubtful("additional_chat_templates has no default chat template",
                          "chat requests must name one: copy chat_template.jinja, too");
    } else if (!model.is_for(Loader::transformers) && generates(model)) {
        findings.doubtful("there is no chat template",
                          "chat requests will fail; copy chat_template.jinja from the model that "
                          "was trained, or give the server one");
    }
}

bool is_cache(const json& name) {
    return name.is_string() &&
           is_one_of(
               "static offloaded_static sliding_window hybrid hybrid_chunked offloaded_hybrid "
               "offloaded_hybrid_chunked dynamic offloaded quantized",
               name.get_ref<const std::string&>());
}

/// A setting that GenerationConfig refuses, and not only remarks upon; "" for none.
std::string refused_setting(const json& settings) {
    const auto number = [&](const char* name, Index absent) {
        const json value = value_in(settings, name);
        return value.is_number_integer() ? value.get<Index>() : absent;
    };
    const json early = value_in(settings, "early_stopping");
    const json cache = value_in(settings, "cache_implementation");
    const Index answers = number("num_return_sequences", 1);
    const Index beams = number("num_beams", 1);
    const bool samples = value_in(settings, "do_sample") == true;
    if (number("max_new_tokens", 1) <= 0) {
        return "max_new_tokens " + settings["max_new_tokens"].dump();
    }
    if (!early.is_null() && !early.is_boolean() && early != "never") {
        return "early_stopping " + early.dump();
    }
    if (!cache.is_null() && !is_cache(cache)) {
        return "cache_implementation " + cache.dump();
    }
    if (answers > beams && (beams > 1 || !samples)) {
        return "num_return_sequences " + std::to_string(answers) + " with " +
               (beams > 1 ? std::to_string(beams) + " beams" : "neither sampling nor beams");
    }
    return value_in(settings, "compile_config").is_null()
               ? ""
               : "compile_config, which no file can hold";
}

void look_for_generation(const ModelUnderCheck& model, Findings& findings) {
    const std::string& text = model.directory.generation_text;
    if (text.empty()) {
        if (generates(model)) {
            findings.doubtful("generation_config.json is missing",
                              "sampling and end tokens are the library's defaults; copy the file "
                              "from the model that was trained");
        }
        return;
    }
    const json settings = parsed_json(text);
    if (settings.is_discarded()) {
        findings.doubtful("generation_config.json is not JSON, and left out",
                          "copy it again from the model that was trained");
    } else if (!settings.is_object()) {
        findings.fatal("generation_config.json is not a JSON object",
                       "copy it again from the model that was trained");
    } else if (const std::string refused = refused_setting(settings);
               !refused.empty() && !model.is_for(Loader::tgi)) {
        findings.fatal("generation_config.json says " + refused,
                       "transformers' GenerationConfig refuses it: correct it, or remove it");
    }
}

/// One number, or several.
std::set<Index> numbers_in(const json& value) {
    std::set<Index> numbers;
    for (const json& one : value.is_array() ? value : json::array({value})) {
        if (one.is_number_integer()) {
            numbers.insert(one.get<Index>());
        }
    }
    return numbers;
}

/// Generation ends at the tokens of generation_config.json, which config.json stands for; chats end
/// with the tokenizer's.
void look_at_end(const ModelUnderCheck& model, Findings& findings) {
    const Tokenizer& tokenizer = model.directory.tokenizer;
    const json generation = parsed_json(model.directory.generation_text);
    const bool is_own = !value_in(generation, "eos_token_id").is_null();
    const std::string file = is_own ? "generation_config.json" : "config.json";
    const std::set<Index> ends =
        numbers_in(is_own ? generation["eos_token_id"] : model.field("eos_token_id"));
    if (!generates(model) || ends.empty() || !tokenizer.eos_number ||
        ends.contains(*tokenizer.eos_number)) {
        return;
    }
    findings.doubtful(file + " ends generation at eos_token_id " +
                          joined(ends, ", ", [](Index number) { return std::to_string(number); }) +
                          ", the tokenizer's eos_token " + printable(tokenizer.eos) + " is " +
                          std::to_string(*tokenizer.eos_number),
                      "answers would end too late or never: make them agree");
}

}  // namespace

constexpr auto kTextTable = std::to_array<Rule>({
    {"tokenizer", kHub, look_for_tokenizer,
     "a tokenizer is there, only a remark for transformers, and its files can be read",
     "transformers 5.24, run: JSONDecodeError, KeyError; vLLM's and TGI's start without "
     "options, "
     "read"},
    {"template", kHub, look_for_template,
     "a chat template is there, and where the loader reads it: chat_template.jinja (not TGI), "
     "tokenizer_config.json, chat_template.json (TGI, and models with a processor)",
     "transformers 5.24 tokenizers and processors, run; vLLM 0.33 renderers/hf and TGI's "
     "router, read"},
    {"generation", kHub, look_for_generation,
     "generation_config.json is there, a JSON object, and says nothing that GenerationConfig "
     "refuses",
     "transformers 5.24, run: TypeError, ValueError"},
    {"end", kHub, look_at_end,
     "`eos_token_id` of generation_config.json, or of config.json, has the tokenizer's "
     "eos_token",
     "transformers 5.24 GenerationConfig, run"},
});
const std::span<const Rule> kTextRules = kTextTable;

}  // namespace shardweld::loaders
