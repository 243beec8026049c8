// A family's model in the names, forms and metadata of a program that has its own: a dialect that
// is written (`writes`).
#pragma once

#include <string_view>
#include <vector>

#include "core/metadata.hpp"
#include "models/config.hpp"
#include "models/recipe.hpp"
#include "models/symbols.hpp"

namespace shardweld::models {

/// The dialect in which a format holds models of this family; null when there is none.
const Dialect* form_for(const RecipeLibrary& library, const Recipe& recipe,
                        std::string_view format);

/// The families that have one, sorted.
std::vector<std::string> families_with_form(const RecipeLibrary& library, std::string_view format);

/// A recipe and the dialect of a checkpoint, for writing in another form.
struct WrittenForm {
    Recipe recipe;    ///< its hub lines are the form's
    Dialect dialect;  ///< with the axes and defaults that they need
};
WrittenForm written_form(const Recipe& recipe, const Dialect& stored, const Dialect& form);

/// The form's keys with this model's values, in order; names without "general." get the
/// architecture in front. Error(mismatch) naming a key whose fields config.json lacks.
Metadata metadata_of(const Dialect& form, const Symbols& symbols, const Config& config);

/// By which rotary embeddings' frequencies are divided: rope_type llama3 of transformers 5.23, in
/// fp32 as llama.cpp's convert_hf_to_gguf computes them; empty for other types.
std::vector<float> rope_factors(const Symbols& symbols, const Config& config);

}  // namespace shardweld::models
