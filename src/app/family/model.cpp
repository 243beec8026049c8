#include "model.hpp"

#include "adapters/separate.hpp"
#include "catalogue/catalogue.hpp"
#include "formats/recognise.hpp"

#include "training_form.hpp"
#include "vocabulary.hpp"

namespace shardweld::app {

bool holds_framework_adapter(const catalogue::Catalogue& catalogue) {
    return catalogue.facts.contains(formats::kLoraRank);
}

bool holds_adapter_only(const catalogue::Catalogue& catalogue) {
    return holds_framework_adapter(catalogue) ? catalogue.facts.contains(formats::kLoraOnly)
                                              : adapters::holds_adapter_only(catalogue);
}

bool shares_embeddings(const catalogue::Catalogue& catalogue) {
    auto* const shared = find_value(catalogue.facts, formats::kSharedEmbeddings);
    return shared != nullptr && *shared == 1;
}

bool is_adapter_alone(Lora lora, const catalogue::Catalogue& catalogue) {
    return lora == Lora::split && holds_adapter_only(catalogue) &&
           !holds_framework_adapter(catalogue);
}

JobModel model_choice(const Job& job, const JobOutput& output, bool is_written) {
    JobModel choice = job.model;
    // Where there is no place for an adapter the base is seen, unless it is to be folded.
    choice.lora = choice.lora == Lora::split && !is_written ? Lora::drop : choice.lora;
    choice.output = output;
    choice.has_logical_patches = has_gguf_beside(job);
    choice.is_bound_again = is_bound_again(job);
    choice.has_states = job.inputs.front().state != formats::TakenState::weights;
    return choice;
}

plan::Model HeldModel::model() const {
    return {recipe.get(), dialect.get(), symbols.get(),
            choice.vocab_size ? fields_of_vocabulary() : std::map<std::string, std::string>(),
            training == nullptr ? nullptr : &training->written()};
}

models::Symbols HeldModel::symbols_of(const catalogue::Catalogue& part) const {
    return {*recipe, *dialect, config, known_facts(part, *dialect), given};
}

}  // namespace shardweld::app
