#include "weight_files.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "core/text.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::hf {

namespace {

// The two containers, in the order in which loaders try them.
struct WeightsKind {
    std::string_view stem;
    std::string_view suffix;
};
constexpr std::array<WeightsKind, 2> kKinds = {
    {{"model", ".safetensors"}, {"pytorch_model", ".bin"}}};

// Parts of a model, one for each rank.
constexpr std::string_view kAccelerateRanks = "pytorch_model_fsdp*_rank*.bin";

// model.safetensors, or else all model*.safetensors, or else everything of that kind that is no
// adapter and no shard of a distributed save.
std::vector<std::string> weights_of(const Listing& listing, const WeightsKind& kind) {
    std::vector<std::string> named;
    std::vector<std::string> others;
    for (const std::string& file : listing.files) {
        if (!file.ends_with(kind.suffix) || file.starts_with("adapter_") ||
            file.starts_with("shard-") || glob_matches(kAccelerateRanks, file)) {
            continue;
        }
        (file.starts_with(kind.stem) ? named : others).push_back(file);
    }
    // A lone .bin of another name may be anything.
    return !named.empty() || kind.suffix == ".bin" ? named : others;
}

[[noreturn]] void refuse_two(const fs::path& directory, const std::string& a,
                             const std::string& b) {
    throw Error(ErrorCode::mismatch,
                directory.string() + " holds two models, " + printable(a) + " and " + printable(b),
                "remove one: loaders differ in which they take");
}

WeightFiles indexed(const fs::path& directory, const std::string& index) {
    WeightFiles model{index, read_weight_map(directory / index).files};
    std::sort(model.weights.begin(), model.weights.end(), natural_less);
    return model;
}

std::optional<WeightFiles> find_kind(const fs::path& directory, const Listing& listing,
                                     const WeightsKind& kind) {
    const std::string single = std::string(kind.stem) + std::string(kind.suffix);
    const std::string index = single + ".index.json";
    if (listing.has_file(index)) {
        WeightFiles model = indexed(directory, index);
        if (listing.has_file(single) && model.weights != std::vector{single}) {
            refuse_two(directory, single, index);
        }
        return model;
    }
    auto weights = weights_of(listing, kind);
    if (weights.empty()) {
        return std::nullopt;
    }
    const auto other = std::find_if(weights.begin(), weights.end(),
                                    [&](const std::string& file) { return file != single; });
    if (listing.has_file(single) && other != weights.end()) {
        refuse_two(directory, single, *other);
    }
    return WeightFiles{"", std::move(weights)};
}

}  // namespace

WeightMap read_weight_map(const fs::path& index) {
    return parse_weight_map(io::read_text(index, kLongestWeightMap), index.string());
}

std::vector<std::string> WeightFiles::all() const {
    std::vector<std::string> files = weights;
    if (!index.empty()) {
        files.push_back(index);
    }
    return files;
}

std::optional<WeightFiles> find_model_files(const fs::path& directory, const Listing& listing) {
    for (const WeightsKind& kind : kKinds) {
        if (auto model = find_kind(directory, listing, kind)) {
            return model;
        }
    }
    return std::nullopt;
}

}  // namespace shardweld::formats::hf
