#include "saved_names.hpp"

#include <string>
#include <vector>

#include "models/config_tree.hpp"
#include "models/saved_form.hpp"
#include "plan/bind/written_once.hpp"

#include "saved_type.hpp"

namespace shardweld::app {

namespace {

/// Whether names are to be those of the hub, and tensors without a line are written as they are.
bool is_followed(const PreparedModel& prepared) {
    return prepared.dialect->has_own_names && prepared.choice.names == TensorNames::hub &&
           prepared.training == nullptr && !prepared.recipe->is_form;
}

}  // namespace

bool has_second_names(const PreparedModel& prepared, const catalogue::Catalogue& catalogue) {
    return is_followed(prepared) && prepared.recipe->hub.empty() &&
           !models::SavedModel(prepared.config, known_type(prepared.config))
                .second_names(stored_names_in(catalogue))
                .empty();
}

void follow_saved_form(const PreparedModel& prepared, plan::Binding& binding) {
    const bool has_recipe = !prepared.recipe->hub.empty();
    if (!is_followed(prepared) ||
        (has_recipe && models::ConfigTree(prepared.config).parts().empty())) {
        return;
    }
    const models::SavedModel saved(prepared.config, known_type(prepared.config));
    std::vector<std::string> names;
    for (const plan::Target& target : binding.targets) {
        names.push_back(target.name);
    }
    require_saved_names({prepared.config, *prepared.recipe}, saved, has_recipe, names);
    if (!has_recipe) {
        plan::write_once(saved.second_names(names), binding);
    }
}

}  // namespace shardweld::app
