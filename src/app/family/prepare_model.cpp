#include "prepare_model.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "adapters/separate.hpp"
#include "catalogue/catalogue.hpp"
#include "core/names/config_fields.hpp"
#include "core/text.hpp"
#include "formats/format.hpp"
#include "formats/recognise.hpp"
#include "models/claims.hpp"
#include "models/forms/written_form.hpp"
#include "models/name_changes.hpp"
#include "models/pattern.hpp"
#include "models/sized_lines.hpp"
#include "plan/bind/mismatches.hpp"
#include "publish/config_edits.hpp"
#include "shardweld/error.hpp"

#include "same_form.hpp"
#include "saved_type.hpp"
#include "shown_names.hpp"
#include "stored_evidence.hpp"
#include "take_training_form.hpp"
#include "vocabulary.hpp"

namespace shardweld::app {

namespace {

using LibraryPtr = std::shared_ptr<const models::RecipeLibrary>;

constexpr const char* kModuleTree = "module_tree";

/// Whose names the tensors have, without its lines. With --names module a framework's own spelling
/// of a module tree is left as it is stored: the tensors are read as the format's.
const models::Dialect* dialect_of(const models::RecipeLibrary& library, bool has_module_names,
                                  const catalogue::Catalogue& catalogue) {
    const models::Dialect* stated = library.find_rules(catalogue.dialect);
    if (!has_module_names || (stated != nullptr && stated->has_own_names)) {
        return stated;
    }
    const formats::Format* const format = formats::find_format(catalogue.format);
    return format == nullptr ? stated : library.find_rules(format->dialect);
}

/// Module-tree names need no recipe: without one, or when asked to, they stay as they are.
const models::Recipe& recipe_of(const models::RecipeLibrary& library,
                                const models::Dialect* dialect, HeldModel& prepared,
                                const catalogue::Catalogue& catalogue) {
    const JobModel& choice = prepared.choice;
    const bool is_free = dialect != nullptr && dialect->has_own_names;
    if (is_free && (choice.has_module_names || is_adapter_alone(choice.lora, catalogue))) {
        return *library.find_recipe(kModuleTree);
    }
    if (!is_free && choice.has_module_names) {
        throw Error(ErrorCode::usage,
                    "--names module is for checkpoints that hold the names of a module tree, " +
                        catalogue.format + " ones have their own",
                    "leave it out");
    }
    constexpr std::string_view kSaved = "huggingface";  // the format of saved models
    const bool has_saved_names = choice.output.form.empty() || catalogue.format == kSaved;
    try {
        const models::Recipe& recipe = models::recipe_for(library, prepared.config);
        if (is_free && !recipe.is_extra && !models::promises_tensors(recipe)) {
            judge_unknown_types(prepared.config, has_saved_names, prepared.warnings);
        }
        return recipe;
    } catch (const Error& error) {
        const models::Recipe* const as_stored = library.find_recipe(kModuleTree);
        if (!is_free || !accept_without_recipe(library, error, catalogue, prepared.config,
                                               *as_stored, has_saved_names, prepared.warnings)) {
            throw;
        }
        return *as_stored;
    }
}

/// Where the recipe's extents are those of stored tensors, its lines for these.
std::shared_ptr<const models::Recipe> sized_recipe(const models::RecipeLibrary& library,
                                                   const models::Dialect* dialect,
                                                   const HeldModel& prepared,
                                                   const catalogue::Catalogue& catalogue) {
    const models::Recipe& recipe = *prepared.recipe;
    if (recipe.hub.empty() || models::promises_tensors(recipe) || dialect == nullptr ||
        !dialect->has_own_names) {
        return prepared.recipe;
    }
    std::vector<models::ShapedName> stored;
    catalogue::each_item(catalogue, [&](const auto& one) {
        stored.push_back({models::renamed_by(recipe.renames, one.name), one.shape});
    });
    const models::Symbols symbols(recipe, *library.find_dialect(dialect->name), prepared.config, {},
                                  {});
    return std::make_shared<const models::Recipe>(
        models::sized_for(recipe, symbols, stored, prepared.choice.output.form.empty()));
}

/// Names of tensors that the family keeps in their precision, as globs, whatever stands in front of
/// a layer's number: also of those that are written as they are stored.
std::vector<std::string> kept_names(const models::RecipeLibrary& library,
                                    const HeldModel& prepared) {
    const models::Recipe* family = prepared.recipe.get();
    try {
        family = family->hub.empty() ? &models::recipe_for(library, prepared.config) : family;
    } catch (const Error&) {
        return {};
    }
    std::set<std::string> globs;
    for (const auto* const lines : {&family->hub, &family->module}) {
        for (const models::Line& line : *lines) {
            if (line.keep) {
                globs.insert("*" + line.name.literals.back());
            }
        }
    }
    return {globs.begin(), globs.end()};
}

/// The recipe that knows how names should be, even where the tensors of an adapter alone need none;
/// null where there is none or names are to stay.
const models::Recipe* family_of(const models::RecipeLibrary& library, const models::Dialect* stored,
                                const HeldModel& prepared) {
    const bool is_free = stored != nullptr && stored->has_own_names;
    if (!is_free || prepared.choice.has_module_names) {
        return nullptr;
    }
    if (models::promises_tensors(*prepared.recipe)) {
        return prepared.recipe.get();
    }
    try {
        const models::Recipe& family = models::recipe_for(library, prepared.config);
        return models::promises_tensors(family) ? &family : nullptr;
    } catch (const Error&) {
        return nullptr;
    }
}

const models::Dialect& known_dialect(const models::RecipeLibrary& library,
                                     const models::Dialect* dialect, const models::Recipe& recipe,
                                     const catalogue::Catalogue& catalogue) {
    if (dialect == nullptr) {
        throw Error(ErrorCode::unsupported, "there is no dialect " + catalogue.dialect,
                    "give one with --recipe");
    }
    if (!library.can_meet(recipe, *dialect)) {
        throw Error(
            ErrorCode::unsupported,
            "the recipe " + recipe.name + " does not know the names of " + catalogue.dialect +
                " checkpoints" +
                (dialect->families.empty() ? " (it knows " + joined(recipe.dialects, ", ") + ")"
                                           : ", only " + joined(dialect->families, ", ") + " do"),
            "give a recipe that does with --recipe" +
                std::string(dialect->families.empty()
                                ? ""
                                : ", or keep the stored names with --names module"));
    }
    return *dialect;
}

/// The dialect with the recipe's own lines, or with those that serve the family if each stored name
/// is one of theirs: a framework has thousands for all families, and those of other families say
/// what is wrong with a name of theirs.
std::shared_ptr<const models::Dialect> with_lines(const LibraryPtr& library,
                                                  const models::Dialect& rules,
                                                  const models::Recipe& recipe,
                                                  const catalogue::Catalogue& catalogue) {
    constexpr std::size_t kFew = 10'000;  // the names of more take longer to look at than all lines
    const auto all = [&] { return library->find_dialect(rules.name); };
    if (rules.has_own_names) {
        return std::make_shared<const models::Dialect>(models::own_names(recipe, *all()));
    }
    if (catalogue.tensors.size() + catalogue.shards.size() <= kFew) {
        auto family =
            std::make_shared<const models::Dialect>(library->dialect_for(recipe, rules.name));
        const auto names = collect_set(
            family->store, [](const models::Line& line) { return digits_hidden(line.name); });
        bool is_known = true;
        catalogue::each_item(catalogue, [&](const auto& item) {
            is_known = is_known && names.contains(digits_hidden(item.name));
        });
        if (is_known) {
            return family;
        }
    }
    return {library, all()};
}

/// Classes of transformers that store no language model's head: they have none, or it is tied. A
/// training checkpoint has an entry for a tied one, too.
bool is_headless_class(const HeldModel& prepared) {
    const auto names = prepared.config.architectures();
    const auto is_called = [&](const char* part) { return has_part(names.front(), part); };
    if (names.empty() || is_called("LMHead")) {
        return false;
    }
    const models::ModelClass kind = prepared.config.model_class();
    if (!prepared.choice.output.form.empty()) {
        if (is_called("MaskedLM") || is_called("PreTraining")) {
            return false;
        }
        // Families of language models know by themselves that a classifier has none.
        if (kind == models::ModelClass::token_classification) {
            return !contains(prepared.recipe->givens, "value");
        }
    }
    return kind == models::ModelClass::other;
}

/// Fits the recipe to a checkpoint without a language model's head: a bare base model, or one with
/// another head. Whether it is one.
bool fit_recipe(HeldModel& prepared, const models::Dialect* dialect,
                const catalogue::Catalogue& catalogue) {
    if (dialect == nullptr || !dialect->has_own_names ||
        !models::promises_tensors(*prepared.recipe)) {
        return false;
    }
    if (is_text_part(*prepared.recipe, catalogue)) {
        return false;
    }
    const auto prefix = find_base_prefix(catalogue, *prepared.recipe);
    models::Recipe own = prefix ? with_base_prefix(*prepared.recipe, *prefix) : *prepared.recipe;
    const bool is_headless =
        (prefix || is_headless_class(prepared)) && !has_language_head(catalogue, own);
    if (!is_headless) {
        return false;
    }
    prepared.recipe = std::make_shared<const models::Recipe>(without_language_head(std::move(own)));
    if (prefix) {
        prepared.notes.emplace_back("names begin with \"" + prefix->stored + "\", not \"" +
                                    prefix->of_recipe +
                                    "\": a base model without a language model's head, written so");
    }
    return true;
}

/// Training renames the class of the live model, and saves that name.
void name_trained_classes(models::Config& config, HeldModel& prepared) {
    const std::vector<std::string> stated = config.architectures();
    const bool is_text = config.text("architectures").has_value();
    const std::vector<std::string> trained = publish::name_trained_classes(config);
    if (is_text) {
        prepared.notes.emplace_back(
            "config.json's architectures is a text: the written one has a list, as loaders want");
    }
    for (const std::size_t i : indices(stated)) {
        if (trained[i] != stated[i]) {
            prepared.notes.push_back(
                "config.json names the class " + printable(stated[i]) +
                ", which is what its wrapper called it: the written one says " +
                printable(trained[i]));
        } else if (is_wrapper_class(stated[i])) {
            prepared.warnings.push_back(
                {"class_of_wrapper", "",
                 "config.json names the class " + printable(stated[i]) +
                     ", which wraps a model: correct architectures there, or give the trained "
                     "model's own with --hf_config"});
        }
    }
}

/// The config as the rest of the run sees it.
models::Config edited_config(const ModelFiles& files, const JobModel& choice, HeldModel& prepared) {
    models::Config config = models::Config::parse(files.config_text, files.config_path);
    name_trained_classes(config, prepared);
    if (choice.is_tied && config.integer("tie_word_embeddings").value_or(0) != 1) {
        config.set("tie_word_embeddings", "true");
    }
    if (choice.vocab_size) {
        set_vocabulary(config, *choice.vocab_size);
    }
    return config;
}

void check_config(HeldModel& prepared, const catalogue::StatedConfig& claims) {
    const std::set<std::string> settled = prepared.choice.vocab_size
                                              ? std::set<std::string>{kVocabularyField}
                                              : std::set<std::string>{};
    const auto found = models::check_claims(*prepared.dialect, prepared.config, claims, settled);
    if (!found.unread.empty()) {
        prepared.warnings.push_back({"args_unread", "",
                                     "of the checkpoint's args " + joined(found.unread, ", ") +
                                         ": not compared with " + prepared.config.origin()});
    }
    if (found.contradictions.empty()) {
        return;
    }
    std::string text;
    for (const std::string& disagreement : found.contradictions) {
        const std::string fields = replaced(disagreement, prepared.config.origin() + " says ", "");
        text += text.empty() ? "this config.json is another model's: " + fields
                             : "; " + replaced(fields, "the checkpoint's args say", "they say");
    }
    throw Error(ErrorCode::mismatch, text, plan::kOtherConfigHint)
        .add_context("file " + prepared.config.origin());
}

/// Writes the model as the reference is spelled. A written form has its own names, and only how the
/// tensors of the family `own` are stored is told; so it is beside an adapter with PEFT's names,
/// whose modules are found by the recipe's. A framework's factors go by layouts.
void follow_reference(HeldModel& prepared, const models::Recipe& own, const Reference& reference,
                      const catalogue::Catalogue& catalogue) {
    // Without one only the tensors of a module tree say how they are stored.
    const bool is_dialect_alone = prepared.recipe->is_form || adapters::holds_adapter(catalogue);
    if ((is_dialect_alone || reference.empty()) && !prepared.dialect->has_own_names) {
        return;
    }
    models::Recipe recipe = is_dialect_alone ? own : *prepared.recipe;
    models::Dialect dialect = *prepared.dialect;
    spell_as(is_dialect_alone ? Reference() : reference, catalogue, *prepared.symbols, recipe,
             dialect);
    if (is_dialect_alone) {
        recipe = *prepared.recipe;
        if (!recipe.is_form) {
            follow_old_names(reference, recipe);
        }
    }
    prepared.recipe = std::make_shared<const models::Recipe>(std::move(recipe));
    prepared.dialect = std::make_shared<const models::Dialect>(std::move(dialect));
}

/// The job said that head and embedding are one.
void check_tying(const HeldModel& prepared, const catalogue::Catalogue& catalogue) {
    if (shares_embeddings(catalogue) && !prepared.is_value && !prepared.choice.is_untied &&
        prepared.symbols->try_value("tied") == 0) {
        throw Error(ErrorCode::mismatch,
                    "the checkpoint's args say untie_embeddings_and_output_weights false, but by " +
                        prepared.config.origin() +
                        " (tie_word_embeddings) head and embedding are two",
                    "correct it, or give --tie-word-embedding");
    }
}

/// Settles whether the model classifies tokens.
void settle_head(HeldModel& prepared, const ScoreHead& head) {
    prepared.is_value = prepared.choice.is_value ||
                        prepared.config.model_class() == models::ModelClass::token_classification;
    if (!head.evidence.empty() && !prepared.is_value) {
        prepared.is_value = true;
        prepared.notes.emplace_back(head.evidence +
                                    ": it is written as a token classification (value) model");
    }
}

/// What lies beside the weights, and does not come along. A tokenizer belongs to a model that has a
/// vocabulary.
void judge_side_files(HeldModel& prepared, const ModelFiles& files) {
    const std::string place = printable(files.config_path, 1000);
    const auto warn = [&](const char* code, const std::string& text) {
        prepared.warnings.push_back({code, "", text});
    };
    if (!files.lost_assets.empty()) {
        warn("side_file_lost",
             counted(files.lost_assets.size(), "file") + " beside " + place +
                 " cannot be copied: " + listed(files.lost_assets) +
                 "; copy a snapshot of the Hub with the files its links lead to (cp -L)");
    } else if (!files.has_tokenizer && prepared.config.integer(kVocabularyField)) {
        warn("tokenizer_missing",
             "there is no tokenizer beside " + place +
                 ": copy the trained model's there, or pass a directory that has both with "
                 "--hf_config");
    }
    if (!files.unread_files.empty()) {
        warn("side_file_unread",
             "no JSON is in " + listed(files.unread_files) + " beside " + place +
                 ": it told nothing, and side files are copied as they are; copy it from the model "
                 "again");
    }
    if (const auto weights = publish::weights_among(files.assets); !weights.empty()) {
        warn("module_weights_copied",
             listed(weights) +
                 " belongs to the sentence-transformers model beside config.json and is copied as "
                 "it is: if the job trained it, replace it with what was trained");
    }
}

/// The format's name, or that of the framework whose names it holds.
std::string format_of(const catalogue::Catalogue& catalogue) {
    const formats::Format* const format = formats::find_format(catalogue.format);
    return format == nullptr || format->dialect == catalogue.dialect ? catalogue.format
                                                                     : catalogue.dialect;
}

/// Exact cover proves that nothing is missing, not that everything means what the recipe says.
void judge_recipe(HeldModel& prepared, const catalogue::Catalogue& catalogue) {
    const models::Recipe& recipe = *prepared.recipe;
    const models::Dialect& dialect = *prepared.dialect;
    prepared.verification =
        models::verification_in(recipe, format_of(catalogue), dialect.has_own_names);
    if (!models::promises_tensors(recipe) || is_shown(recipe, dialect)) {
        return;
    }
    const std::string text = dialect.has_own_names
                                 ? " checks names and shapes, but was never compared with a saved "
                                   "model: compare the result with a trusted one, or keep the "
                                   "stored names with --names module"
                                 : " was never compared with a model exported by the framework: "
                                   "compare the result with a trusted one";
    prepared.warnings.push_back({"recipe_unverified", "", "the recipe " + recipe.name + text});
}

/// Names and forms of llama.cpp, whose files hold whole language models of families that have a
/// template.
void take_form(const LibraryPtr& library, bool is_headless, HeldModel& prepared,
               const catalogue::StatedConfig& claims) {
    constexpr std::string_view kFormat = "gguf";
    const models::Dialect* const form = models::form_for(*library, *prepared.recipe, kFormat);
    if (form == nullptr) {
        throw Error(ErrorCode::unsupported,
                    "there is no GGUF template for the family " + prepared.recipe->name,
                    "there is one for " +
                        joined(models::families_with_form(*library, kFormat), ", ") +
                        "; write safetensors, which llama.cpp's convert_hf_to_gguf.py may know");
    }
    if (is_headless || prepared.is_value) {
        throw Error(ErrorCode::unsupported,
                    "a model without a language model's head cannot be written to GGUF",
                    "write safetensors");
    }
    models::WrittenForm made = models::written_form(*prepared.recipe, *prepared.dialect, *form);
    models::Dialect rules = made.dialect;
    rules.refusals = form->refusals;
    models::require_fit(made.recipe, rules, prepared.config, claims);
    prepared.form = {library, form};
    prepared.recipe = std::make_shared<const models::Recipe>(std::move(made.recipe));
    prepared.dialect = std::make_shared<const models::Dialect>(std::move(made.dialect));
}

}  // namespace

HeldModel prepare_model(const ModelFiles& files, const JobModel& choice,
                        catalogue::Catalogue& catalogue) {
    HeldModel prepared{files, choice};
    // Its recipes and dialects live as long as one of them is used.
    const LibraryPtr library =
        std::make_shared<const models::RecipeLibrary>(models::RecipeLibrary::load(files.recipes));
    const models::Dialect* const stored = dialect_of(*library, choice.has_module_names, catalogue);
    prepared.config = edited_config(files, choice, prepared);
    prepared.recipe = {library, &recipe_of(*library, stored, prepared, catalogue)};
    const models::Recipe* const family = family_of(*library, stored, prepared);
    if (family != nullptr) {
        prepared.notes = take_family_names(*family, catalogue);
    }
    prepared.kept = kept_names(*library, prepared);
    prepared.recipe = sized_recipe(*library, stored, prepared, catalogue);
    if (!models::promises_tensors(*prepared.recipe)) {
        require_all_ranks(prepared.config, catalogue);
    }
    const bool is_headless = fit_recipe(prepared, stored, catalogue);
    const models::Dialect& known = known_dialect(*library, stored, *prepared.recipe, catalogue);
    prepared.dialect = with_lines(library, known, *prepared.recipe, catalogue);
    check_config(prepared, catalogue.claims);
    models::require_fit(*prepared.recipe, *prepared.dialect, prepared.config, catalogue.claims);
    const ScoreHead head = find_score_head(catalogue, *prepared.dialect);
    settle_head(prepared, head);
    const std::shared_ptr<const models::Recipe> own = prepared.recipe;
    const std::optional<Encoding> ggml = choice.output.ggml();
    if (ggml) {
        take_form(library, is_headless, prepared, catalogue.claims);
    }
    std::map<std::string, Index> facts = known_facts(catalogue, *prepared.dialect);
    prepared.given = {{"value", prepared.is_value ? 1 : 0}};
    if (!choice.output.form.empty()) {
        take_training_form(choice.output.form == "same" ? form_of(catalogue) : choice.output.form,
                           *library, head.rows,
                           choice.has_states ? embedding_rows(catalogue) : std::nullopt, prepared);
    }
    if (ggml) {
        facts.emplace("file_type", facts_of(*ggml).ggml_file_type);
    }
    if (head.rows) {
        facts.emplace("labels", *head.rows);
    }
    prepared.symbols = std::make_shared<const models::Symbols>(
        *prepared.recipe, *prepared.dialect, prepared.config, std::move(facts), prepared.given);
    if (family != nullptr && !holds_adapter_only(catalogue)) {
        require_family_names(*own, *prepared.symbols, prepared.config, catalogue);
    }
    check_tying(prepared, catalogue);
    follow_reference(prepared, *own, files.reference, catalogue);
    judge_recipe(prepared, catalogue);
    if (!is_adapter_alone(choice.lora, catalogue)) {
        judge_side_files(prepared, files);
    }
    return prepared;
}

}  // namespace shardweld::app
