#include "suggest_recipe.hpp"

#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/io/whole_file.hpp"
#include "shardweld/models/hub_tensors.hpp"
#include "shardweld/mpi/comm.hpp"

#include "../cli/log.hpp"
#include "../report/session.hpp"
#include "../survey/input.hpp"

namespace shardweld::app {

namespace {

using Shapes = std::map<std::string, std::vector<Index>>;
constexpr const char* kLayers = "model.layers.{l}.";

/// A finished model, or what a checkpoint stores: names, shapes, whose names they are.
struct Tensors {
    Shapes shapes;
    std::string dialect;
};

Tensors read_tensors(const Options& options, formats::InputRequest request) {
    const std::unique_ptr<mpi::Comm> comm = mpi::serial_comm();
    Log quiet(std::cerr, LogLevel::error, true);
    Unreported run(*comm, options, quiet, quiet);
    const Survey found = survey_shown(run.session(), request);
    Tensors tensors;
    tensors.dialect = found.catalogue.dialect;
    for (const catalogue::Tensor& tensor : found.catalogue.tensors) {
        tensors.shapes.emplace(tensor.name, tensor.shape);
    }
    for (const catalogue::Shard& shard : found.catalogue.shards) {
        tensors.shapes.emplace(shard.name, shard.shape);
    }
    return tensors;
}

Tensors read_reference(const Options& options) {
    if (options.reference.empty()) {
        throw Error(ErrorCode::usage, "recipes " + options.topic + " needs --ref DIR",
                    "name the directory of a finished model of the family, with config.json");
    }
    formats::InputRequest request;
    request.directory = options.reference;
    request.backend = "hf";
    request.wants_model = true;
    return read_tensors(options, request);
}

models::Config read_config(const Options& options) {
    const fs::path path = options.reference / "config.json";
    return models::Config::parse(io::read_text(path, models::kMaxConfig), path.string());
}

/// What a recipe makes of a config.json; nullopt when the config lacks what it needs.
std::optional<std::vector<models::HubTensor>> made_by(const models::RecipeLibrary& library,
                                                      const models::Recipe& recipe,
                                                      const models::Config& config) {
    try {
        const models::Dialect own = models::own_names(recipe, *library.find_dialect("hf_module"));
        return models::hub_tensors(recipe, models::Symbols(recipe, own, config, {}, {}));
    } catch (const Error&) {
        return std::nullopt;
    }
}

struct Nearest {
    const models::Recipe* recipe = nullptr;
    std::vector<models::HubTensor> made;
    Index n_equal = 0;
    Index score = 0;
};

Nearest nearest_of(const models::RecipeLibrary& library, const models::Config& config,
                   const Shapes& reference) {
    Nearest best;
    for (const models::Recipe* recipe : library.recipes()) {
        auto made = recipe->match == nullptr ? std::nullopt : made_by(library, *recipe, config);
        if (!made) {
            continue;
        }
        Index n_equal = 0;
        for (const models::HubTensor& tensor : *made) {
            const auto found = reference.find(tensor.name);
            n_equal += found != reference.end() && found->second == tensor.shape ? 1 : 0;
        }
        const Index score = 2 * n_equal - static_cast<Index>(made->size());
        const bool is_better =
            score > best.score ||
            (score == best.score && best.recipe != nullptr && recipe->depth < best.recipe->depth);
        if (n_equal > 0 && (best.recipe == nullptr || is_better)) {
            best = {recipe, std::move(*made), n_equal, score};
        }
    }
    return best;
}

/// "model.layers.3.mlp.experts.7.w1" as "model.layers.{l}.mlp.experts.{e}.w1".
std::string pattern_of(const std::string& name) {
    const std::array<const char*, 3> captures = {"{l}", "{e}", "{i}"};
    std::string pattern;
    std::size_t n_numbers = 0;
    for (const std::string_view part : split(name, '.')) {
        const bool is_number = parse_index(part).has_value() && n_numbers < captures.size();
        pattern += (pattern.empty() ? "" : ".") +
                   (is_number ? std::string(captures.at(n_numbers++)) : std::string(part));
    }
    return pattern;
}

/// Names of one pattern and one shape.
struct Group {
    std::string pattern;
    std::vector<Index> shape;
    std::size_t n = 0;
};

std::vector<Group> grouped(const Shapes& tensors) {
    std::map<std::pair<std::string, std::vector<Index>>, std::size_t> counts;
    for (const auto& [name, shape] : tensors) {
        ++counts[{pattern_of(name), shape}];
    }
    std::vector<Group> groups;
    for (const auto& [key, n] : counts) {
        groups.push_back({key.first, key.second, n});
    }
    return groups;
}

/// A dim's text by its extent: what the recipe's symbols make, else a number to name.
std::string dim_text(Index extent, const models::Symbols& symbols) {
    const auto value = [&](const char* name) { return symbols.try_value(name).value_or(-1); };
    const std::vector<std::pair<Index, const char*>> known = {{value("h"), "h"},
                                                              {value("n") * value("d"), "(n d)"},
                                                              {value("g") * value("d"), "(g d)"},
                                                              {value("f"), "(t f)"},
                                                              {value("fe"), "(te fe)"},
                                                              {value("d"), "d"},
                                                              {value("n"), "n"},
                                                              {value("e"), "e"},
                                                              {value("vocab"), "vocab"}};
    for (const auto& [size, text] : known) {
        if (size == extent) {
            return text;
        }
    }
    return "x" + std::to_string(extent);
}

/// A framework's line for tensors that are stored and that the family has no line for.
const models::Line* unused_line(const models::RecipeLibrary& library, const Nearest& nearest,
                                const Tensors& stored, const Group& wanted) {
    const models::Dialect* dialect = library.find_dialect(stored.dialect);
    std::set<std::string> used;
    for (const models::Line& line : nearest.recipe->hub) {
        used.insert(line.logical);
    }
    const models::Line* found = nullptr;
    for (const models::Line& line : dialect->store) {
        const bool fits =
            !used.contains(line.logical) && line.layout.dims.size() == wanted.shape.size() &&
            std::ranges::any_of(stored.shapes, [&](const auto& tensor) {
                return tensor.second == wanted.shape &&
                       line.name.match(tensor.first, [](const auto&) { return Index{0}; });
            });
        if (fits && found != nullptr && found->logical != line.logical) {
            return nullptr;  // two could be meant
        }
        found = fits ? &line : found;
    }
    return found;
}

std::string line_text(const std::string& name, const Group& group,
                      const models::RecipeLibrary& library, const Nearest& nearest,
                      const std::optional<Tensors>& stored, const models::Symbols& symbols) {
    if (stored && library.find_dialect(stored->dialect) != nullptr &&
        !library.find_dialect(stored->dialect)->has_own_names) {
        if (const auto* line = unused_line(library, nearest, *stored, group)) {
            const std::string logical = line->logical.substr(line->logical.rfind('.') + 1);
            return name + " = " + logical + "  " + line->layout.text;
        }
    }
    std::string logical = replaced(replaced(replaced(name, ".weight", ""), ".", "_"), "{e}_", "");
    std::string layout;
    for (const Index extent : group.shape) {
        layout += "  " + dim_text(extent, symbols);
    }
    return name + " = " + logical + layout;
}

/// The beginning of a name outside of the layers, for `pass`: "vision_tower.".
std::string glob_of(const std::string& pattern) {
    const std::size_t capture = pattern.find('{');
    const std::size_t dot = capture == std::string::npos ? pattern.rfind('.') : capture - 1;
    const std::size_t first = pattern.find('.', pattern.starts_with("model.") ? 6 : 0);
    return pattern.substr(0, std::min(dot, first) + 1) + "*";
}

/// What of the model the nearest family does not make, and the other way round.
struct Differences {
    Shapes unplaced;                             ///< only the model has it, or otherwise
    std::map<const models::Line*, bool> absent;  ///< lines: whether the model has nothing of them
    std::vector<std::string> shapes;             ///< texts
};

Differences differences_of(const std::vector<models::HubTensor>& made, const Shapes& reference) {
    Differences found;
    found.unplaced = reference;
    for (const models::HubTensor& tensor : made) {
        const auto at = reference.find(tensor.name);
        const bool is_there = at != reference.end();
        const auto line = found.absent.try_emplace(tensor.line, true).first;
        line->second = line->second && !is_there;
        found.unplaced.erase(tensor.name);
        if (is_there && at->second != tensor.shape) {
            found.shapes.push_back(tensor.name + " is " + shape_text(at->second) +
                                   ", the recipe makes " + shape_text(tensor.shape) + " (" +
                                   tensor.line->layout.text + ")");
        }
    }
    std::erase_if(found.absent, [](const auto& line) {
        return !line.second || line.first->optional || line.first->together;
    });
    return found;
}

void print_suggestion(const models::RecipeLibrary& library, const Nearest& nearest,
                      const Differences& found, const std::optional<Tensors>& stored,
                      const models::Config& config, std::ostream& out) {
    const models::Dialect own =
        models::own_names(*nearest.recipe, *library.find_dialect("hf_module"));
    const models::Symbols symbols(*nearest.recipe, own, config, {}, {});
    std::vector<std::string> block;
    std::vector<std::string> rest;
    std::set<std::string> passes;
    for (const auto& [line, is_absent] : found.absent) {
        const std::string& name = line->name.text;
        (name.starts_with(kLayers) ? block : rest)
            .push_back(name.starts_with(kLayers) ? "without " + name.substr(17)
                                                 : "# the model has no " + name);
    }
    for (const Group& group : grouped(found.unplaced)) {
        if (group.pattern.starts_with(kLayers)) {
            const std::string name = group.pattern.substr(17);
            block.push_back(line_text(name, group, library, nearest, stored, symbols) + "   # " +
                            std::to_string(group.n) + " of " + shape_text(group.shape) + ": check");
        } else {
            passes.insert(glob_of(group.pattern));
        }
    }
    if (!block.empty()) {
        out << "block  layer\n";
        for (const std::string& line : block) {
            out << "  " << line << "\n";
        }
    }
    for (const std::string& glob : passes) {
        out << "pass   " << glob << "\n";
    }
    for (const std::string& line : rest) {
        out << line << "\n";
    }
}

}  // namespace

int suggest_recipe(const models::RecipeLibrary& library, const Options& options,
                   std::ostream& out) {
    const Tensors reference = read_reference(options);
    const models::Config config = read_config(options);
    std::optional<Tensors> stored;
    if (!options.local_dir.empty()) {
        stored = read_tensors(options, input_request(options));
    }
    const Nearest nearest = nearest_of(library, config, reference.shapes);
    if (nearest.recipe == nullptr) {
        throw Error(ErrorCode::unsupported,
                    "no family makes any tensor of " + printable(options.reference.string()),
                    "begin with `shardweld recipes llama` and docs/using/recipes.md");
    }
    const Differences found = differences_of(nearest.made, reference.shapes);
    const std::string type = config.text("model_type").value_or("my_family");
    out << "# " << nearest.n_equal << " of " << reference.shapes.size() << " tensors are as "
        << nearest.recipe->name << " makes them.\n"
        << "recipe " << (type == nearest.recipe->name ? "my_" + type : type) << "\n"
        << "extends " << nearest.recipe->name << "\n"
        << "match  @model_type = \"" << type << "\"\n";
    print_suggestion(library, nearest, found, stored, config, out);
    for (const std::string& text : found.shapes) {
        out << "# " << text << "\n";
    }
    return 0;
}

int check_recipe(const models::RecipeLibrary& library, const Options& options, std::ostream& out) {
    const Tensors reference = read_reference(options);
    const models::Config config = read_config(options);
    const models::Recipe& recipe = models::recipe_for(library, config);
    const models::Dialect own = models::own_names(recipe, *library.find_dialect("hf_module"));
    const auto made = models::hub_tensors(recipe, models::Symbols(recipe, own, config, {}, {}));
    std::vector<std::string> faults;
    Shapes unplaced = reference.shapes;
    for (const models::HubTensor& tensor : made) {
        const auto at = reference.shapes.find(tensor.name);
        unplaced.erase(tensor.name);
        if (at == reference.shapes.end()) {
            if (!tensor.line->optional && !tensor.line->together) {
                faults.push_back("extra: " + tensor.name + " " + shape_text(tensor.shape) + "  (" +
                                 tensor.line->origin + ")");
            }
        } else if (at->second != tensor.shape) {
            faults.push_back("shape: " + tensor.name + " is " + shape_text(at->second) + ", not " +
                             shape_text(tensor.shape) + "  (" + tensor.line->origin + ")");
        }
    }
    std::erase_if(unplaced, [&](const auto& tensor) {
        return std::ranges::any_of(recipe.passes, [&](const std::string& glob) {
            return glob_matches(glob, tensor.first);
        });
    });
    for (const auto& [name, shape] : unplaced) {
        faults.push_back("missing: " + name + " " + shape_text(shape));
    }
    for (const std::string& fault : faults) {
        out << fault << "\n";
    }
    if (!faults.empty()) {
        throw Error(ErrorCode::differs, "the recipe " + recipe.name + " and the model differ in " +
                                            std::to_string(faults.size()) + " tensors");
    }
    out << "the recipe " << recipe.name << " makes the names and shapes of all "
        << reference.shapes.size() << " tensors\n";
    return 0;
}

}  // namespace shardweld::app
