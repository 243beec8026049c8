#include "suggest_recipe.hpp"

#include <algorithm>
#include <cctype>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/messages/log.hpp"
#include "app/report/session.hpp"
#include "app/survey/input.hpp"
#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/format.hpp"
#include "io/whole_file.hpp"
#include "models/config.hpp"
#include "models/hub_tensors.hpp"
#include "models/symbols.hpp"
#include "mpi/comm.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

using Shapes = std::map<std::string, std::vector<Index>>;

/// What a checkpoint stores: names and shapes, and whose names they are.
struct NamedShapes {
    Shapes shapes;
    std::string dialect;
};

/// The finished model of --ref.
struct FinishedModel {
    models::Config config;
    Shapes shapes;
};

/// The built-in family whose tensors are nearest to a finished model's.
struct Nearest {
    const models::Recipe* recipe = nullptr;  ///< nullptr: no family makes any tensor of the model
    std::vector<models::HubTensor> made;
    Index n_equal = 0;
    Index score = 0;
};

/// What a recipe makes otherwise than the model has it.
struct Differences {
    struct Fault {
        const models::HubTensor* tensor = nullptr;
        const std::vector<Index>* found = nullptr;  ///< nullptr: the model does not have it
    };
    std::vector<Fault> faults;  ///< in the order of the recipe's lines
    Shapes unplaced;            ///< only the model has them
};

/// Tensors whose names differ in numbers only.
struct Group {
    std::vector<Index> ends;                           ///< of each number, largest + 1
    std::map<std::vector<Index>, std::size_t> shapes;  ///< how many have each

    /// The shape that most of them have, and how many do.
    [[nodiscard]] const auto& usual() const {
        return *std::ranges::max_element(shapes, {}, [](const auto& one) { return one.second; });
    }
};

using Groups = std::map<std::vector<std::string>, Group>;  ///< by the texts between numbers

/// What a recipe's symbols are worth in a module tree.
models::Symbols tree_symbols(const models::RecipeLibrary& library, const models::Recipe& recipe,
                             const models::Config& config) {
    const models::Dialect own = models::own_names(recipe, *library.find_dialect("hf_module"));
    return {recipe, own, config, {}, {}};
}

/// What a recipe makes of a config.json; nullopt when the config lacks what it needs.
std::optional<std::vector<models::HubTensor>> made_by(const models::RecipeLibrary& library,
                                                      const models::Recipe& recipe,
                                                      const models::Config& config) {
    try {
        return models::hub_tensors(recipe, tree_symbols(library, recipe, config));
    } catch (const Error&) {
        return std::nullopt;
    }
}

/// A name in pieces between the numbers in it: "experts.7.w1" as "experts.", ".w1" and 7.
struct Numbered {
    std::vector<std::string> texts{""};
    std::vector<Index> numbers = {};
};

Numbered numbered(std::string_view name) {
    Numbered found;
    const char* dot = "";
    for (const std::string_view part : split(name, '.')) {
        found.texts.back() += dot;
        if (const auto number = parse_index(part)) {
            found.numbers.push_back(*number);
            found.texts.emplace_back();
        } else {
            found.texts.back() += part;
        }
        dot = ".";
    }
    return found;
}

/// Text as a name in a recipe: other characters than letters and digits become '_'.
std::string symbol_name(std::string text) {
    std::ranges::replace_if(
        text, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    return text.empty() || is_digit(text.front()) ? "my_" + text : text;
}

/// "q_norm" of "layer.{l}.q_norm".
std::string last_part(const std::string& logical) {
    return logical.substr(logical.rfind('.') + 1);
}

/// Whether a name in a recipe can hold the text: braces, blanks and others have a meaning there.
bool can_be_written(std::string_view text) {
    return std::ranges::all_of(text, [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
    });
}

/// "model.layers.{l}.": where the family's lines for layers stand.
std::string layers_prefix(const models::Recipe& recipe) {
    constexpr std::string_view kLayer = "{l}.";
    for (const models::Line& line : recipe.hub) {
        const std::size_t at = line.name.text.find(kLayer);
        if (at != std::string::npos && line.logical.starts_with("layer.{l}.")) {
            return line.name.text.substr(0, at + kLayer.size());
        }
    }
    return "model.layers.{l}.";
}

Groups grouped(const Shapes& tensors) {
    Groups groups;
    for (const auto& [name, shape] : tensors) {
        const Numbered parts = numbered(name);
        Group& group = groups[parts.texts];
        group.ends.resize(parts.numbers.size());
        for (std::size_t i = 0; i < parts.numbers.size(); ++i) {
            group.ends[i] = std::max(group.ends[i], parts.numbers[i] + 1);
        }
        ++group.shapes[shape];
    }
    return groups;
}

/// The text of a recipe that extends the nearest family.
class Suggestion {
  public:
    Suggestion(const models::RecipeLibrary& library, const Nearest& nearest,
               const std::optional<NamedShapes>& stored, const models::Config& config)
        : nearest_(nearest),
          stored_(stored),
          framework_(stored ? library.find_dialect(stored->dialect) : nullptr),
          prefix_(layers_prefix(*nearest.recipe)),
          symbols_(tree_symbols(library, *nearest.recipe, config)) {
        if (framework_ != nullptr && framework_->has_own_names) {
            framework_ = nullptr;
        }
        for (const auto* lines : {&nearest.recipe->hub, &nearest.recipe->module}) {
            for (const models::Line& line : *lines) {
                logicals_.insert(last_part(line.logical));
            }
        }
    }

    void add(const Differences& found) {
        for (const models::Line* line : absent_lines(found)) {
            const std::string& name = line->name.text;
            if (name.starts_with(prefix_)) {
                block_.push_back("without " + name.substr(prefix_.size()));
            } else {
                notes_.push_back("the model has no " + name);
            }
        }
        const std::string layers = prefix_.substr(0, prefix_.find('{'));
        for (const auto& [texts, group] : grouped(found.unplaced)) {
            const bool is_in_layer = texts.size() > 1 && texts.front() == layers;
            if (!std::ranges::all_of(texts, can_be_written)) {
                notes_.push_back("no recipe can hold the name " + printable(joined(texts, "*")));
            } else if (is_in_layer && !group.usual().first.empty()) {
                add_line(texts, group);
            } else {
                passes_.insert(is_in_layer ? joined(texts, "*") : beginning(texts));
            }
        }
        for (const auto& [tensor, shape] : found.faults) {
            if (shape != nullptr) {
                notes_.push_back(tensor->name + " is " + shape_text(*shape) +
                                 ", the recipe makes " + shape_text(tensor->shape) + " (" +
                                 tensor->line->layout.text + ")");
            }
        }
    }

    /// Names of a module tree that the model does not have: `module` lines may be missing.
    void add_stored(const Shapes& reference) {
        if (!stored_ || framework_ != nullptr) {
            return;
        }
        Shapes others = stored_->shapes;
        std::erase_if(others, [&](const auto& one) { return reference.contains(one.first); });
        for (const auto& [texts, group] : grouped(others)) {
            notes_.push_back("only the checkpoint has " + printable(joined(texts, "*")) + " " +
                             shape_text(group.usual().first));
        }
    }

    void print(const std::string& type, std::ostream& out) const {
        const std::string name = symbol_name(type);
        out << "recipe " << (name == nearest_.recipe->name ? "my_" + name : name) << "\n"
            << "extends " << nearest_.recipe->name << "\n";
        if (has_new_) {
            out << "uses   none   # module trees only; for Megatron give its checkpoint as "
                   "--local_dir\n";
        }
        out << "match  @model_type = \"" << replaced(printable(type), "\"", "_") << "\"\n";
        for (const auto& [axis, extent] : lets_) {
            out << "let    " << axis << " = " << extent << "   # check\n";
        }
        for (const auto& [capture, end] : indices_) {
            out << "index  " << capture << " = " << end << "   # check\n";
        }
        out << (block_.empty() ? "" : "block  layer\n");
        for (const std::string& line : block_) {
            out << "  " << line << "\n";
        }
        for (const std::string& glob : passes_) {
            out << "pass   " << glob << "\n";
        }
        for (const std::string& note : notes_) {
            out << "# " << note << "\n";
        }
    }

  private:
    /// Lines that must be there and of which the model has nothing, in their order.
    [[nodiscard]] std::vector<const models::Line*> absent_lines(const Differences& found) const {
        std::map<const models::Line*, Index> n_there;
        for (const models::HubTensor& tensor : nearest_.made) {
            ++n_there[tensor.line];
        }
        for (const auto& [tensor, shape] : found.faults) {
            n_there[tensor->line] -= shape == nullptr ? 1 : 0;
        }
        std::vector<const models::Line*> lines;
        for (const auto& [line, n] : n_there) {
            if (n == 0 && !line->optional && !line->together) {
                lines.push_back(line);
            }
        }
        return lines;
    }

    void add_line(const std::vector<std::string>& texts, const Group& group) {
        const auto& [shape, n] = group.usual();
        std::set<std::string> axes{"l"};
        std::string name =
            texts[1].substr(std::min<std::size_t>(1, texts[1].size()));  // without the dot
        std::string own = name;
        for (std::size_t i = 2; i < texts.size(); ++i) {
            name += "{" + capture(group.ends[i - 1], axes) + "}" + texts[i];
            own += texts[i];
        }
        const std::string tail =
            "   # " + std::to_string(n) + " of " + shape_text(shape) + ": check";
        const models::Line* line = module_line(name);
        line = line == nullptr && framework_ != nullptr ? unused_line(shape) : line;
        if (line != nullptr) {
            block_.push_back(name + " = " + last_part(line->logical) + "  " + line->layout.text +
                             tail);
        } else if (framework_ != nullptr) {
            block_.push_back("# " + name + ": no stored tensor clearly belongs to it" + tail);
        } else {
            block_.push_back(name + " = " + new_logical(own) + layout_text(shape, axes) +
                             (n < n_layers() ? "  optional" : "") + tail);
            has_new_ = true;
        }
        for (const auto& [other, count] : group.shapes) {
            if (other != shape) {
                notes_.push_back(name + " is " + shape_text(other) + " in " +
                                 std::to_string(count) + ": it needs a `let`");
            }
        }
    }

    /// The family's line for this name in module trees, where this model's files have it too.
    [[nodiscard]] const models::Line* module_line(const std::string& name) const {
        const auto found = std::ranges::find_if(
            nearest_.recipe->module,
            [&](const models::Line& line) { return line.name.text == prefix_ + name; });
        return found == nearest_.recipe->module.end() ? nullptr : &*found;
    }

    /// A framework's line for stored tensors of this shape that the family has no line for.
    [[nodiscard]] const models::Line* unused_line(const std::vector<Index>& shape) const {
        const models::Line* found = nullptr;
        for (const models::Line& line : framework_->store) {
            const bool fits =
                !logicals_.contains(last_part(line.logical)) &&
                line.layout.dims.size() == shape.size() &&
                std::ranges::any_of(stored_->shapes, [&](const auto& tensor) {
                    return tensor.second == shape &&
                           line.name.match(tensor.first, [](const auto&) { return Index{0}; });
                });
            if (fits && found != nullptr && found->logical != line.logical) {
                return nullptr;  // two could be meant
            }
            found = fits ? &line : found;
        }
        return found;
    }

    std::string new_logical(const std::string& name) {
        const std::string text = symbol_name(replaced(name, ".weight", ""));
        return logicals_.contains(text) ? "own_" + text : text;
    }

    [[nodiscard]] std::size_t n_layers() const {
        return static_cast<std::size_t>(value("l").value_or(0));
    }

    [[nodiscard]] std::optional<Index> value(const std::string& symbol) const {
        try {
            return symbols_.try_value(symbol);
        } catch (const Error&) {
            return std::nullopt;
        }
    }

    /// The capture that counts to `end`: the family's experts, else one of its own.
    std::string capture(Index end, std::set<std::string>& axes) {
        std::string name = "e";
        if (!symbols_.is_index(name) || value(name) != end || axes.contains(name)) {
            name = fresh("i", end, axes);
            indices_[name] = end;
        }
        axes.insert(name);
        return name;
    }

    [[nodiscard]] bool fits(const std::vector<std::string>& dim, Index extent,
                            const std::set<std::string>& axes) const {
        Index product = 1;
        return std::ranges::all_of(dim,
                                   [&](const std::string& axis) {
                                       return !axes.contains(axis) &&
                                              !__builtin_mul_overflow(
                                                  product, value(axis).value_or(0), &product);
                                   }) &&
               product == extent;
    }

    /// A dim by its extent: the first of the family's axes that fits and is not used yet.
    std::string layout_text(const std::vector<Index>& shape, std::set<std::string>& axes) {
        const std::vector<std::vector<std::string>> known = {{"h"},      {"n", "d"},   {"g", "d"},
                                                             {"t", "f"}, {"te", "fe"}, {"d"},
                                                             {"n"},      {"e"},        {"vocab"}};
        std::string text;
        for (const Index extent : shape) {
            const auto found = std::ranges::find_if(
                known, [&](const auto& dim) { return fits(dim, extent, axes); });
            const std::vector<std::string> dim =
                found == known.end() ? std::vector{fresh("x", extent, axes)} : *found;
            if (found == known.end()) {
                lets_[dim.front()] = extent;
            }
            axes.insert(dim.begin(), dim.end());
            text += dim.size() == 1 ? "  " + dim.front() : "  (" + joined(dim, " ") + ")";
        }
        return text;
    }

    /// "x72", or "x72_2" where a line has that one.
    static std::string fresh(const std::string& letter, Index extent,
                             const std::set<std::string>& axes) {
        const std::string name = letter + std::to_string(extent);
        std::string unused = name;
        for (int i = 2; axes.contains(unused); ++i) {
            unused = name + "_" + std::to_string(i);
        }
        return unused;
    }

    /// The beginning of a name outside of the layers: "vision_tower.*".
    static std::string beginning(const std::vector<std::string>& texts) {
        const std::string& first = texts.front();
        const std::size_t dot = first.find('.', first.starts_with("model.") ? 6 : 0);
        return (dot == std::string::npos ? first : first.substr(0, dot + 1)) + "*";
    }

    const Nearest& nearest_;
    const std::optional<NamedShapes>& stored_;
    const models::Dialect* framework_;  ///< whose names the checkpoint has; nullptr: its own
    std::string prefix_;
    models::Symbols symbols_;
    std::set<std::string> logicals_;  ///< last parts of those of the family
    std::map<std::string, Index> lets_;
    std::map<std::string, Index> indices_;
    std::vector<std::string> block_;
    std::set<std::string> passes_;
    std::vector<std::string> notes_;
    bool has_new_ = false;
};

NamedShapes read_shapes(const Options& options, const formats::InputRequest& request) {
    const std::unique_ptr<mpi::Comm> comm = mpi::serial_comm();
    Log quiet(std::cerr, LogLevel::error, true);
    const Run run(*comm, options, quiet);
    Session session = run.session();
    const Survey found = survey_shown(session, request);
    NamedShapes tensors;
    tensors.dialect = found.catalogue.dialect;
    for (const catalogue::Tensor& tensor : found.catalogue.tensors) {
        tensors.shapes.emplace(tensor.name, tensor.shape);
    }
    for (const catalogue::Shard& shard : found.catalogue.shards) {
        tensors.shapes.emplace(shard.name, shard.shape);
    }
    return tensors;
}

Nearest nearest_family(const models::RecipeLibrary& library, const models::Config& config,
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

Differences differences_of(const std::vector<models::HubTensor>& made, const Shapes& reference) {
    Differences found;
    found.unplaced = reference;
    for (const models::HubTensor& tensor : made) {
        const auto at = reference.find(tensor.name);
        const std::vector<Index>* const shape = at == reference.end() ? nullptr : &at->second;
        found.unplaced.erase(tensor.name);
        if (shape == nullptr || *shape != tensor.shape) {
            found.faults.push_back({&tensor, shape});
        }
    }
    return found;
}

FinishedModel read_finished_model(const Options& options) {
    if (options.reference.empty()) {
        throw Error(ErrorCode::usage, "recipes " + options.topic + " needs --ref DIR",
                    "name the directory of a finished model of the family, with config.json");
    }
    formats::InputRequest request;
    request.directory = options.reference;
    request.backend = "hf";
    request.wants_model = true;
    Shapes shapes = read_shapes(options, request).shapes;
    const fs::path path = options.reference / "config.json";
    return {models::Config::parse(io::read_text(path, models::kMaxConfig), path.string()),
            std::move(shapes)};
}

}  // namespace

int suggest_recipe(const models::RecipeLibrary& library, const Options& options,
                   std::ostream& out) {
    const auto [config, reference] = read_finished_model(options);
    std::optional<NamedShapes> stored;
    if (!options.local_dir.empty()) {
        stored = read_shapes(options, input_request(options));
    }
    const Nearest nearest = nearest_family(library, config, reference);
    const auto n_all = static_cast<Index>(reference.size());
    if (4 * nearest.n_equal < n_all) {
        throw Error(ErrorCode::unsupported,
                    "no family is near to " + printable(options.reference.string()) + ": " +
                        (nearest.recipe == nullptr
                             ? "none makes any of its tensors"
                             : nearest.recipe->name + " makes " + std::to_string(nearest.n_equal) +
                                   " of " + std::to_string(n_all) + " tensors"),
                    "begin with `shardweld recipes llama` and docs/using/recipes.md");
    }
    Suggestion suggestion(library, nearest, stored, config);
    suggestion.add(differences_of(nearest.made, reference));
    suggestion.add_stored(reference);
    out << "# " << nearest.n_equal << " of " << n_all << " tensors are as " << nearest.recipe->name
        << " makes them.\n";
    suggestion.print(config.text("model_type").value_or("my_family"), out);
    return 0;
}

int check_recipe(const models::RecipeLibrary& library, const Options& options, std::ostream& out) {
    const auto [config, reference] = read_finished_model(options);
    const models::Recipe& recipe = models::recipe_for(library, config);
    const auto made = models::hub_tensors(recipe, tree_symbols(library, recipe, config));
    Differences found = differences_of(made, reference);
    std::vector<std::string> faults;
    for (const auto& [tensor, shape] : found.faults) {
        const std::string expected = shape_text(tensor->shape) + "  (" + tensor->line->origin + ")";
        if (shape != nullptr) {
            faults.push_back("shape: " + tensor->name + " is " + shape_text(*shape) + ", not " +
                             expected);
        } else if (!tensor->line->optional && !tensor->line->together) {
            faults.push_back("extra: " + tensor->name + " " + expected);
        }
    }
    for (const auto& [name, shape] : found.unplaced) {
        if (!any_glob_matches(recipe.passes, name)) {
            faults.push_back("missing: " + name + " " + shape_text(shape));
        }
    }
    for (const std::string& fault : faults) {
        out << fault << "\n";
    }
    if (!faults.empty()) {
        throw Error(ErrorCode::differs, "the recipe " + recipe.name + " and the model differ in " +
                                            std::to_string(faults.size()) + " tensors");
    }
    out << "the recipe " << recipe.name << " makes the names and shapes of all " << reference.size()
        << " tensors\n";
    return 0;
}

}  // namespace shardweld::app
