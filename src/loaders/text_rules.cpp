// The files between text and numbers: the tokenizer, chat templates, generation_config.json.
#include <algorithm>
#include <set>

#include "shardweld/core/text.hpp"

#include "rule.hpp"

namespace shardweld::loaders {

namespace {

using nlohmann::json;

void look_for_tokenizer(const Case& model, Findings& findings) {
    if (!model.directory.tokenizer.is_there) {
        findings.add(!model.is_for(Loader::transformers), "no tokenizer lies beside the weights",
                     "copy the tokenizer's files from the model that was trained");
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
bool generates(const Case& model) {
    const std::string name = model.architecture();
    return !model.directory.files.contains("modules.json") &&
           (name.empty() || is_language_model(name));
}

void look_for_template(const Case& model, Findings& findings) {
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

void look_for_generation(const Case& model, Findings& findings) {
    const std::string& text = model.directory.generation_text;
    if (text.empty()) {
        if (generates(model)) {
            findings.doubtful("generation_config.json is missing",
                              "sampling and end tokens are the library's defaults; copy the file "
                              "from the model that was trained");
        }
    } else if (!parsed_json(text).is_object()) {
        findings.fatal("generation_config.json is not a JSON object",
                       "copy it again from the model that was trained");
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
void look_at_end(const Case& model, Findings& findings) {
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

const std::vector<Rule>& text_rules() {
    static const std::vector<Rule> rules = {
        {"tokenizer", kHub, look_for_tokenizer,
         "a tokenizer is there; only a remark for transformers",
         "vLLM's and TGI's start without options, read"},
        {"template", kHub, look_for_template,
         "a chat template is there, and where the loader reads it: chat_template.jinja (not TGI), "
         "tokenizer_config.json, chat_template.json (TGI, and models with a processor)",
         "transformers 5.24 tokenizers and processors, run; vLLM 0.33 renderers/hf and TGI's "
         "router, read"},
        {"generation", kHub, look_for_generation,
         "generation_config.json is there, and a JSON object", "transformers 5.24, run"},
        {"end", kHub, look_at_end,
         "`eos_token_id` of generation_config.json, or of config.json, has the tokenizer's "
         "eos_token",
         "transformers 5.24 GenerationConfig, run"},
    };
    return rules;
}

}  // namespace shardweld::loaders
