#include "same_form.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

using catalogue::Catalogue;
using catalogue::Coordinates;

constexpr std::string_view kLayers = "decoder.layers.";

bool has_name_with(const Catalogue& catalogue, std::string_view part) {
    const auto has = [&](const auto& item) {
        const std::string_view name = item.name;
        return has_part(name, part);
    };
    return std::ranges::any_of(catalogue.tensors, has) ||
           std::ranges::any_of(catalogue.shards, has);
}

std::string with_options(const std::string& form, const std::vector<std::string>& options) {
    return options.empty() ? form : form + ":" + joined(options, ",");
}

/// Names of megatron-core's own layers, and of experts that stand alone.
std::vector<std::string> name_options(const Catalogue& catalogue) {
    std::vector<std::string> options;
    if (!has_name_with(catalogue, ".layer_norm_weight") &&
        has_name_with(catalogue, ".input_layernorm.")) {
        options.emplace_back("spec=local");
    }
    if (has_name_with(catalogue, ".local_experts.")) {
        options.emplace_back("experts=sequential");
    }
    return options;
}

std::string torch_dist_form(const Catalogue& catalogue) {
    std::vector<std::string> options = name_options(catalogue);
    if (has_name_with(catalogue, std::string(kLayers) + "0.")) {
        options.emplace_back("layers=separate");
    }
    return with_options("torch_dist", options);
}

/// The layer in "decoder.layers.12.x".
std::optional<Index> layer_of(std::string_view name) {
    if (!name.starts_with(kLayers)) {
        return std::nullopt;
    }
    name.remove_prefix(kLayers.size());
    return parse_index(name.substr(0, name.find('.')));
}

/// Layers of each stage, in the order of the layers: by chunk, then by pipeline rank.
std::map<std::pair<int, int>, std::set<Index>> stages_of(const Catalogue& catalogue) {
    std::map<std::pair<int, int>, std::set<Index>> stages;
    for (const catalogue::Shard& shard : catalogue.shards) {
        const auto layer = layer_of(shard.name.text());
        auto& layers = stages[{std::max(shard.at.vpp, 0), std::max(shard.at.pp, 0)}];
        if (layer) {
            layers.insert(*layer);
        }
    }
    return stages;
}

/// "E", a letter for each layer, "L"; stages are parted by bars.
std::string layout_of(const std::map<std::pair<int, int>, std::set<Index>>& stages) {
    std::string layout = "E";
    for (const auto& [at, layers] : stages) {
        layout += layout == "E" ? "" : "|";
        layout += std::string(layers.size(), 't');
    }
    return layout + "L";
}

std::string legacy_form(const Catalogue& catalogue) {
    Coordinates most;
    for (const catalogue::Shard& shard : catalogue.shards) {
        most.tp = std::max(most.tp, shard.at.tp);
        most.pp = std::max(most.pp, shard.at.pp);
        most.vpp = std::max(most.vpp, shard.at.vpp);
        most.ep = std::max(most.ep, shard.at.ep);
        most.etp = std::max(most.etp, shard.at.etp);
    }
    std::vector<std::string> options = {"tp=" + std::to_string(most.tp + 1),
                                        "pp=" + std::to_string(most.pp + 1),
                                        "ep=" + std::to_string(most.ep + 1)};
    if (most.vpp > 0) {
        options.push_back("vpp=" + std::to_string(most.vpp + 1));
    }
    if (const auto etp = catalogue.facts.find("etp"); etp != catalogue.facts.end()) {
        options.push_back("etp=" + std::to_string(etp->second));
    }
    std::ranges::move(name_options(catalogue), std::back_inserter(options));
    const auto stages = stages_of(catalogue);
    const bool is_even = std::ranges::all_of(stages, [&](const auto& stage) {
        return stage.second.size() == stages.begin()->second.size();
    });
    if (!is_even) {
        options.push_back("layout=" + layout_of(stages));
    }
    return with_options("legacy", options);
}

std::string fsdp_form(const Catalogue& catalogue) {
    Index world = 1;
    for (const catalogue::MeshDim& dim : catalogue.mesh) {
        world *= dim.extent;
    }
    std::vector<std::string> options = {"world=" + std::to_string(world)};
    if (catalogue.mesh.size() == 2) {
        options.push_back("ddp=" + std::to_string(catalogue.mesh.front().extent));
    }
    return with_options("fsdp", options);
}

/// Ranks, of which each has a file.
std::string dcp_form(const Catalogue& catalogue) {
    return with_options(
        "dcp", {"world=" + std::to_string(std::max<std::size_t>(catalogue.files.size(), 1))});
}

}  // namespace

std::string form_of(const Catalogue& catalogue) {
    const std::string_view format = catalogue.format;
    if (format == "megatron torch_dist") {
        return torch_dist_form(catalogue);
    }
    if (format == "megatron legacy") {
        return legacy_form(catalogue);
    }
    if (format == "verl fsdp" && catalogue.mesh.size() <= 2) {
        return fsdp_form(catalogue);
    }
    if (format == "torch dcp") {
        return dcp_form(catalogue);
    }
    if (format == "deepspeed universal") {
        return "universal";
    }
    throw Error(
        ErrorCode::unsupported,
        "--to same: checkpoints of the format " + std::string(format) + " are read, not written",
        "say what to write, such as --to hf or --to torch_dist");
}

}  // namespace shardweld::app
