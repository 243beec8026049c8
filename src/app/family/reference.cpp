#include "reference.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/weight_map.hpp"
#include "formats/containers/safetensors_header.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "models/pattern.hpp"
#include "plan/binding.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kModelName = "model.safetensors";

using Shape = std::optional<std::vector<Index>>;

void add_header(const fs::path& path, Reference& reference) {
    for (const auto& [name, tensor] : formats::read_safetensors_header(io::InputFile::open(path))) {
        reference.shapes[models::digits_hidden(name)] = tensor.shape;
    }
}

/// Headers of files that hold a tensor of a kind whose shape no earlier one told.
void add_shapes(const fs::path& directory, const WeightMap& index, Reference& reference) {
    std::set<Index> opened;
    for (const auto& [name, file] : index.file_of) {
        if (!reference.shapes[models::digits_hidden(name)].empty() || !opened.insert(file).second) {
            continue;
        }
        try {
            add_header(directory / index.file(file), reference);
        } catch (const Error&) {  // not copied, or a pointer to it: the name is known all the same
        }
    }
}

/// The layout's extents; nullopt where they are not the same in all layers.
Shape extents_of(const models::Line& line, const models::Symbols& symbols) {
    try {
        return layout::BoundLayout::bind(
                   line.layout, [&](const std::string& axis) { return symbols.value(axis); })
            .shape();
    } catch (const Error&) {
        return std::nullopt;
    }
}

Shape stored_shape(const catalogue::Catalogue& catalogue, const models::Recipe& recipe,
                   const std::string& hidden) {
    const auto is_it = [&](const auto& one) {
        return models::digits_hidden(plan::renamed(recipe, one.name)) == hidden;
    };
    const auto tensor = std::ranges::find_if(catalogue.tensors, is_it);
    if (tensor != catalogue.tensors.end()) {
        return tensor->shape;
    }
    return std::nullopt;
}

/// Writes a logical tensor by its module lines, which keep what its hub lines say of it.
void write_by_module_lines(const Reference& reference, const std::string& logical,
                           models::Recipe& recipe) {
    const auto is_of = [&](const models::Line& line) { return line.logical == logical; };
    const auto is_known = [&](const models::Line& line) {
        return is_of(line) &&
               reference.has(spelled_name(reference, recipe, models::digits_hidden(line.name)));
    };
    const auto first = std::ranges::find_if(recipe.hub, is_of);
    if (first == recipe.hub.end() || std::ranges::any_of(recipe.hub, is_known) ||
        std::ranges::none_of(recipe.module, is_known)) {
        return;
    }
    const models::Line of_hub = *first;
    std::erase_if(recipe.hub, is_of);
    for (const models::Line& line : recipe.module) {
        if (is_known(line)) {
            recipe.hub.push_back(line);
            recipe.hub.back().keep = of_hub.keep;
            recipe.hub.back().optional = of_hub.optional;
            recipe.hub.back().together = of_hub.together;
        }
    }
}

/// The module line of the same name and another order of dims.
const models::Line* twin_of(const models::Line& line, const models::Recipe& recipe) {
    const auto twin = std::ranges::find_if(recipe.module, [&](const models::Line& other) {
        return other.name.text == line.name.text && other.layout.text != line.layout.text;
    });
    return twin == recipe.module.end() ? nullptr : &*twin;
}

void settle_order(const Reference& reference, const catalogue::Catalogue& catalogue,
                  models::Line& line, Spelled& known, const models::Symbols& symbols) {
    const models::Line* const twin = twin_of(line, known.recipe);
    const Shape of_hub = twin == nullptr ? std::nullopt : extents_of(line, symbols);
    const Shape of_twin = twin == nullptr ? std::nullopt : extents_of(*twin, symbols);
    if (!of_hub || !of_twin) {
        return;
    }
    const std::string hidden = models::digits_hidden(line.name);
    const bool is_tree = known.dialect.has_own_names;
    const Shape stored = is_tree ? stored_shape(catalogue, known.recipe, hidden) : std::nullopt;
    const layout::Layout in_store =
        stored == of_hub && of_hub != of_twin ? line.layout : twin->layout;
    for (models::Line& one : known.dialect.store) {
        if (is_tree && one.name.text == line.name.text) {
            one.layout = in_store;
        }
    }
    const auto told = reference.shapes.find(hidden);
    const bool is_told = told != reference.shapes.end() && !told->second.empty() &&
                         of_hub != of_twin && (told->second == *of_hub || told->second == *of_twin);
    if (is_told) {
        line.layout = told->second == *of_hub ? line.layout : twin->layout;
    } else if (is_tree) {
        line.layout = in_store;
    }
}

}  // namespace

Reference read_reference(const fs::path& directory) {
    Reference reference;
    try {
        if (io::is_file(directory / kIndexName)) {
            const fs::path path = directory / kIndexName;
            const WeightMap index =
                parse_weight_map(io::read_text(path, kLongestWeightMap), path.string());
            add_shapes(directory, index, reference);
        } else if (io::is_file(directory / kModelName)) {
            add_header(directory / kModelName, reference);
        }
    } catch (const Error&) {  // only config.json and the tokenizer are asked for there
        reference.shapes.clear();
    }
    return reference;
}

Spelled spelled_as(const Reference& reference, const catalogue::Catalogue& catalogue, Spelled known,
                   const models::Symbols& symbols) {
    for (models::Line& line : known.recipe.hub) {
        settle_order(reference, catalogue, line, known, symbols);
    }
    std::set<std::string> logicals;
    for (const models::Line& line : known.recipe.module) {
        logicals.insert(line.logical);
    }
    for (const std::string& logical : logicals) {
        write_by_module_lines(reference, logical, known.recipe);
    }
    return known;
}

std::string spelled_name(const Reference& reference, const models::Recipe& recipe,
                         const std::string& name) {
    if (reference.has(models::digits_hidden(name))) {
        return name;
    }
    const auto with = [&](const std::string& from, const std::string& to) -> std::string {
        const std::string other = name.starts_with(from) ? to + name.substr(from.size()) : "";
        return reference.has(models::digits_hidden(other)) ? other : "";
    };
    for (const auto* rules : {&recipe.renames, &recipe.eithers}) {
        for (const models::RenameRule& rule : *rules) {
            const std::string there = with(rule.to, rule.from);
            const std::string back = rules == &recipe.eithers ? with(rule.from, rule.to) : "";
            if (!there.empty() || !back.empty()) {
                return there.empty() ? back : there;
            }
        }
    }
    return name;
}

}  // namespace shardweld::app
