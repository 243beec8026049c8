// How save_pretrained of transformers writes what a module tree holds: which names it changes, and
// of which tensors it keeps one name. A list by model type, which scripts/known-saves.py makes of
// transformers itself.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/config.hpp"

namespace shardweld::models {

inline constexpr const char* kTiedField = "tie_word_embeddings";

/// One model type's row. Types that are saved as their module tree has them have none.
struct SavedForm {
    /// Two names of one tensor, or with a dot at the end of all tensors below.
    struct TiedNames {
        std::string copy;
        std::string kept;  ///< the one that is saved
    };
    std::vector<std::string> classes;  ///< that are not called like the type
    /// Whether tensors are tied, '1' or '0': where tie_word_embeddings is absent, false and true;
    /// then the same where text_config ties its own, if that matters.
    std::string tied;
    std::vector<TiedNames> ties;
    /// ".layers.#.mlp.": what is renamed has one of these in its name, and no saved name has.
    std::vector<std::string> renamed;
    bool is_unknown = false;  ///< no class of it could be made, and nothing is known
};

/// "transformers 5.24.0", of which the list is.
const std::string& saving_library();

/// All model types that it knows.
const std::set<std::string, std::less<>>& saving_types();

/// nullptr: it saves models of the type as their module tree has them, or does not know it.
const SavedForm* saved_form_of(std::string_view model_type);

/// The type with a row that a class is called like; "": there is none.
std::string type_of_saved_class(std::string_view class_name);

/// A model's own form and those of the parts that config.json describes.
class SavedModel {
  public:
    /// `type`: the model's own, whatever config.json says; "": one that transformers does not know,
    /// whose head is tied as in most models where config.json says that it is.
    SavedModel(const Config& config, const std::string& type);

    /// Whether save_pretrained gives the tensor another name or cuts it anew: where `is_own_known`,
    /// because it belongs to a part inside of the model.
    [[nodiscard]] bool is_renamed(std::string_view name, bool is_own_known) const;
    /// SavedForm::renamed of the model's own form and of those inside, as far as they are of use.
    [[nodiscard]] std::vector<std::string> renamed_parts() const;
    /// Which of these names are second ones, and of which tensors, as far as config.json ties them.
    /// One that is there without the other has a name that is not there, if that is certain.
    [[nodiscard]] std::map<std::string, std::string> second_names(
        const std::vector<std::string>& names) const;

  private:
    struct FormPart {
        const SavedForm* form;
        bool is_inside;
        bool is_sure;  ///< of the name that is saved, where there is only the other
        bool is_tied;
    };
    std::vector<FormPart> parts_;
};

/// The ending of lists among built_in_sources(), which are no recipes.
inline constexpr std::string_view kListEnding = ".list";
/// The name of the list of what transformers saves.
inline constexpr std::string_view kSavedList = "transformers.list";

}  // namespace shardweld::models
