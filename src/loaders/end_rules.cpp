// Embedding and head against config.json and the tokenizer.
#include <algorithm>
#include <array>

#include "core/text.hpp"

#include "names.hpp"
#include "rule.hpp"

namespace shardweld::loaders {

using nlohmann::json;

std::string name_of_logical(const Directory& directory, std::string_view logical) {
    const auto at = std::ranges::find_if(
        directory.expected, [&](const auto& entry) { return entry.second.logical == logical; });
    return at == directory.expected.end() ? "" : at->first;
}

bool is_family_whole(const Directory& directory) {
    return std::ranges::any_of(directory.expected, [](const auto& entry) {
        return entry.second.logical.starts_with("layer.");
    });
}

std::optional<bool> is_tied(const ModelUnderCheck& model) {
    const json ties = model.field("tie_word_embeddings");
    if (is_family_whole(model.directory)) {
        return name_of_logical(model.directory, kHead).empty();
    }
    return ties.is_boolean() ? std::optional(ties.get<bool>()) : std::nullopt;
}

std::string stored_head(const ModelUnderCheck& model) {
    const std::string name = name_of_logical(model.directory, kHead);
    if (!name.empty()) {
        return Places(model).of(name, model.directory.expected.at(name)).name;
    }
    const auto* const head = model.ending_in({"lm_head.weight", "embed_out.weight"});
    return head == nullptr ? "" : head->first;
}

namespace {

const std::vector<std::string_view> kEmbeddings = {"embed_tokens.weight", "wte.weight",
                                                   "word_embeddings.weight", "embed_in.weight",
                                                   "embed.weight"};

struct Rows {
    std::string name;
    Index count = 0;
};

std::optional<Rows> rows_of_embedding(const ModelUnderCheck& model) {
    const std::string name = name_of_logical(model.directory, kEmbedding);
    if (!name.empty()) {
        const Place place = Places(model).of(name, model.directory.expected.at(name));
        return !place.shape || place.shape->empty()
                   ? std::nullopt
                   : std::optional(Rows{place.name, place.shape->front()});
    }
    const auto* const found = model.ending_in(kEmbeddings);
    return found == nullptr || found->second.shape.empty()
               ? std::nullopt
               : std::optional(Rows{found->first, found->second.shape.front()});
}

void look_at_tokens(const ModelUnderCheck& model, Findings& findings) {
    const auto rows = rows_of_embedding(model);
    const auto tokens = model.directory.tokenizer.n_tokens;
    if (rows && tokens && *tokens > rows->count) {
        findings.fatal("the tokenizer has tokens up to " + std::to_string(*tokens - 1) + ", " +
                           printable(rows->name) + " has " + std::to_string(rows->count) + " rows",
                       "give the tokenizer that the model was trained with");
    }
}

void look_at_vocabulary(const ModelUnderCheck& model, Findings& findings) {
    const auto rows = rows_of_embedding(model);
    const auto size = model.number("vocab_size");
    if (rows && size && rows->count != *size) {
        findings.fatal("config.json says vocab_size " + std::to_string(*size) + ", " +
                           printable(rows->name) + " has " + std::to_string(rows->count) + " rows",
                       "merge again with --vocab_size, or correct config.json");
    }
}

void look_at_head(const ModelUnderCheck& model, Findings& findings) {
    const auto ties = is_tied(model);
    if (!is_language_model(model.architecture()) || !ties || model.weights.tensors.empty()) {
        return;
    }
    const std::string head = stored_head(model);
    const auto embedding = rows_of_embedding(model);
    if (*ties && !head.empty() && embedding) {
        const auto equal =
            model.directory.equal ? model.directory.equal(head, embedding->name) : std::nullopt;
        findings.add(equal == false && !model.is_for(Loader::transformers),
                     "config.json ties head and embedding, but " + printable(head) +
                         " is stored, too" + (equal == false ? ", and is another" : ""),
                     "transformers uses it, vLLM, SGLang and TGI take the embedding in its place: "
                     "write tie_word_embeddings false if it is a head of its own");
    } else if (!*ties && head.empty() && model.weights.is_whole) {
        findings.fatal("config.json says that the head is not tied, but there is none",
                       "it would be random: write tie_word_embeddings true, or merge again");
    }
}

/// What stands beside a classifier's weight. Heads called `score` have a bias for tokens only, and
/// those of value models are trained without.
void tell_rest_of_classifier(const ModelUnderCheck& model, const std::string& head,
                             Findings& findings) {
    constexpr std::string_view kOut = ".out_proj.weight";
    const std::string bias = head.substr(0, head.rfind('.')) + ".bias";
    const bool is_score = head.ends_with("score.weight");
    std::vector<std::string> others;
    if (!is_score || model.architecture().ends_with("ForTokenClassification")) {
        others.push_back(bias);
    }
    if (head.ends_with(kOut)) {
        const std::string dense = head.substr(0, head.size() - kOut.size()) + ".dense.";
        others.insert(others.end(), {dense + "weight", dense + "bias"});
    }
    std::erase_if(others, [&](const auto& name) { return model.weights.tensors.contains(name); });
    if (!others.empty()) {
        findings.add(!is_score,
                     "the head " + printable(head) + " is stored without " + first_of(others),
                     is_score ? "transformers takes zeros: right if it was trained without"
                              : "it would be random: merge again, or copy all files");
    }
}

/// The head of a model that gives classes or values, and a row of it for each.
void look_at_classifier(const ModelUnderCheck& model, Findings& findings) {
    const std::string name = model.architecture();
    const bool is_one =
        name.ends_with("ForSequenceClassification") || name.ends_with("ForTokenClassification");
    if (!is_one || !model.weights.is_whole || model.weights.tensors.empty()) {
        return;
    }
    const auto* const head =
        model.ending_in({"score.weight", "classifier.weight", "classifier.out_proj.weight"});
    if (head == nullptr) {
        findings.fatal("architectures names " + printable(name) +
                           ", but there is no head (score.weight or classifier.weight)",
                       "it would be random: merge again, or name the class that was trained");
        return;
    }
    tell_rest_of_classifier(model, head->first, findings);
    const json labels = model.field("id2label");
    const auto count = labels.is_object() && !labels.empty()
                           ? std::optional(to_index(labels.size(), "labels"))
                           : model.number("num_labels");
    const auto& shape = head->second.shape;
    if (count && (shape.empty() || shape.front() != *count)) {
        findings.fatal(printable(head->first) + " has " +
                           std::to_string(shape.empty() ? 0 : shape.front()) +
                           " rows, config.json counts " + std::to_string(*count) +
                           " labels (id2label, num_labels)",
                       "correct config.json");
    }
}

}  // namespace

constexpr auto kEndTable = std::to_array<Rule>({
    {"tokens", kHub, look_at_tokens, "the embedding has a row for each token",
     "a row that is not there is read beyond the end"},
    {"vocabulary", kHub, look_at_vocabulary, "`vocab_size` is the embedding's rows",
     "transformers 5.24, run: RuntimeError"},
    {"head", kHub, look_at_head, "`tie_word_embeddings` agrees with the stored head",
     "transformers 5.24, run: a missing tensor is random, with a report only, and another head "
     "than the tied one is used; vLLM's and SGLang's models, read: it is left out"},
    {"classifier", kHub, look_at_classifier,
     "classification models have a whole head, with a row for each label",
     "transformers 5.24, run: a missing head is random, other rows a RuntimeError"},
});
const std::span<const Rule> kEndRules = kEndTable;

}  // namespace shardweld::loaders
