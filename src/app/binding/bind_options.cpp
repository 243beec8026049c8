#include "bind_options.hpp"

#include "app/family/training_form.hpp"

namespace shardweld::app {

plan::BindOptions bind_options_of(const HeldModel& prepared) {
    plan::BindOptions bind_options{
        prepared.choice.output.dtype, {}, prepared.choice.has_logical_patches, prepared.kept};
    if (prepared.training != nullptr) {
        bind_options.pieces = prepared.training->pieces();
        bind_options.passing = prepared.training->passing();
        bind_options.has_names_for_all = prepared.training->has_names_for_all();
        if (prepared.training->like() != nullptr) {
            bind_options.unplaced_hint = kOtherTemplate;
        }
    }
    return bind_options;
}

std::function<std::string(const std::string&)> spelling_of(const HeldModel& prepared) {
    if (prepared.files.reference.empty() || prepared.recipe->is_form) {
        return {};
    }
    return [&](const std::string& name) {
        return spelled_name(prepared.files.reference, *prepared.recipe, name);
    };
}

}  // namespace shardweld::app
