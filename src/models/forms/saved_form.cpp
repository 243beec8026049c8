#include "saved_form.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "core/text.hpp"
#include "models/class_name.hpp"
#include "models/config_tree.hpp"
#include "models/recipe.hpp"

namespace shardweld::models {

namespace {

constexpr std::string_view kTextPart = "text_config";

struct SavedForms {
    std::string library;
    std::map<std::string, SavedForm, std::less<>> by_type;
    std::set<std::string, std::less<>> types;  ///< those without a form, too
};

std::vector<std::string> words_in(std::string_view cell) {
    return collect_list<std::string>(split(cell, ' '), std::identity(),
                                     [](std::string_view word) { return !word.empty(); });
}

/// "type Class | 001 | copy=kept | layers.#.mlp" a line, and "+ type type" of types without a form.
SavedForms parse_forms(std::string_view text) {
    SavedForms all;
    for (const std::string_view line : split(text, '\n')) {
        if (line.starts_with("#")) {
            const std::size_t at = line.rfind("transformers");
            all.library = trim(line.substr(at == std::string_view::npos ? 1 : at));
            continue;
        }
        auto cells = split(line, '|');
        cells.resize(4);
        std::vector<std::string> names = words_in(cells[0]);
        if (names.empty()) {
            continue;
        }
        if (names.front() == "+") {
            all.types.insert(names.begin() + 1, names.end());
            continue;
        }
        SavedForm form;
        form.tied = trim(cells[1]);
        for (const std::string& tie : words_in(cells[2])) {
            const std::size_t at = tie.find('=');
            form.ties.push_back({tie.substr(0, at), tie.substr(at + 1)});
        }
        for (const std::string& run : words_in(cells[3])) {
            form.is_unknown = run == "?";
            if (!form.is_unknown) {
                form.renamed.push_back("." + run + ".");
            }
        }
        std::string type = std::move(names.front());
        names.erase(names.begin());
        form.classes = std::move(names);
        all.types.insert(type);
        all.by_type.emplace(std::move(type), std::move(form));
    }
    return all;
}

const SavedForms& saved_forms() {
    static const SavedForms all = parse_forms(built_in_text(kSavedList));
    return all;
}

/// What the part of config.json says of tied tensors; nullopt: nothing.
std::optional<bool> stated_tie(const ConfigTree& config, const std::string& prefix) {
    const auto own = config.flag(prefix + "tie_embedding");  // of some families, where it is there
    return own ? own : config.flag(prefix + kTiedField);
}

/// `prefix`: "" or the part's path with a dot.
bool is_tied(const ConfigTree& config, const SavedForm& form, const std::string& prefix) {
    const auto stated = stated_tie(config, prefix);
    if (form.tied.empty() || !stated.value_or(true)) {
        return false;  // also of families that are always tied: their heads may be trained apart
    }
    std::size_t at = stated ? 2 : 0;
    if (form.tied.size() > 3) {
        const std::string text = prefix + std::string(kTextPart) + ".";
        const SavedForm* const inner = saved_form_of(config.text(text + "model_type").value_or(""));
        const bool ties = inner != nullptr && inner->tied.size() == 3
                              ? is_tied(config, *inner, text)
                              : stated_tie(config, text).value_or(false);
        at += ties ? 3 : 0;
    }
    return form.tied[at] == '1';
}

/// ".^.model.layers.#.mlp.weight.$." of "model.layers.3.mlp.weight".
std::string with_ends(std::string_view name) {
    std::string text = ".^.";
    for (const std::string_view part : split(name, '.')) {
        text.append(!part.empty() && std::ranges::all_of(part, is_digit) ? "#" : part).append(".");
    }
    return text + "$.";
}

/// A part of a name has no beginning of a whole name.
bool is_of_use(const std::string& run, bool is_inside) {
    return !(is_inside && run.starts_with(".^."));
}

bool holds_one(const SavedForm& form, const std::string& ended, bool is_inside) {
    return std::ranges::any_of(form.renamed, [&](const std::string& run) {
        return is_of_use(run, is_inside) && has_part(ended, run);
    });
}

/// The other name that the tie gives a tensor, whose own begins behind `skipped` bytes.
std::optional<std::string> kept_name(const SavedForm::TiedNames& tie, const std::string& name,
                                     std::size_t skipped) {
    const std::string_view own = std::string_view(name).substr(skipped);
    const bool is_module = tie.copy.ends_with('.');
    if (is_module ? !own.starts_with(tie.copy) : own != tie.copy) {
        return std::nullopt;
    }
    return name.substr(0, skipped) + tie.kept +
           std::string(is_module ? own.substr(tie.copy.size()) : "");
}

}  // namespace

const std::string& saving_library() {
    return saved_forms().library;
}

const std::set<std::string, std::less<>>& saving_types() {
    return saved_forms().types;
}

const SavedForm* saved_form_of(std::string_view model_type) {
    return find_value(saved_forms().by_type, model_type);
}

std::string type_of_saved_class(std::string_view class_name) {
    const std::string family = squeezed(family_of_class(class_name));
    for (const auto& [type, form] : saved_forms().by_type) {
        const std::string own = squeezed(type);
        if (own == family || own == family + "text" || contains(form.classes, class_name)) {
            return type;
        }
    }
    return "";
}

SavedModel::SavedModel(const Config& config, const std::string& type) {
    static const SavedForm unknown{
        {}, "001", {{"lm_head.weight", "model.embed_tokens.weight"}}, {}};
    const ConfigTree tree(config);
    if (const SavedForm* const own = type.empty() ? &unknown : saved_form_of(type)) {
        parts_.push_back({own, false, !type.empty(), is_tied(tree, *own, "")});
    }
    for (const std::string& path : tree.parts()) {
        const auto inner = tree.text(path + ".model_type");
        if (const SavedForm* const form = saved_form_of(inner.value_or(""))) {
            parts_.push_back({form, true, false, is_tied(tree, *form, path + ".")});
        }
    }
}

bool SavedModel::is_renamed(std::string_view name, bool is_own_known) const {
    const std::string ended = parts_.empty() ? "" : with_ends(name);
    return std::ranges::any_of(parts_, [&](const FormPart& part) {
        return (part.is_inside || !is_own_known) && holds_one(*part.form, ended, part.is_inside);
    });
}

std::vector<std::string> SavedModel::renamed_parts() const {
    std::vector<std::string> runs;
    for (const FormPart& part : parts_) {
        append_all(runs, filter_list(part.form->renamed, [&](const auto& run) {
                       return is_of_use(run, part.is_inside);
                   }));
    }
    return runs;
}

std::map<std::string, std::string> SavedModel::second_names(
    const std::vector<std::string>& names) const {
    const std::set<std::string> there(names.begin(), names.end());
    std::map<std::string, std::string> second;
    std::map<std::string, std::set<std::string>> alone;
    const auto look = [&](const FormPart& part, const std::string& name, std::size_t skipped) {
        for (const SavedForm::TiedNames& tie : part.form->ties) {
            const auto kept = kept_name(tie, name, skipped);
            if (kept && there.contains(*kept)) {
                second.emplace(name, *kept);
            } else if (kept && skipped == 0 && part.is_sure) {
                alone[name].insert(*kept);
            }
        }
    };
    for (const FormPart& part : parts_) {
        for (auto name = there.begin(); part.is_tied && name != there.end(); ++name) {
            std::size_t at = 0;
            do {
                look(part, *name, at);
                at = name->find('.', at) + 1;
            } while (at != 0);
        }
    }
    for (const auto& [name, kept] : alone) {
        if (!second.contains(name) && kept.size() == 1) {
            second.emplace(name, *kept.begin());
        }
    }
    // A name may be the second one of a tensor that has a third.
    for (auto& [name, kept] : second) {
        for (std::size_t i = 0; i < second.size() && second.contains(kept); ++i) {
            kept = second.at(kept);
        }
    }
    std::erase_if(second, [](const auto& pair) { return pair.first == pair.second; });
    return second;
}

}  // namespace shardweld::models
