// Tensors that no line of a recipe stands for: towers, which recipes let pass, and models that no
// recipe knows. It is known which tensors all layers of a stack have, how many layers config.json
// counts, and which tensors a family is never without. Sources: transformers 5.24, run on models of
// each family without each of their tensors.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/config_fields.hpp"
#include "core/text.hpp"

#include "known_names.hpp"
#include "names.hpp"
#include "rule.hpp"

namespace shardweld::loaders {

namespace {

using nlohmann::json;
using Parts = std::set<std::string>;
using Layers = std::map<Index, Parts>;

/// A tensor of a layer: "tower.layers.", 3 and "norm.weight".
struct Spot {
    std::string stack;
    Index number = 0;
    std::string part;
};

/// nullopt for a name of no stack, or of one whose layers have numbered parts of their own.
std::optional<Spot> spot_of(const std::string& name) {
    constexpr std::string_view kStacks =
        "layers layer blocks block h resblocks conformer merger_list deepstack_merger_list";
    const auto words = split(name, '.');
    std::size_t length = 0;
    for (std::size_t i = 0; i + 2 < words.size(); ++i) {
        length += words[i].size() + 1;
        const auto number = parse_index(words[i + 1]);
        if (number && is_one_of(kStacks, words[i])) {
            return parse_index(words[i + 2])
                       ? std::nullopt
                       : std::optional(Spot{name.substr(0, length), *number,
                                            name.substr(length + words[i + 1].size() + 1)});
        }
    }
    return std::nullopt;
}

/// The name of the weight that a tensor is a part of, however it is encoded; "" for what stands
/// beside weights, and for what only some layers have.
std::string weight_of(const ModelUnderCheck& model, const std::string& name) {
    if (predicts_further_tokens(name) || is_computed(name) ||
        name.ends_with("relative_attention_bias.weight")) {
        return "";
    }
    if (!is_part_of_codes(name)) {
        return name;
    }
    const std::string module = name.substr(0, name.rfind('.'));
    return model.modules.contains(module) ? module + ".weight" : "";
}

std::map<std::string, Layers> stacks_of(const ModelUnderCheck& model, const Places& places) {
    std::map<std::string, Layers> stacks;
    for (const auto& [name, tensor] : model.weights.tensors) {
        const std::string weight = places.known().contains(name) ? "" : weight_of(model, name);
        if (const auto spot = spot_of(weight)) {
            stacks[spot->stack][spot->number].insert(spot->part);
        }
    }
    return stacks;
}

bool is_of_tower(std::string_view name) {
    return std::ranges::any_of(kTowers,
                               [&](const Tower& tower) { return belongs_to(tower, name); });
}

/// What a layer lacks of what enough others have that have all of its own: half of them in a tower,
/// whose layers are of one kind, more than that where nothing is known.
void add_lacking(const std::string& stack, const Layers& layers, std::vector<std::string>& out) {
    std::map<Parts, std::size_t> kinds;
    for (const auto& [number, parts] : layers) {
        ++kinds[parts];
    }
    std::erase_if(kinds, [&](const auto& kind) {
        return is_of_tower(stack) ? 2 * kind.second < layers.size()
                                  : 2 * kind.second <= layers.size();
    });
    for (const auto& [number, parts] : layers) {
        const auto more = std::ranges::find_if(kinds, [&own = parts](const auto& kind) {
            return kind.first.size() > own.size() && std::ranges::includes(kind.first, own);
        });
        if (more == kinds.end()) {
            continue;
        }
        for (const std::string& part : more->first) {
            if (!parts.contains(part)) {
                out.push_back(stack + std::to_string(number) + "." + part);
            }
        }
    }
}

/// What stands beside a part of a layer in every tower that has it, by the last words of names.
/// Where `is_biased`, biases stand beside each other likewise.
struct Beside {
    std::string_view part;
    std::vector<std::string_view> others;  ///< '|' between alternatives
    bool is_biased = false;
};

const std::vector<Beside>& companies() {
    static const std::vector<Beside> all = {
        {"q_proj", {"k_proj", "v_proj"}},
        {"self_attn.q_proj", {"self_attn.o_proj|self_attn.out_proj"}},
        {"k_proj", {"q_proj"}},
        {"v_proj", {"q_proj"}},
        {"proj", {"qkv|q_proj|q"}},
        {"qkv", {"proj"}},
        {"wqkv", {"wo"}},
        {"wo", {"wqkv"}},
        {"gate_proj", {"up_proj", "down_proj"}},
        {"up_proj", {"down_proj"}},
        {"down_proj", {"up_proj"}},
        {"fc1", {"fc0|fc2"}, true},
        {"fc2", {"fc1"}, true},
        {"norm1", {"norm0|norm2"}, true},
        {"norm2", {"norm1"}, true},
        {"layer_norm1", {"layer_norm2"}, true},
        {"layer_norm2", {"layer_norm1"}, true},
        {"layernorm_before", {"layernorm_after"}, true},
        {"layernorm_after", {"layernorm_before"}, true},
        {"self_attn_layer_norm", {"final_layer_norm"}, true},
        {"final_layer_norm", {"self_attn_layer_norm"}, true},
        {"input_layernorm", {"post_attention_layernorm"}, true},
        {"post_attention_layernorm", {"input_layernorm"}, true},
        {"attention_norm", {"ffn_norm"}, true},
        {"ffn_norm", {"attention_norm"}, true},
    };
    return all;
}

/// What stands in front of a part and behind it in a name.
using Ends = std::pair<std::string, std::string>;

/// Those of `part` in the name of a weight, or of a bias; nullopt for other names.
std::optional<Ends> around(const std::string& name, const Beside& company) {
    for (const std::string end : {".weight", ".bias"}) {
        const std::string whole = std::string(company.part) + end;
        const bool is_meant = name == whole || name.ends_with("." + whole);
        if (is_meant && (company.is_biased || end == ".weight")) {
            return std::pair(name.substr(0, name.size() - whole.size()), end);
        }
    }
    return std::nullopt;
}

/// Adds what stands beside a part with these ends in every tower, but is not among `parts`.
void add_absent(const Beside& company, const Ends& ends, const std::string& stack,
                const Parts& parts, std::vector<std::string>& out) {
    const auto named = [&](std::string_view word) {
        return ends.first + std::string(word) + ends.second;
    };
    for (const std::string_view other : company.others) {
        const auto words = split(other, '|');
        if (std::ranges::none_of(words, [&](auto word) { return parts.contains(named(word)); })) {
            out.push_back(stack + "*." + named(words.front()));
        }
    }
}

/// Adds parts that no layer of a tower has, though it has others that stand beside such a part in
/// every tower.
void add_without_company(const std::string& stack, const Parts& parts,
                         std::vector<std::string>& out) {
    for (const std::string& name : parts) {
        for (const Beside& company : companies()) {
            if (const auto ends = around(name, company)) {
                add_absent(company, *ends, stack, parts, out);
            }
        }
    }
}

/// A tower's settings; null where config.json has none.
json settings_of(const ModelUnderCheck& model, const Tower& tower) {
    const std::string field(tower.field);
    const json own = model.field(field.c_str());
    return own.is_null() ? value_in(value_in(model.config, "thinker_config"), field.c_str()) : own;
}

/// How many layers a tower has by its settings: the fewest that one of the fields says.
std::optional<Index> layers_in(const json& settings) {
    std::optional<Index> fewest;
    for (const char* field : {"depth", "num_hidden_layers", "encoder_layers", "num_layers",
                              "n_layers", "layers", "vt_num_hidden_layers"}) {
        const json value = value_in(settings, field);
        if (value.is_number_integer()) {
            fewest = std::min(fewest.value_or(value.get<Index>()), value.get<Index>());
        }
    }
    return fewest;
}

/// The layers of a tower's largest stack.
std::pair<std::string, Index> largest_stack(const ModelUnderCheck& model, const Tower& tower) {
    std::map<std::string, std::set<Index>> stacks;
    for (const auto& [name, tensor] : model.weights.tensors) {
        const auto spot = spot_of(name);
        if (spot && belongs_to(tower, spot->stack)) {
            stacks[spot->stack].insert(spot->number);
        }
    }
    std::pair<std::string, Index> largest;
    for (const auto& [stack, numbers] : stacks) {
        if (const Index count = *numbers.rbegin() + 1; count > largest.second) {
            largest = {stack, count};
        }
    }
    return largest;
}

/// A tower that config.json describes is there, with all of its layers.
void look_at_tower(const ModelUnderCheck& model, const Tower& tower, Findings& findings) {
    const json settings = settings_of(model, tower);
    if (!settings.is_object() || settings.empty()) {
        return;
    }
    const bool is_there = std::ranges::any_of(
        model.weights.tensors, [&](const auto& entry) { return belongs_to(tower, entry.first); });
    if (!is_there) {
        findings.fatal("config.json has a " + std::string(tower.field) +
                           ", but no tensor of such a tower is stored",
                       "it would be random: copy it from the model that was trained, or use the "
                       "config.json of the text model");
        return;
    }
    const auto [stack, count] = largest_stack(model, tower);
    if (const auto stated = layers_in(settings); stated && count > 0 && *stated > count) {
        findings.fatal("config.json counts " + std::to_string(*stated) + " layers of the " +
                           std::string(tower.name) + ", " + std::to_string(count) +
                           " are stored (" + printable(stack) + "*)",
                       "the others would be random: merge again, or copy all files");
    }
}

/// Whether the family has a tensor that ends so, which some checkpoints lack, but no model.
bool is_of_family(const ModelUnderCheck& model, const std::vector<std::string_view>& endings) {
    return std::ranges::any_of(model.directory.expected, [&](const auto& entry) {
        return std::ranges::any_of(endings, [&](std::string_view ending) {
            return entry.first == ending || entry.first.ends_with("." + std::string(ending));
        });
    });
}

/// Ends of names, of which one of each entry is there ("merger.norm.weight|merger.ln_q.weight"):
/// of towers where there is one, and of what the family has.
std::vector<std::string> needed_but_absent(const ModelUnderCheck& model, bool has_towers) {
    std::vector<std::string> absent;
    for (const std::string& entry : model.directory.needs) {
        const std::vector<std::string_view> endings = split(entry, '|');
        if (!has_towers && !is_of_family(model, endings)) {
            continue;
        }
        const bool is_there = model.ending_in(endings) != nullptr ||
                              std::ranges::any_of(endings, [&](std::string_view ending) {
                                  const auto stem = ending.substr(0, ending.rfind('.'));
                                  return std::ranges::any_of(model.modules, [&](const auto& one) {
                                      return one.first.ends_with("." + std::string(stem)) &&
                                             one.second.is_quantised();
                                  });
                              });
        if (!is_there) {
            absent.push_back(entry);
        }
    }
    return absent;
}

bool has_passing(const ModelUnderCheck& model) {
    return std::ranges::any_of(model.weights.tensors, [&](const auto& entry) {
        return is_of_tower(entry.first) &&
               std::ranges::any_of(model.directory.passes, [&](const std::string& glob) {
                   // Classes without a head have no `model.` in front.
                   return glob_matches(glob, entry.first) ||
                          glob_matches(glob, "model." + entry.first);
               });
    });
}

/// Classes of text models load no tower, whatever config.json describes.
bool loads_towers(const ModelUnderCheck& model) {
    return !model.architecture().ends_with("ForCausalLM");
}

void look_at_parts(const ModelUnderCheck& model, Findings& findings) {
    if (!model.weights.is_whole || model.weights.tensors.empty()) {
        return;
    }
    std::vector<std::string> missing;
    for (const auto& [stack, layers] : stacks_of(model, Places(model))) {
        if (!is_of_tower(stack) || loads_towers(model)) {
            add_lacking(stack, layers, missing);
            if (is_of_tower(stack)) {
                add_without_company(stack, layers.begin()->second, missing);
            }
        }
    }
    if (loads_towers(model)) {
        for (const Tower& tower : kTowers) {
            look_at_tower(model, tower, findings);
        }
    }
    std::ranges::move(needed_but_absent(model, loads_towers(model) && has_passing(model)),
                      std::back_inserter(missing));
    findings.fatal_for(missing, "tensors are missing that models of this kind have: ",
                       "they would be random: merge again, or copy all files");
}

void look_at_limits(const ModelUnderCheck& model, Findings& findings) {
    const Directory& directory = model.directory;
    if (!model.weights.is_whole || model.weights.tensors.empty()) {
        return;
    }
    if (directory.family.empty()) {
        findings.doubtful(
            "no family of this model_type is known here: names and shapes of its "
            "tensors are held against each other only",
            "try it with the loader itself");
    } else if (std::ranges::none_of(directory.expected, [](const auto& entry) {
                   return entry.second.logical.starts_with("layer.");
               })) {
        findings.doubtful("names and shapes of the layers of the family " +
                              printable(directory.family) +
                              " are not checked, but that all have the same",
                          "try it with the loader itself");
    } else if (loads_towers(model) && directory.needs.empty() && has_passing(model)) {
        findings.doubtful("names and shapes of the towers of the family " +
                              printable(directory.family) +
                              " are not checked, but that all layers have the same",
                          "try it with the loader itself");
    }
}

}  // namespace

constexpr auto kPartTable = std::to_array<Rule>({
    {"parts", kHub, look_at_parts,
     "towers that config.json describes are there, with all of their layers and what their "
     "family has outside of them; what checkpoints may lack is there where models have it, "
     "such "
     "as the correction of a router; layers of one stack have the same tensors, in families "
     "that "
     "are not known here, too",
     "transformers 5.24, run: a missing tensor is random, with a report only"},
    {"limits", kHub, look_at_limits, "what of the tensors is not checked is said, a remark only",
     "this program"},
});
const std::span<const Rule> kPartRules = kPartTable;

}  // namespace shardweld::loaders
