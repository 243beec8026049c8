// Which names a model is written with for training, held against checkpoints of the real
// frameworks.
#include "models/forms/training_form.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "core/regex.hpp"
#include "core/text.hpp"
#include "formats/format.hpp"
#include "models/forms/kind_stacks.hpp"
#include "models/name_changes.hpp"
#include "models/pattern.hpp"
#include "support/temporary_directory.hpp"

#include "support.hpp"

namespace shardweld::models {
namespace {

using Shapes = std::map<std::string, std::string>;

const RecipeLibrary& library() {
    static const RecipeLibrary all = RecipeLibrary::load();
    return all;
}

/// A checkpoint of the tests' data and its config.json.
struct Real {
    std::string name;
    catalogue::Catalogue catalogue;
    Config config;
    std::vector<std::string> model;  ///< names of the merged model, where they are listed
};

/// The names in an expected.json: keys whose values are objects.
std::vector<std::string> names_in(const std::string& text) {
    constexpr const char* kBehind = "\": {";
    std::vector<std::string> names;
    for (auto end = text.find(kBehind); end != std::string::npos;
         end = text.find(kBehind, end + 1)) {
        const auto begin = text.rfind('"', end - 1) + 1;
        names.push_back(text.substr(begin, end - begin));
    }
    return names;
}

Real read(const fs::path& directory) {
    formats::JobInput request;
    request.directory = directory / "source";
    const auto location = formats::locate(request);
    const fs::path own = directory / "hf/config.json";
    const fs::path config =
        fs::exists(own) ? own
                        : location.hf_directory.value_or(directory / "expected") / "config.json";
    return {directory.filename(), formats::read_catalogue(location),
            Config::parse(test::content_of(config), "config.json"),
            names_in(test::content_of(directory / "expected/expected.json"))};
}

/// The weights' names, those of local experts without their numbers, and whole tensors' shapes.
Shapes stored_in(const Real& real) {
    static const Regex kOther("^(chained_[0-9]+\\.)?optimizer|_extra_state|^rng_state");
    Shapes shapes;
    for (const catalogue::Tensor& tensor : real.catalogue.tensors) {
        shapes[tensor.name] = shape_text(tensor.shape);
    }
    for (const catalogue::Shard& shard : real.catalogue.shards) {
        shapes[shard.name] = "";
    }
    const Dialect& form = *library().find_dialect("megatron_core");
    std::erase_if(shapes, [&](const auto& one) {
        return kOther.is_found_in(one.first) ||
               std::ranges::any_of(form.ignore, [&](const IgnoreRule& rule) {
                   return std::ranges::any_of(rule.globs, [&](const std::string& glob) {
                       return glob_matches(glob, one.first);
                   });
               });
    });
    return shapes;
}

/// Experts count from 0 on each rank.
std::string without_expert(std::string name) {
    for (const std::string before :
         {"experts.local_experts.", "experts.linear_fc1.weight", "experts.linear_fc1.bias",
          "experts.linear_fc2.weight", "experts.linear_fc2.bias"}) {
        const std::size_t begin = name.find(before) + before.size();
        const std::size_t end = name.find_first_not_of("0123456789", begin);
        if (name.find(before) != std::string::npos && begin < name.size() && begin != end) {
            name.replace(begin, end - begin, "#");
        }
    }
    return name;
}

bool any_has(const Shapes& shapes, const std::string& part) {
    return std::ranges::any_of(
        shapes, [&](const auto& one) { return one.first.find(part) != std::string::npos; });
}

TrainingNames names_of(const Real& real, const Shapes& shapes) {
    TrainingNames names;
    names.is_torch_dist = real.catalogue.format == "megatron torch_dist";
    names.are_experts_grouped = !any_has(shapes, "local_experts");
    names.is_te = any_has(shapes, "layer_norm_weight") || !any_has(shapes, "input_layernorm");
    names.is_newest = any_has(shapes, "mtp_model_layer.self") || any_has(shapes, "conv1d_weight");
    return names;
}

/// What decides about names and shapes at the destination: here the run that made the checkpoint.
Symbols symbols_of(const Real& real, const Recipe& training, const Dialect& form) {
    std::map<std::string, Index> facts = real.catalogue.facts;
    facts.emplace("tp", 1);
    const auto& claims = real.catalogue.claims;
    if (const auto unit = claims.find("make_vocab_size_divisible_by"); unit != claims.end()) {
        facts[unit->first] = std::stol(unit->second);
    }
    if (claims.contains("should_pad_vocab") && claims.at("should_pad_vocab") == "false") {
        facts["make_vocab_size_divisible_by"] = facts["tp"] = 1;  // Megatron-Bridge
    }
    const bool is_value = Regex("value-|value_w|labels").is_found_in(real.name);
    return {training, form, real.config, facts, {{"value", Index{is_value}}}};
}

/// The lines with the names that the checkpoint would be written with.
struct Written {
    Recipe training;
    std::map<std::string, HubTensor> tensors;
};

Written written_as(const Real& real, const Shapes& shapes) {
    const Recipe& recipe = recipe_for(library(), real.config);
    const Dialect& form = *library().find_dialect("megatron_core");
    TrainingNames names = names_of(real, shapes);
    Written made{training_form(recipe, form, names), {}};
    if (names.is_torch_dist) {
        names.stacks = like_layers(made.training, form, symbols_of(real, made.training, form));
        made.training = training_form(recipe, form, names);
    }
    const Symbols symbols = symbols_of(real, made.training, form);
    require_reversible(made.training, symbols);
    for (const HubTensor& tensor : hub_tensors(made.training, symbols)) {
        const bool is_new = made.tensors.emplace(tensor.name, tensor).second;
        EXPECT_TRUE(is_new) << tensor.name << " is written twice";
    }
    return made;
}

/// Whether a line reads the name: others pass.
bool is_read(std::string name, const Recipe& recipe) {
    const Dialect& form = *library().find_dialect("megatron_core");
    const std::string other = renamed_by(recipe.renames, name);
    if (std::ranges::any_of(recipe.renames, [&](const RenameRule& rule) {
            return rule.to == "language_model." && name.starts_with(rule.from) &&
                   other == rule.to + name.substr(rule.from.size());
        })) {
        name = other;
    }
    const bool is_stack = std::ranges::any_of(form.aliases, [&](const AliasRule& rule) {
        std::string_view rest = name;
        return !rule.stacked.empty() && rule.stack.match_beginning(rest).has_value();
    });
    return is_stack || std::ranges::any_of(form.store, [&](const Line& line) {
               return line.name.match(name, [](const std::string&) { return 0; }).has_value();
           });
}

/// A part of a stack has the name and the shape of the stack.
HubTensor as_stored(HubTensor tensor, const Symbols& symbols) {
    const auto* const stack = tensor.line->kind_stack.get();
    if (stack != nullptr) {
        const Captures captures = *tensor.line->name.match(tensor.name);
        const Index n_layers = place_in_stack(*tensor.line, captures, symbols).second;
        tensor.name = format(stack->name, captures, {});
        tensor.shape.insert(tensor.shape.begin(), n_layers);
    }
    return tensor;
}

/// Names of the model that pass, as the checkpoint has them.
std::set<std::string> passing_in(const Real& real, const Recipe& training, const Dialect& form) {
    std::set<std::string> names;
    const Symbols symbols = symbols_of(real, training, form);
    const Recipe& recipe = recipe_for(library(), real.config);
    std::set<std::string> own;
    for (const HubTensor& tensor : hub_tensors(recipe, symbols)) {
        own.insert(tensor.name);
    }
    for (const std::string& name : real.model) {
        const bool passes = std::ranges::any_of(
            recipe.passes, [&](const std::string& glob) { return glob_matches(glob, name); });
        if (passes && !own.contains(name)) {
            names.insert(passing_name(training, form, name));
        }
    }
    return names;
}

/// The last stage of a tied model has a copy of the embeddings.
bool is_copy(const std::string& name, const Real& real) {
    return name.ends_with("output_layer.weight") && real.catalogue.facts.contains("pp") &&
           real.catalogue.facts.at("pp") > 1 &&
           real.config.integer("tie_word_embeddings").value_or(0) != 0;
}

std::string differences(const Real& real) {
    const Shapes shapes = stored_in(real);
    const Written made = written_as(real, shapes);
    std::set<std::string> stored;
    std::set<std::string> written;
    std::string text;
    for (const auto& [name, shape] : shapes) {
        if ((is_read(name, made.training) || !real.model.empty()) && !is_copy(name, real)) {
            stored.insert(without_expert(name));
        }
    }
    written.merge(passing_in(real, made.training, *library().find_dialect("megatron_core")));
    const Symbols symbols =
        symbols_of(real, made.training, *library().find_dialect("megatron_core"));
    for (const auto& [own_name, part] : made.tensors) {
        const HubTensor tensor = as_stored(part, symbols);
        const std::string& name = tensor.name;
        const bool is_there = stored.contains(without_expert(name));
        if (is_there || !tensor.line->optional) {
            written.insert(without_expert(name));
        }
        const auto shape = shapes.find(name);
        if (shape != shapes.end() && !shape->second.empty() &&
            shape->second != shape_text(tensor.shape)) {
            text +=
                "\n  " + name + " is " + shape->second + ", written " + shape_text(tensor.shape);
        }
    }
    for (const std::string& name : stored) {
        text += written.contains(name) ? "" : "\n  not written: " + name;
    }
    for (const std::string& name : written) {
        text += stored.contains(name) ? "" : "\n  not stored: " + name;
    }
    return text;
}

/// Checkpoints that are not as megatron-core writes them by default.
bool is_of_another_kind(const std::string& name) {
    // Made by hand in older forms, from other exporters or other options.
    static const Regex kOthers(
        "-v[01]-|-zarr|-fsdp-dtensor-|-singleton-|-groupedmlp-|gemma3-mbridge|nemotronvl-");
    return kOthers.is_found_in(name);
}

/// Elements of each segment of each logical tensor, in all of the tensors.
std::map<std::string, Index> elements(const std::vector<HubTensor>& tensors,
                                      const Symbols& symbols) {
    std::map<std::string, Index> sums;
    for (const HubTensor& tensor : tensors) {
        const Line& line = *tensor.line;
        const auto captures = line.name.match(
            tensor.name, [&](const std::string& name) { return symbols.value(name); });
        if (!captures) {
            ADD_FAILURE() << tensor.name << " is no " << line.name.text;
            continue;
        }
        const auto seen = captures_for_condition(
            line.name, *captures, [&](const std::string& name) { return symbols.value(name); });
        const auto bound = layout::BoundLayout::bind(
            line.layout, [&](const std::string& axis) { return symbols.value(axis, seen); });
        for (std::size_t i = 0; i < bound.segments().size(); ++i) {
            const auto& segment = bound.segments()[i];
            if (std::ranges::count(line.drop, segment.label) > 0) {
                continue;
            }
            Index product = 1;
            for (std::size_t axis = 0; axis < segment.axes.size(); ++axis) {
                const bool is_copy = segment.axes[axis] == line.repeat;
                product *= is_copy ? 1 : bound.extents(static_cast<int>(i))[axis];
            }
            sums[line.logical + "[" + segment.label + "]"] += product;
        }
    }
    return sums;
}

TEST(TrainingForm, writes_each_element_once) {
    for (const char* const group : {"megatron", "megatron_families", "megatron_more"}) {
        for (const auto& entry : fs::directory_iterator(fs::path(SHARDWELD_TEST_DATA) / group)) {
            if (is_of_another_kind(entry.path().filename())) {
                continue;
            }
            const Real real = read(entry.path());
            const Written made = written_as(real, stored_in(real));
            const Symbols symbols =
                symbols_of(real, made.training, *library().find_dialect("megatron_core"));
            std::vector<HubTensor> tensors;
            for (const auto& [name, tensor] : made.tensors) {
                tensors.push_back(tensor);
            }
            const auto got = elements(tensors, symbols);
            const auto all =
                elements(hub_tensors(recipe_for(library(), real.config), symbols), symbols);
            EXPECT_EQ(got.size(), all.size()) << entry.path();
            for (const auto& [segment, n] : all) {
                EXPECT_EQ(got.contains(segment) ? got.at(segment) : 0, n)
                    << segment << " of " << entry.path();
            }
        }
    }
}

/// Whether the tensor passes under the name that the hub has for it.
bool passes(const std::string& name, const Recipe& recipe) {
    const std::string hub = renamed_by(recipe.renames, name);
    return std::ranges::any_of(recipe.passes,
                               [&](const std::string& glob) { return glob_matches(glob, hub); });
}

TEST(TrainingForm, has_the_names_of_module_trees) {
    const Dialect& form = *library().find_dialect("hf_module");
    std::size_t n_compared = 0;
    for (const auto& entry : fs::directory_iterator(fs::path(SHARDWELD_TEST_DATA) / "torch")) {
        static const Regex kOthers("lora|dora|compiled|float8|missing|prezip|ema|views");
        if (!fs::is_directory(entry.path() / "source") ||
            kOthers.is_found_in(entry.path().filename().string())) {
            continue;
        }
        const Real real = read(entry.path());
        const Recipe training = training_form(recipe_for(library(), real.config), form, {});
        const Symbols symbols = symbols_of(real, training, form);
        const Shapes shapes = stored_in(real);
        std::set<std::string> written = passing_in(real, training, form);
        for (const HubTensor& tensor : hub_tensors(training, symbols)) {
            if (!tensor.line->optional || shapes.contains(tensor.name)) {
                EXPECT_TRUE(written.insert(tensor.name).second) << tensor.name;
            }
        }
        std::string text;
        std::set<std::string> stored;
        for (const auto& [name, shape] : shapes) {
            if (real.model.empty() && passes(name, training)) {
                continue;
            }
            stored.insert(name);
            text += written.contains(name) ? "" : "\n  not written: " + name;
        }
        for (const std::string& name : written) {
            text += stored.contains(name) ? "" : "\n  not stored: " + name;
        }
        EXPECT_EQ(text, "") << entry.path();
        ++n_compared;
    }
    EXPECT_GT(n_compared, 20U);
}

TEST(TrainingForm, has_each_segment_of_a_module_tree_once_and_no_older_name) {
    const Dialect& form = *library().find_dialect("hf_module");
    const Regex older(
        "LayerNorm\\.gamma$|LayerNorm\\.beta$|^language_model\\.model\\.blocks\\.|^layers\\.");
    for (const Recipe* const recipe : library().recipes()) {
        std::set<std::pair<std::string, std::string>> seen;
        for (const Line& line : training_form(*recipe, form, {}).hub) {
            EXPECT_FALSE(older.is_found_in(line.name.text))
                << recipe->name << ": " << line.name.text;
            for (const std::string& label : labels_of(line)) {
                EXPECT_TRUE(line.condition != nullptr || line.together ||
                            seen.emplace(line.logical, label).second)
                    << recipe->name << ": " << line.name.text << " holds it again";
            }
        }
    }
}

TEST(TrainingForm, is_there_for_all_families) {
    const Dialect& form = *library().find_dialect("megatron_core");
    for (const bool is_torch_dist : {false, true}) {
        TrainingNames names;
        names.is_torch_dist = is_torch_dist;
        for (const Recipe* const recipe : library().recipes()) {
            if (library().can_meet(*recipe, form)) {
                EXPECT_FALSE(training_form(*recipe, form, names).hub.empty()) << recipe->name;
            }
        }
    }
}

TEST(TrainingForm, has_the_names_and_shapes_of_real_checkpoints) {
    std::size_t n_compared = 0;
    for (const char* const group : {"megatron", "megatron_families", "megatron_more"}) {
        for (const auto& entry : fs::directory_iterator(fs::path(SHARDWELD_TEST_DATA) / group)) {
            if (is_of_another_kind(entry.path().filename())) {
                continue;
            }
            ++n_compared;
            try {
                EXPECT_EQ(differences(read(entry.path())), "") << entry.path();
            } catch (const Error& error) {
                ADD_FAILURE() << entry.path() << ": " << error.full_text();
            }
        }
    }
    EXPECT_GT(n_compared, 90U);
}

}  // namespace
}  // namespace shardweld::models
