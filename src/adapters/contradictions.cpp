#include "contradictions.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "core/text.hpp"

#include "declared.hpp"
#include "target_modules.hpp"

namespace shardweld::adapters {

namespace {

using nlohmann::ordered_json;
using Texts = std::vector<std::string>;

/// A number, or those of a list.
std::set<Index> numbers_of(const ordered_json& json, const char* field) {
    const auto* const found = stated(json, field);
    if (found == nullptr) {
        return {};
    }
    return collect_set<Index>(
        found->is_array() ? *found : ordered_json::array({*found}),
        [](const ordered_json& entry) { return entry.get<Index>(); },
        &ordered_json::is_number_integer);
}

std::string holder_of(const std::string& tensor) {
    return tensor.substr(0, tensor.rfind('.'));
}

class ContradictionFinder {
  public:
    ContradictionFinder(const ordered_json& declared, const ConfigFile& file,
                        std::span<const Module> modules, const KnownModules& surroundings)
        : declared_(declared), file_(file), modules_(modules), surroundings_(surroundings) {
        plain_ = filter_list(modules, [](const Module& module) { return !module.is_parameter; });
    }

    Texts find_all() {
        type();
        layers();
        targets();
        switches();
        whole_modules();
        saved_tensors();
        for (const char* const field : {"rank_pattern", "alpha_pattern"}) {
            patterns(field);
        }
        return std::move(found_);
    }

  private:
    void add_finding(const std::string& field, const std::string& text) {
        found_.push_back(file_.path + " (" + field + "): " + text);
    }

    [[nodiscard]] bool is_set(const char* field) const {
        const auto* const value = stated(declared_, field);
        return value != nullptr && !value->empty();
    }

    void type() {
        if (declared_.contains("peft_type") && !is_set("peft_type")) {
            add_finding("peft_type",
                        "it does not say which method the adapter is of: read as LoRA");
        }
    }

    void layers() {
        const std::set<Index> wanted = numbers_of(declared_, "layers_to_transform");
        std::set<Index> missing = wanted;
        Texts others;
        for (const Module& module : modules_) {
            const Index layer = layer_of(module.path);
            missing.erase(layer);
            if (!wanted.empty() && !wanted.contains(layer)) {
                others.push_back(module.path);
            }
        }
        if (!others.empty()) {
            add_finding("layers_to_transform",
                        "factors of other layers are stored, too, and are used: " + listed(others));
        }
        if (!missing.empty()) {
            add_finding(
                "layers_to_transform",
                "no factors are stored of " +
                    std::string(missing.size() == 1 ? "layer " : "layers ") +
                    joined(missing, ", ", [](Index layer) { return std::to_string(layer); }));
        }
    }

    void targets() {
        if (is_set("target_modules") && !covers(declared_["target_modules"], plain_)) {
            add_finding(
                "target_modules",
                "not all modules are named of which factors are stored (or by an expression that "
                "cannot be read here): it is written anew from them");
        }
        if (is_set("layers_to_transform") || is_set("exclude_modules")) {
            return;
        }
        std::set<std::string> changed = collect_set(modules_, &Module::path);
        Texts bare;
        for (const std::string& entry : texts_of(declared_, "target_modules")) {
            for (const std::string& path : surroundings_.base_modules) {
                // Experts may be one parameter where the adapter was trained.
                if (names_it(entry, path) && !changed.contains(path) &&
                    !has_part(path, ".experts.")) {
                    bare.push_back(path);
                }
            }
        }
        if (!bare.empty()) {
            add_finding("target_modules", "no factors are stored of " +
                                              counted(bare.size(), "module") +
                                              " that it names: " + listed(bare));
        }
    }

    void switches() {
        one_switch("use_dora", "magnitudes (DoRA)", &Module::magnitude);
        one_switch("lora_bias", "biases of lora_B", &Module::bias);
    }

    void one_switch(const char* field, const char* what, std::optional<std::size_t> Module::*part) {
        const auto* const is_on = stated(declared_, field);
        if (is_on != nullptr && *is_on == false &&
            std::ranges::any_of(modules_,
                                [&](const Module& one) { return (one.*part).has_value(); })) {
            add_finding(field,
                        std::string("it is false, but ") + what + " are stored: they are used");
        }
    }

    /// PEFT names heads of several families where it cannot know which there is.
    void whole_modules() {
        Texts bare;
        bool is_any = false;
        for (const std::string& entry : texts_of(declared_, "modules_to_save")) {
            const auto is_named = [&](const std::string& path) { return names_it(entry, path); };
            const bool is_stored =
                std::ranges::any_of(surroundings_.whole_modules, is_named) ||
                std::ranges::any_of(surroundings_.saved_tensors, [&](const std::string& tensor) {
                    return is_named(holder_of(tensor));
                });
            is_any = is_any || is_stored;
            if (!is_stored && (surroundings_.base_modules.empty() ||
                               std::ranges::any_of(surroundings_.base_modules, is_named))) {
                bare.push_back(entry);
            }
        }
        if (!bare.empty() && !(is_any && surroundings_.base_modules.empty())) {
            add_finding("modules_to_save",
                        "nothing is stored of " + listed(bare) + ": the base's stay as they are");
        }
    }

    /// PEFT loads them whatever the configuration says.
    void saved_tensors() {
        const Texts whole = texts_of(declared_, "modules_to_save");
        const auto* const bias = stated(declared_, "bias");
        const bool has_biases = bias != nullptr && bias->is_string() && *bias != "none";
        Texts strays;
        for (const std::string& tensor : surroundings_.saved_tensors) {
            const std::string module = holder_of(tensor);
            const bool is_expected =
                (has_biases && tensor.ends_with(".bias")) || module.ends_with("embed_tokens") ||
                module.ends_with("lm_head") ||
                std::ranges::any_of(
                    whole, [&](const std::string& entry) { return names_it(entry, module); });
            if (!is_expected) {
                strays.push_back(tensor);
            }
        }
        if (!strays.empty()) {
            add_finding("modules_to_save",
                        "it does not name " + listed(strays) +
                            ", stored beside the factors: the base's are replaced");
        }
    }

    void patterns(const char* field) {
        if (!is_set(field) || !declared_[field].is_object()) {
            return;
        }
        Texts idle;
        for (const auto& [pattern, value] : declared_[field].items()) {
            if (std::ranges::none_of(modules_, [&, &key = pattern](const Module& module) {
                    return matches_end(key, module.path);
                })) {
                idle.push_back(pattern);
            }
        }
        if (!idle.empty()) {
            add_finding(field, "no module with factors is named by " + listed(idle));
        }
    }

    const ordered_json& declared_;
    const ConfigFile& file_;
    std::span<const Module> modules_;
    std::vector<Module> plain_;
    const KnownModules& surroundings_;
    Texts found_;
};

}  // namespace

Texts contradictions(const ordered_json& declared, const ConfigFile& file,
                     std::span<const Module> modules, const KnownModules& surroundings) {
    return file.text.empty()
               ? Texts()
               : ContradictionFinder(declared, file, modules, surroundings).find_all();
}

}  // namespace shardweld::adapters
