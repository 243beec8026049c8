#include "nearest_family.hpp"

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "app/messages/log.hpp"
#include "app/report/session.hpp"
#include "app/survey/input.hpp"
#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "io/whole_file.hpp"
#include "mpi/comm.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

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

}  // namespace

NamedShapes read_shapes(const Options& options, formats::InputRequest request) {
    const std::unique_ptr<mpi::Comm> comm = mpi::serial_comm();
    Log quiet(std::cerr, LogLevel::error, true);
    Unreported run(*comm, options, quiet, quiet);
    const Survey found = survey_shown(run.session(), request);
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

NamedShapes read_reference(const Options& options) {
    if (options.reference.empty()) {
        throw Error(ErrorCode::usage, "recipes " + options.topic + " needs --ref DIR",
                    "name the directory of a finished model of the family, with config.json");
    }
    formats::InputRequest request;
    request.directory = options.reference;
    request.backend = "hf";
    request.wants_model = true;
    return read_shapes(options, request);
}

models::Config reference_config(const Options& options) {
    const fs::path path = options.reference / "config.json";
    return models::Config::parse(io::read_text(path, models::kMaxConfig), path.string());
}

models::Symbols tree_symbols(const models::RecipeLibrary& library, const models::Recipe& recipe,
                             const models::Config& config) {
    const models::Dialect own = models::own_names(recipe, *library.find_dialect("hf_module"));
    return {recipe, own, config, {}, {}};
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

}  // namespace shardweld::app
