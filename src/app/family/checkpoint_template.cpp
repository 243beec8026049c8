#include "checkpoint_template.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "adapters/separate.hpp"
#include "app/survey/own_files.hpp"
#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "formats/closed_world.hpp"
#include "formats/recognise.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/iteration_directories.hpp"
#include "formats/shared/neighbour_names.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "publish/report_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

/// Formats whose tensors lie in their files as bytes that can be exchanged.
constexpr std::array<std::string_view, 7> kFormats = {
    "megatron torch_dist", "megatron legacy",      "verl fsdp", "accelerate fsdp", "torch dcp",
    "bytecheckpoint",      "torch dcp safetensors"};

/// Absolute, without a slash at its end.
fs::path normal(const fs::path& path) {
    const fs::path whole = fs::absolute(path).lexically_normal();
    return whole.has_filename() ? whole : whole.parent_path();
}

/// Sums and reports of the template's files, which are not true of others.
bool is_untrue(std::string_view name) {
    return name == "integrity.json" || name == publish::kKeptReport;
}

publish::Asset asset_of(io::InputFile opened, std::string name) {
    const auto file = std::make_shared<const io::InputFile>(std::move(opened));
    return {std::move(name), file->path(), {}, file, file->stamp()};
}

/// Whether a loader looks for a file of this name above the shards.
bool is_found_above(std::string_view name) {
    const auto found = match_rule(name_rules().left_aside, name, "");
    return found && (found->rule->what.empty() || found->rule->what == formats::kTrainingState);
}

}  // namespace

fs::path absolute_directory(const Checkpoint& like) {
    return normal(like.location.directory);
}

std::string name_in_template(const Checkpoint& like, const fs::path& file) {
    return normal(file).lexically_relative(normal(like.root)).string();
}

void require_template(const Checkpoint& like) {
    const catalogue::Catalogue& catalogue = like.catalogue;
    if (!contains(kFormats, catalogue.format)) {
        throw Error(ErrorCode::unsupported,
                    "the template " + printable(like.root.string()) + " is a " + catalogue.format +
                        " checkpoint",
                    "give one of: " + joined(kFormats, ", ", [](std::string_view name) {
                        return std::string(name);
                    }));
    }
    if (catalogue.facts.contains(formats::kLoraRank) || adapters::holds_adapter(catalogue)) {
        throw Error(ErrorCode::unsupported,
                    "the template " + printable(like.root.string()) + " holds a LoRA adapter",
                    "give one of a run that trains the whole model");
    }
}

void require_no_other_weights(const Checkpoint& like) {
    if (adapters::holds_adapter(like.catalogue)) {
        return;  // it is no template, as require_template says
    }
    const auto& hf = like.location.hf_directory;
    std::vector<std::string> others = formats::weights_beside(like.location, like.catalogue);
    std::erase_if(others, [&](const std::string& path) {  // its HuggingFace files are not copied
        return hf && io::is_within(normal(like.location.directory / path), normal(*hf));
    });
    if (!others.empty()) {
        throw Error(ErrorCode::mismatch,
                    "the template " + printable(like.root.string()) +
                        " holds what may be weights of its own model, and would be copied beside "
                        "the written ones: " +
                        listed(others),
                    "move them out of the template, or copy what else is in it to another one");
    }
}

std::vector<publish::Asset> assets_of(const Checkpoint& like) {
    std::set<fs::path> held = collect_set(like.catalogue.files, [](const catalogue::File& file) {
        return fs::path(file.path).lexically_normal();
    });
    std::vector<publish::Asset> assets;
    const publish::Opener open = own_opener(like.location.directory, like.root);
    const std::function<void(const fs::path&)> walk = [&](const fs::path& directory) {
        const formats::Listing listing = formats::list_directory(directory);
        for (const std::string& name : listing.files) {
            const fs::path file = directory / name;
            if (!held.contains(file) && !is_untrue(name)) {
                assets.push_back(asset_of(open(file), name_in_template(like, file)));
            }
        }
        for (const std::string& name : listing.directories) {
            const bool is_link = contains(listing.links, name);
            if (!is_link && (!like.location.hf_directory ||
                             !fs::equivalent(directory / name, *like.location.hf_directory))) {
                walk(directory / name);
            }
        }
    };
    const fs::path own = absolute_directory(like);
    const fs::path root = normal(like.root);
    walk(own);
    for (fs::path above = own; above != root;) {
        const auto step = formats::parse_step(above.filename().string());
        above = above.parent_path();
        for (const std::string& name : formats::list_directory(above).files) {
            const fs::path file = above / name;
            if (name == formats::kTrackerFile && step && step->iteration) {
                // The template's own tracker may name a later step by now.
                assets.push_back({name_in_template(like, file),
                                  {},
                                  std::to_string(*step->iteration),
                                  nullptr,
                                  {}});
            } else if (is_found_above(name)) {
                assets.push_back(asset_of(open(file), name_in_template(like, file)));
            }
        }
    }
    std::ranges::sort(assets, natural_less, &publish::Asset::name);
    return assets;
}

}  // namespace shardweld::app
