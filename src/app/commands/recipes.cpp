// `shardweld recipes`: the model families that are known.

#include <algorithm>
#include <array>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/family/shown_names.hpp"
#include "app/messages/table.hpp"
#include "app/report/report_json.hpp"
#include "app/settings/nearest.hpp"
#include "core/text.hpp"
#include "io/whole_file.hpp"
#include "models/expr.hpp"
#include "models/forms/saved_form.hpp"
#include "models/forms/training_form.hpp"
#include "models/forms/written_form.hpp"
#include "models/reading/generated.hpp"
#include "models/recipe.hpp"
#include "models/verification.hpp"
#include "shardweld/error.hpp"

#include "commands.hpp"
#include "evaluated_recipe.hpp"

namespace shardweld::app {

namespace {

models::RecipeLibrary load(const Job& job) {
    if (!job.model.recipe) {
        return models::RecipeLibrary::load();
    }
    return models::RecipeLibrary::load({{job.model.recipe->filename().string(),
                                         io::read_text(*job.model.recipe, models::kMaxRecipe)}});
}

/// Lines of at most `width` letters, broken at commas.
std::vector<std::string> broken(const std::string& text, std::size_t width) {
    std::vector<std::string> lines{""};
    for (const std::string_view part : split(text, ',')) {
        if (lines.back().size() + part.size() + 1 > width) {
            lines.emplace_back();
        }
        lines.back() += lines.back().empty() ? std::string(trim(part)) : "," + std::string(part);
    }
    return lines;
}

/// The model types that a recipe is for, "llama, mistral"; any other condition as it stands.
std::vector<std::string> types_of(const models::Recipe& recipe) {
    constexpr std::string_view kTypes = "@model_type = ";
    constexpr std::size_t kTypesWidth = 28;
    std::string text = recipe.match == nullptr ? "" : recipe.match->text;
    if (text.starts_with(kTypes)) {
        text.erase(std::min(text.find(" and "), text.size()));  // and what tells two of one type
        text = replaced(replaced(text.substr(kTypes.size()), " |", ","), "\"", "");
    }
    return broken(text, kTypesWidth);
}

constexpr const char* kMegatron = "megatron_core";

/// Which formats a column stands for: those whose names begin so; "" for all that no other one has.
constexpr std::array<std::string_view, 4> kColumns = {"megatron", "verl fsdp", "torch dcp", ""};

bool is_in(std::string_view column, const models::Verification& one) {
    return one.level == models::Verified::files &&
           column == *std::ranges::find_if(kColumns, [&](std::string_view begins) {
               return one.format.starts_with(begins);
           });
}

/// How many files checked the recipe; "names" where names and shapes did.
std::string cell(const models::RecipeLibrary& library, const models::Recipe& recipe,
                 std::string_view column) {
    const auto all = models::verifications_of(recipe);
    std::size_t n_files = 0;
    bool has_names = false;
    for (const models::Verification& one : all) {
        n_files += is_in(column, one) ? one.by.size() : 0;
        has_names = has_names || one.level == models::Verified::names;
    }
    if (n_files > 0) {
        return std::to_string(n_files);
    }
    if (column != kColumns.front()) {
        return has_names ? "names" : "no";
    }
    return library.can_meet(recipe, *library.find_dialect(kMegatron)) ? "no" : "-";
}

/// Why no model of the family is written as this form of Megatron's; "" where it is.
std::string unwritten(const models::RecipeLibrary& library, const models::Recipe& recipe,
                      bool is_torch_dist) {
    const models::Dialect& dialect = *library.find_dialect(kMegatron);
    try {
        require_shown(library, recipe, dialect);
        models::TrainingNames names;
        names.is_torch_dist = is_torch_dist;
        models::training_form(recipe, dialect, names);
        return "";
    } catch (const Error& error) {
        return error.what();
    }
}

/// Megatron's forms in which reshape writes the family's models.
std::string written_cell(const models::RecipeLibrary& library, const models::Recipe& recipe) {
    const bool is_torch_dist = unwritten(library, recipe, true).empty();
    const bool is_legacy = unwritten(library, recipe, false).empty();
    if (is_torch_dist && is_legacy) {
        return "both";
    }
    if (is_torch_dist || is_legacy) {
        return is_torch_dist ? "torch_dist" : "legacy";
    }
    return library.can_meet(recipe, *library.find_dialect(kMegatron)) ? "like" : "-";
}

/// Whether only other recipes use it (`with`): it matches no config.json.
bool is_part(const models::Recipe& recipe) {
    return recipe.match == nullptr && !(recipe.hub.empty() && recipe.symbols.empty());
}

/// Model types whose recipes were made of transformers itself.
std::string generated_listing() {
    constexpr std::size_t kTypesLine = 98;
    std::vector<std::string> plain;
    std::vector<std::string> others;
    for (const models::TriedType& type : models::tried_types()) {
        if (type.refused.empty()) {
            (type.is_plain ? plain : others).push_back(type.name);
        }
    }
    return "\nmade of " + models::saving_library() +
           " and proved against its save_pretrained, for module trees alone\nrenamed or cut "
           "anew:\n" +
           joined(broken(joined(others, ", "), kTypesLine), ",\n") + "\nsaved as they are:\n" +
           joined(broken(joined(plain, ", "), kTypesLine), ",\n") + "\n";
}

/// Families by formats.
std::string listing(const models::RecipeLibrary& library) {
    Cells cells{
        {"recipe", "model_type in config.json", "Megatron", "FSDP", "DCP", "others", "written"}};
    std::string parts;
    for (const models::Recipe* recipe : library.recipes()) {
        if (is_part(*recipe)) {
            parts += " " + recipe->name;
            continue;
        }
        const std::vector<std::string> types = types_of(*recipe);
        cells.push_back({recipe->name, types.front()});
        for (const std::string_view column : kColumns) {
            cells.back().push_back(cell(library, *recipe, column));
        }
        cells.back().push_back(written_cell(library, *recipe));
        for (std::size_t i = 1; i < types.size(); ++i) {
            cells.push_back({"", types[i]});
        }
    }
    std::string text = table(std::vector<Align>(cells.front().size(), Align::left), cells);
    text +=
        "\n3: compared byte for byte with 3 checkpoints of the real framework; shardweld recipes "
        "NAME\n"
        "names them. names: held against names and shapes of real models. no: read, with a "
        "warning:\n"
        "compare the result. -: Megatron's names are not known. Families without a row keep the "
        "names\n"
        "of FSDP, DCP and HuggingFace. written: reshape writes both of Megatron's forms, one, "
        "none (-),\n"
        "or one that is like an existing checkpoint; shardweld recipes NAME says why.\n"
        "dialects:";
    for (const models::Dialect* dialect : library.dialects()) {
        text +=
            !dialect->written_format.empty() || dialect->name == "gguf" ? "" : " " + dialect->name;
    }
    return text + "\nGGUF: " + joined(models::families_with_form(library, "gguf"), " ") +
           "\nparts of recipes:" + parts + generated_listing();
}

/// The families by name, and the types of config.json that each is for; parts of others left out.
ordered_json listing_json(const models::RecipeLibrary& library) {
    const auto families = collect_list(
        library.recipes(),
        [](const models::Recipe* recipe) -> ordered_json {
            return {{"recipe", recipe->name}, {"model_type", joined(types_of(*recipe), ", ")}};
        },
        [](const models::Recipe* recipe) { return !is_part(*recipe); });
    return {{"schema", 1}, {"ok", true}, {"families", families}};
}

/// As comments behind a recipe: what it was checked against, and which forms it is not written in.
std::string comments_of(const models::RecipeLibrary& library, const models::Recipe& recipe) {
    std::string text;
    for (const models::Verification& one : models::verifications_of(recipe)) {
        if (!one.format.empty()) {
            text += "# Checked against " + one.format + ": " + joined(one.by, ", ") + "\n";
        }
    }
    for (const bool is_torch_dist : {true, false}) {
        const std::string why = is_part(recipe) ? "" : unwritten(library, recipe, is_torch_dist);
        text += why.empty() ? ""
                            : std::string("# Not written as Megatron's ") +
                                  (is_torch_dist ? "torch_dist: " : "legacy files: ") + why + "\n";
    }
    return text;
}

std::string json_of_text(const std::string& text) {
    return json_text({{"schema", 1}, {"ok", true}, {"text", text}});
}

[[noreturn]] void refuse_name(const models::RecipeLibrary& library, const std::string& name) {
    std::vector<std::string> known =
        collect_list(library.recipes(), [](const models::Recipe* recipe) { return recipe->name; });
    const std::string meant = suggestion(name, known);
    const std::string list = "shardweld recipes lists them";
    const std::string why = models::refusal_of(name);
    throw Error(
        why.empty() ? ErrorCode::usage : ErrorCode::unsupported,
        "there is no recipe or dialect " + printable(name) +
            (why.empty() ? ""
                         : ", and none could be made of " + models::saving_library() + ": " + why),
        meant.empty() ? list : meant + " (" + list + ")");
}

}  // namespace

int recipes(const Job& job, std::ostream& out) {
    const models::RecipeLibrary library = load(job);
    if (job.topic == "all" && job.model.config) {
        print_families(library, *job.model.config, out);
        return 0;
    }
    const auto is_known = [&](const std::string& name) {
        return job.model.config
                   ? library.find_recipe(name) != nullptr || library.find_generated(name) != nullptr
                   : library.source_of(name) != nullptr;
    };
    if (const auto made = models::generated_source(job.topic);
        made && !job.model.config && !is_known(job.topic)) {
        out << (job.run.json ? json_of_text(made->text) : made->text);
        return 0;
    }
    if (!job.topic.empty() && !is_known(job.topic)) {
        refuse_name(library, job.topic);
    }
    if (job.model.config) {
        print_evaluated_recipe(library, job.topic, *job.model.config, out);
        return 0;
    }
    if (const models::Dialect* const dialect = library.find_dialect(job.topic);
        job.run.json && dialect != nullptr) {
        print_dialect(*dialect, out);
        return 0;
    }
    if (job.topic.empty()) {
        out << (job.run.json ? json_text(listing_json(library)) : listing(library));
        return 0;
    }
    std::string text{library.source_of(job.topic)->text};
    if (const models::Recipe* const recipe = library.find_recipe(job.topic)) {
        text += comments_of(library, *recipe);
    }
    out << (job.run.json ? json_of_text(text) : text);
    return 0;
}

}  // namespace shardweld::app
