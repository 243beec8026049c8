#include "saved_names.hpp"

#include <map>
#include <string>
#include <vector>

#include "app/family/saved_type.hpp"
#include "models/config_tree.hpp"
#include "models/forms/saved_form.hpp"
#include "models/name_changes.hpp"
#include "plan/bind/written_once.hpp"

namespace shardweld::app {

namespace {

/// Whether names are to be those of the hub, and tensors without a line are written as they are.
bool is_followed(const HeldModel& prepared) {
    return prepared.dialect->has_own_names && !prepared.choice.has_module_names &&
           prepared.training == nullptr && !prepared.recipe->is_form;
}

/// Which tensors have two names is told in the module tree's.
std::map<std::string, std::string> second_names(const models::SavedModel& saved,
                                                const std::vector<models::RenameRule>& renames,
                                                std::vector<std::string> names) {
    for (std::string& name : names) {
        name = models::renamed_back_by(renames, name, "");
    }
    std::map<std::string, std::string> written;
    for (const auto& [second, first] : saved.second_names(names)) {
        written.emplace(models::renamed_by(renames, second), models::renamed_by(renames, first));
    }
    return written;
}

}  // namespace

bool has_second_names(const HeldModel& prepared, const catalogue::Catalogue& catalogue) {
    return is_followed(prepared) && !models::promises_tensors(*prepared.recipe) &&
           !models::SavedModel(prepared.config, known_type(prepared.config))
                .second_names(stored_names_in(catalogue))
                .empty();
}

void follow_saved_form(const HeldModel& prepared, plan::Binding& binding) {
    const bool has_recipe = models::promises_tensors(*prepared.recipe);
    if (!is_followed(prepared) ||
        (has_recipe && models::ConfigTree(prepared.config).parts().empty())) {
        return;
    }
    const models::SavedModel saved(prepared.config, known_type(prepared.config));
    std::vector<std::string> names = collect_list(binding.targets, plan::full_name);
    require_saved_names(prepared.config, *prepared.recipe, saved, has_recipe, names);
    if (!has_recipe) {
        plan::write_once(second_names(saved, prepared.recipe->renames, names), binding);
    }
}

}  // namespace shardweld::app
