#include "bind_model.hpp"

#include <algorithm>
#include <utility>

#include "adapters/separate.hpp"
#include "app/settings/job.hpp"
#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/recognise.hpp"
#include "plan/bind/mismatches.hpp"
#include "shardweld/error.hpp"

#include "bind_adapter.hpp"
#include "bind_alone.hpp"
#include "bind_states.hpp"
#include "missing_parts.hpp"
#include "model_files.hpp"
#include "quantised.hpp"
#include "saved_names.hpp"
#include "training_form.hpp"
#include "vocabulary.hpp"

namespace shardweld::app {

namespace {

using catalogue::Catalogue;

constexpr const char* kThenGguf = " to safetensors, then merge that model to GGUF";

/// Training checkpoints and GGUF files hold a model and no adapter.
void require_place_for_adapter(const PreparedModel& prepared, Lora lora, bool is_alone) {
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

Bound bind_whole(const PreparedModel& prepared, const ModelFiles& files, const Job& job,
                 Catalogue catalogue) {
    Catalogue whole;
    if (job.inputs.front().state != formats::TakenState::weights) {
        auto optimizer = std::exchange(catalogue.optimizer, {});
        whole = catalogue;
        whole.optimizer = std::move(optimizer);
    }
    const Bytes stored = catalogue::stored_bytes(catalogue);
    Bound bound;
    const bool has_adapter =
        adapters::holds_adapter(catalogue) || holds_framework_adapter(catalogue);
    if (has_adapter) {
        require_place_for_adapter(prepared, job.model.lora, holds_adapter_only(catalogue));
    }
    if (prepared.framework != nullptr ||
        (prepared.dialect->has_own_names && adapters::holds_adapter(catalogue))) {
        bound = bind_with_adapter(prepared, files, job, std::move(catalogue));
    } else {
        if (job.model.lora != Lora::split) {
            bound.unheeded = "the checkpoint holds no LoRA adapter: --lora has no effect";
        }
        bind_alone(prepared, files, job, std::move(catalogue), bound);
    }
    if (!job.model.vocab_size) {
        require_only_padding(bound.binding.padding, files.tokens);
    }
    std::ranges::move(padding_notes(bound.binding.padding), std::back_inserter(bound.notes));
    judge_unscaled(prepared.config, job, bound.binding);
    if (bound.has_model) {
        follow_saved_form(prepared, bound.binding);
        std::ranges::move(broken_promises(prepared, files, bound.binding.targets),
                          std::back_inserter(bound.binding.warnings));
    }
    if (job.model.selection.include || job.model.selection.exclude) {
        select(bound.binding, job.model.selection);
    }
    bound.binding.ledger.stored += stored;
    bound.binding.ledger.require_closed();
    if (job.inputs.front().state != formats::TakenState::weights) {
        bind_states(prepared, job, std::move(whole), bound);
    }
    return bound;
}

}  // namespace

Bound bind_model(const PreparedModel& prepared, const ModelFiles& files, const Job& job,
                 Catalogue catalogue) {
    const auto ranks = catalogue.facts.find(formats::kShardRanks);
    const Index n_ranks = ranks == catalogue.facts.end() ? 0 : ranks->second;
    try {
        return bind_whole(prepared, files, job, std::move(catalogue));
    } catch (Error& error) {
        // Hints about names and flags say what is wrong: it is no lost file.
        const bool may_lack_files = error.hint().empty() || error.hint() == plan::kConfigHint ||
                                    error.hint() == plan::kOtherConfigHint ||
                                    error.hint() == plan::kShortHint;
        if (n_ranks > 0 && error.code() == ErrorCode::mismatch && may_lack_files) {
            error.set_hint((error.hint().empty() ? "" : error.hint() + "; or ") + "the files of " +
                           counted(static_cast<std::size_t>(n_ranks), "rank") +
                           " are here, and none says how many there were: if the run had more, "
                           "copy theirs");
        }
        throw;
    }
}

}  // namespace shardweld::app
