#include "saved_type.hpp"

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "models/class_name.hpp"
#include "models/config_tree.hpp"
#include "models/reading/generated.hpp"
#include "models/symbols.hpp"
#include "plan/bind/as_stored.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

constexpr const char* kTypeField = "model_type";

bool is_type_known(const std::string& type) {
    return models::saving_types().contains(type);
}

/// "HYV4 (model_type hy_v4)".
std::string family_text(const models::Config& config) {
    const auto classes = config.architectures();
    const std::string type = "model_type " + printable(known_type(config));
    return classes.empty()
               ? type
               : printable(models::family_of_class(classes.front())) + " (" + type + ")";
}

/// Types in config.json that transformers does not know.
std::vector<std::string> unknown_types(const models::Config& config) {
    const models::ConfigTree tree(config);
    std::vector<std::string> paths = {kTypeField};
    for (const std::string& part : tree.parts()) {
        paths.push_back(part + "." + kTypeField);
    }
    std::vector<std::string> unknown;
    for (const std::string& path : paths) {
        if (const auto type = tree.text(path); type && !is_type_known(*type)) {
            unknown.push_back(*type);
        }
    }
    return unknown;
}

/// The first two numbers of the first text behind its last blank: "5.24" of "transformers 5.24.0".
std::vector<Index> release_of(std::string_view text) {
    std::vector<Index> numbers;
    for (const std::string_view part : split(text.substr(text.rfind(' ') + 1), '.')) {
        const auto number = parse_index(part);
        if (!number || numbers.size() == 2) {
            break;
        }
        numbers.push_back(*number);
    }
    return numbers;
}

bool is_newer(std::string_view version, std::string_view than) {
    return release_of(version) > release_of(than);
}

/// What to do about a type whose saved names are not proved.
std::string recipe_hint(const std::string& type) {
    return "`shardweld recipes generate " + printable(type) +
           "` makes a recipe of the transformers that is installed, and proves it: give that one, "
           "or your own, with --recipe; merge --names module keeps the tensors as they are stored";
}

bool has_recipe(const models::RecipeLibrary& library, models::Config config,
                const std::string& type) {
    config.set(kTypeField, "\"" + type + "\"");
    try {
        (void)models::recipe_for(library, config);
        return true;
    } catch (const Error&) {
        return false;
    }
}

}  // namespace

std::string known_type(const models::Config& config) {
    if (std::string type = config.text(kTypeField).value_or(""); is_type_known(type)) {
        return type;
    }
    for (const std::string& name : config.architectures()) {
        if (std::string type = models::type_of_saved_class(name); !type.empty()) {
            return type;
        }
    }
    return "";
}

std::vector<std::string> stored_names_in(const catalogue::Catalogue& catalogue) {
    return collect_list(catalogue::distinct_names(catalogue),
                        [](const std::string* name) { return *name; });
}

void require_saved_names(const models::Config& config, const models::Recipe& recipe,
                         const models::SavedModel& saved, bool has_recipe,
                         const std::vector<std::string>& names) {
    auto renamed = collect_list<std::string>(names, std::identity(), [&](const std::string& name) {
        return plan::passes_unlisted(recipe, name) && saved.is_renamed(name, has_recipe);
    });
    if (renamed.empty()) {
        return;
    }
    const std::string family = family_text(config);
    throw Error(
        ErrorCode::unsupported,
        config.origin() + ": this is " +
            (has_recipe
                 ? "a model with a part that has no recipe, " + family
                 : family + (recipe.match == nullptr
                                 ? ", which has no recipe"
                                 : ", whose recipe is not for this class, or a part of it")) +
            ", and " + models::saving_library() + " saves " + counted(renamed.size(), "tensor") +
            " under other names or in other shapes than the checkpoint has: " + listed(renamed),
        "engines look for the saved ones: give a recipe with --recipe, or --names module "
        "to write the tensors as they are stored");
}

void judge_unknown_types(const models::Config& config, bool has_saved_names, Warnings& warnings) {
    const auto unknown = unknown_types(config);
    if (unknown.empty()) {
        return;
    }
    const std::string what =
        models::saving_library() + " does not know the model_type " + listed(unknown);
    // What it saves itself says its version; other code has other versions, or none.
    const auto version = config.text("transformers_version").value_or("");
    if (has_saved_names && config.keys("auto_map").empty() &&
        is_newer(version, models::saving_library())) {
        throw Error(ErrorCode::unsupported,
                    config.origin() + ": " + what + ", but transformers " + printable(version) +
                        ", which wrote it, may, and save tensors under other names",
                    recipe_hint(unknown.front()));
    }
    warnings.push_back(
        {"names_unchecked", "",
         what + ": whether its own code saves tensors under other names or in other shapes is "
                "not known; compare them with those of a released model"});
}

bool accept_without_recipe(const models::RecipeLibrary& library, const Error& no_recipe,
                           const catalogue::Catalogue& catalogue, const models::Config& config,
                           const models::Recipe& recipe, bool has_saved_names, Warnings& warnings) {
    const std::string type = known_type(config);
    if (no_recipe.code() != ErrorCode::unsupported) {
        if (no_recipe.code() == ErrorCode::mismatch && has_saved_names && !type.empty() &&
            !has_recipe(library, config, type)) {
            require_saved_names(config, recipe, models::SavedModel(config, type), false,
                                stored_names_in(catalogue));
        }
        return false;
    }
    if (has_saved_names && !models::refusal_of(type).empty()) {
        throw Error(no_recipe.code(), no_recipe.what(), recipe_hint(type));
    }
    warnings.push_back({"family_unknown", "",
                        std::string(no_recipe.what()) +
                            ": tensors keep the names and forms they are stored in: "
                            "--names module says that this is meant"});
    judge_unknown_types(config, has_saved_names, warnings);
    return true;
}

}  // namespace shardweld::app
