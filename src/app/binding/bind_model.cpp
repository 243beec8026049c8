#include "bind_model.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "adapters/separate.hpp"
#include "app/family/model_files.hpp"
#include "app/family/vocabulary.hpp"
#include "app/settings/job.hpp"
#include "catalogue/catalogue.hpp"
#include "core/names/config_fields.hpp"
#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "formats/recognise.hpp"
#include "models/pattern.hpp"
#include "plan/bind/mismatches.hpp"
#include "shardweld/error.hpp"

#include "bind_adapter.hpp"
#include "bind_alone.hpp"
#include "bind_states.hpp"
#include "quantised.hpp"
#include "saved_names.hpp"

namespace shardweld::app {

namespace {

using catalogue::Catalogue;

using plan::Targets;

/// Towers that a recipe passes on, or that a family without one has.
void look_at_towers(const models::Config& config, const Targets& targets, Warnings& out) {
    for (const Tower& tower : kTowers) {
        const bool is_promised = !config.keys(tower.field).empty();
        const auto is_of_it = [&](std::string_view name) { return belongs_to(tower, name); };
        if (is_promised && std::ranges::none_of(targets, is_of_it, plan::full_name)) {
            out.push_back(
                {"tower_missing", "",
                 "config.json describes the model's " + std::string(tower.name) + " (" +
                     std::string(tower.field) +
                     "), but no tensor of one is stored: it would be random; --supplement DIR "
                     "takes it from another model"});
        }
    }
}

/// A family without a recipe has the layers that are stored.
void look_at_layers(const models::Config& config, const Targets& targets, Warnings& out) {
    std::optional<Index> last;
    for (const plan::Target& target : targets) {
        last = std::max(last, stack_layer_of(target.name.text()));
    }
    const auto layers = config.integer("num_hidden_layers");
    if (layers && last && *last < *layers - 1) {
        out.push_back({"layers_missing", "",
                       "config.json counts " + std::to_string(*layers) +
                           " layers (num_hidden_layers), layers up to number " +
                           std::to_string(*last) + " are stored: the others would be random"});
    }
}

void look_at_experts(const models::Config& config, const Targets& targets, Warnings& out) {
    constexpr std::array kFields = {"num_experts", "num_local_experts", "n_routed_experts",
                                    "moe_num_experts"};
    const bool is_there = std::ranges::any_of(
        targets, [](std::string_view name) { return has_part(name, "expert"); }, plan::full_name);
    for (const char* field : kFields) {
        const Index experts = is_there ? 0 : config.integer(field).value_or(0);
        if (experts > 1) {
            out.push_back({"experts_missing", "",
                           "config.json counts " + std::to_string(experts) + " experts (" + field +
                               "), but no tensor of one is stored"});
        }
    }
}

/// Outside numbered layers, and no embedding, norm or pooler.
bool could_be_head(std::string_view name) {
    const bool is_embedding = has_part(name, "embed") && !has_part(name, "embed_out");
    const bool is_in_tower =
        std::ranges::any_of(kTowers, [&](const Tower& tower) { return belongs_to(tower, name); });
    return !is_embedding && !is_in_tower && !stack_layer_of(name) &&
           !predicts_further_tokens(name) && !is_known_as(name, "no head");
}

/// Some classes' loaders make up the head that they do not find.
void look_at_head(const HeldModel& prepared, const Targets& targets, Warnings& out) {
    const auto names = prepared.config.architectures();
    // A recipe asks for the head of a value model itself.
    const bool is_asked_for = prepared.is_value && models::promises_tensors(*prepared.recipe);
    const std::string name = names.empty() || is_asked_for ? "" : names.front();
    const auto is_of = [&](std::string_view kind) { return has_part(name, kind); };
    const bool classifies =
        is_of("Classification") || is_of("QuestionAnswering") || is_of("MultipleChoice");
    const auto tied = prepared.symbols->try_value("tied");
    const bool is_tied =
        tied.value_or(prepared.config.integer("tie_word_embeddings").value_or(1)) != 0;
    if (!classifies && (!name.ends_with("ForCausalLM") || is_tied)) {
        return;
    }
    const bool is_there = std::ranges::any_of(
        targets,
        [&](std::string_view own) {
            return could_be_head(own) && !(classifies && has_part(own, "lm_head"));
        },
        plan::full_name);
    if (!is_there) {
        out.push_back(
            {"head_missing", "",
             "config.json names the class " + printable(name) +
                 ", but no tensor of its head is stored: it would be random; say the "
                 "class that was trained in architectures, or give a save that has it, or with "
                 "--supplement DIR another model that does"});
    }
}

/// Optional weights that a field of config.json promises, where no recipe asks for them.
void look_at_optional(const models::Config& config, const Targets& targets, Warnings& out) {
    for (const std::string_view field : known_words("field that promises weights")) {
        const bool is_promised = config.integer(field).value_or(0) == 1;
        const auto is_one = [&](std::string_view name) { return is_known_as(name, field); };
        if (is_promised && std::ranges::none_of(targets, is_one, plan::full_name)) {
            out.push_back({"optional_missing", "",
                           "config.json says " + std::string(field) +
                               ", but no tensor that belongs to it is stored"});
        }
    }
}

/// What lies below each module of the stack's layers.
using Modules = std::map<std::string, std::set<std::string>>;

std::map<std::string, Modules> modules_by_kind(const Targets& targets) {
    std::map<std::string, Modules> kinds;
    for (const plan::Target& target : targets) {
        const std::string name = target.name;
        if (!stack_layer_of(name)) {
            continue;
        }
        for (std::size_t end = name.rfind('.'); end != std::string::npos && end > 0;
             end = name.rfind('.', end - 1)) {
            const std::string module = name.substr(0, end);
            const std::string below = name.substr(end + 1);
            const bool is_new = kinds[models::digits_hidden(module)][module]
                                    .insert(below.substr(0, below.find('.')))
                                    .second;
            if (!is_new || !stack_layer_of(module + ".")) {
                break;
            }
        }
    }
    return kinds;
}

/// In a family without a recipe, a module that lacks one of what another of its name has, and has
/// nothing else instead. It may have been lost.
void look_at_modules(const Targets& targets, Warnings& out) {
    for (const auto& [kind, modules] : modules_by_kind(targets)) {
        const auto& [fullest, all] = *std::ranges::max_element(
            modules, {}, [](const auto& module) { return module.second.size(); });
        for (const auto& [module, own] : modules) {
            if (own.size() + 1 != all.size() || !std::ranges::includes(all, own)) {
                continue;
            }
            const std::string lost = *std::ranges::find_if_not(
                all, [&here = own](const std::string& one) { return here.contains(one); });
            out.push_back({"layers_differ", module + "." + lost,
                           "nothing is stored for " + module + "." + lost + ", though " + fullest +
                               " has it: was it lost?"});
            break;
        }
    }
}

/// "module--Class" names another repository; "file.Class" a file of this one.
void look_at_code(const models::Config& config, const ModelFiles& files, Warnings& out) {
    std::vector<std::string> missing;
    for (const std::string& key : config.keys("auto_map")) {
        const std::string text = config.text("auto_map." + key).value_or("");
        const std::string file = text.substr(0, text.find('.')) + ".py";
        if (!text.empty() && !has_part(text, "--") &&
            !contains(files.assets, file, &publish::Asset::name) && !contains(missing, file)) {
            missing.push_back(file);
        }
    }
    if (!missing.empty()) {
        out.push_back(
            {"code_missing", "",
             "config.json names code of its own (auto_map) that does not lie beside it: " +
                 listed(missing) + "; copy it there from the model that was trained"});
    }
}

/// Warnings for towers, layers and experts that config.json describes and nothing stored belongs
/// to, and for code that its auto_map names and that does not lie beside it.
Warnings broken_promises(const HeldModel& prepared, const Targets& targets) {
    Warnings found;
    if (prepared.recipe->is_form || targets.empty()) {
        return found;
    }
    look_at_towers(prepared.config, targets, found);
    look_at_head(prepared, targets, found);
    if (!models::promises_tensors(*prepared.recipe)) {
        look_at_optional(prepared.config, targets, found);
        look_at_modules(targets, found);
        look_at_layers(prepared.config, targets, found);
        look_at_experts(prepared.config, targets, found);
    }
    look_at_code(prepared.config, prepared.files, found);
    return found;
}

constexpr const char* kThenGguf = " to safetensors, then merge that model to GGUF";

/// Training checkpoints and GGUF files hold a model and no adapter.
void require_place_for_adapter(const HeldModel& prepared, Lora lora, bool is_alone) {
    const bool is_training = prepared.training != nullptr;
    if ((!is_training && prepared.form == nullptr) || (lora == Lora::drop && !is_alone)) {
        return;
    }
    const std::string place = is_training ? "training checkpoint" : "GGUF file";
    if (is_alone) {
        throw Error(ErrorCode::unsupported,
                    "the checkpoint holds only a LoRA adapter, and a " + place + " holds a model",
                    is_training ? "fold it into the model it was trained on: --lora fold --base DIR"
                                : "merge it first with --lora fold and the model it was trained "
                                  "on, --base DIR" +
                                      std::string(kThenGguf));
    }
    throw Error(ErrorCode::unsupported,
                "a " + place + " has no place for the LoRA adapter beside the weights",
                is_training ? "fold it into them with --lora fold, or leave it out with --lora drop"
                            : "merge it first with --lora fold" + std::string(kThenGguf) +
                                  "; or leave the adapter out with --lora drop");
}

void bind_whole(HeldModel& model, const Job& job, Catalogue catalogue) {
    Catalogue whole;
    if (job.inputs.front().state != formats::TakenState::weights) {
        auto optimizer = std::exchange(catalogue.optimizer, {});
        whole = catalogue;
        whole.optimizer = std::move(optimizer);
    }
    const Bytes stored = catalogue::stored_bytes(catalogue);
    const bool has_adapter =
        adapters::holds_adapter(catalogue) || holds_framework_adapter(catalogue);
    if (has_adapter) {
        require_place_for_adapter(model, job.model.lora, holds_adapter_only(catalogue));
    }
    if (model.framework != nullptr ||
        (model.dialect->has_own_names && adapters::holds_adapter(catalogue))) {
        bind_with_adapter(model, job, std::move(catalogue));
    } else {
        if (job.model.lora != Lora::split) {
            model.unheeded = "the checkpoint holds no LoRA adapter: --lora has no effect";
        }
        bind_alone(model, job, std::move(catalogue));
    }
    if (!job.model.vocab_size) {
        require_only_padding(model.binding.padding, model.files.tokens);
    }
    std::ranges::move(padding_notes(model.binding.padding),
                      std::back_inserter(model.binding_notes));
    judge_unscaled(model.config, job, model.binding);
    if (model.has_model) {
        follow_saved_form(model, model.binding);
        std::ranges::move(broken_promises(model, model.binding.targets),
                          std::back_inserter(model.binding.warnings));
    }
    if (job.model.selection.include || job.model.selection.exclude) {
        select(model.binding, job.model.selection);
    }
    model.binding.ledger.stored += stored;
    model.binding.ledger.require_closed();
    if (job.inputs.front().state != formats::TakenState::weights) {
        bind_states(model, job, std::move(whole));
    }
}

}  // namespace

void bind_model(HeldModel& model, const Job& job, Catalogue catalogue) {
    const Index n_ranks = copy_or(find_value(catalogue.facts, formats::kShardRanks), 0);
    try {
        bind_whole(model, job, std::move(catalogue));
    } catch (Error& error) {
        // Hints about names and flags say what is wrong: it is no lost file.
        const bool may_lack_files = error.hint().empty() || error.hint() == plan::kConfigHint ||
                                    error.hint() == plan::kOtherConfigHint ||
                                    error.hint() == plan::kShortHint;
        if (n_ranks > 0 && error.code() == ErrorCode::mismatch && may_lack_files) {
            error.set_hint((error.hint().empty() ? "" : error.hint() + "; or ") + "the files of " +
                           counted(n_ranks, "rank") +
                           " are here, and none says how many there were: if the run had more, "
                           "copy theirs");
        }
        throw;
    }
}

}  // namespace shardweld::app
