// HuggingFace model directories. PEFT's directories of one adapter: peft 0.20
// src/peft/peft_model.py (save_pretrained), utils/save_and_load.py.

#include "hf.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <ranges>
#include <span>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/registry.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/module_names.hpp"
#include "formats/shared/neighbour_names.hpp"
#include "shardweld/error.hpp"

#include "join_files.hpp"
#include "weight_files.hpp"

namespace shardweld::formats::hf {

namespace {

using catalogue::Catalogue;

constexpr std::array<KnownName, 1> kNames = {{
    {"sharded/*", "the shards from which torch's HuggingFace storage writer made the model"},
}};

bool is_of_peft(std::string_view name) {
    return name.find(kOfPeft) != std::string_view::npos ||
           name.find(".lora_A.") != std::string_view::npos ||
           name.find(".base_layer.") != std::string_view::npos;
}

/// The names that an index or a file of weights has; none where it cannot be read.
std::vector<std::string> names_in(const Location& location, const std::string& file) {
    std::vector<std::string> names;
    try {
        const auto [weights, index] = scan_weights_or_index(location, file);
        std::ranges::transform(weights.tensors, std::back_inserter(names),
                               &catalogue::Tensor::name);
        std::ranges::copy(std::views::keys(index.file_of), std::back_inserter(names));
    } catch (const Error&) {
        // Whoever reads the model says what is wrong with it.
    }
    return names;
}

class HuggingFace final : public WeightFilesFormat {
  public:
    [[nodiscard]] std::string_view name() const override { return "huggingface"; }
    [[nodiscard]] std::string_view backend() const override { return "hf"; }
    [[nodiscard]] bool explicit_only() const override { return true; }
    [[nodiscard]] std::string_view noun() const override { return "HuggingFace model"; }
    [[nodiscard]] bool holds_weights_only() const override { return true; }
    [[nodiscard]] std::string_view looks_for() const override {
        return "model.safetensors, *.safetensors, pytorch_model*.bin, their index";
    }
    [[nodiscard]] bool recognises(const Listing& listing) const override {
        return is_hf_model(listing);
    }
    void refuse_unasked(const fs::path& directory) const override {
        refuse_wrapped(directory);
        throw Error(ErrorCode::not_found, directory.string() + " is a HuggingFace model already",
                    "there is nothing to merge; --backend hf re-shards or casts it");
    }

    [[nodiscard]] std::span<const KnownName> known_names() const override { return kNames; }

    [[nodiscard]] std::optional<Location> probe(const fs::path& directory) const override {
        const Listing listing = try_list_directory(directory);
        auto model = find_model_files(directory, listing);
        if (!model) {
            return std::nullopt;
        }
        Location location = begun_at(directory, &listing);
        location.shard_files = model->all();
        return location;
    }
};

}  // namespace

const Format& hf_format() {
    static const HuggingFace format;
    return format;
}

void refuse_wrapped(const fs::path& directory) {
    const auto location = hf_format().probe(directory);
    const auto names =
        location ? names_in(*location, location->shard_files.back()) : std::vector<std::string>{};
    const std::string what = directory.string() + " holds a HuggingFace model's files, but ";
    if (const auto at = std::ranges::find_if(names, is_of_peft); at != names.end()) {
        throw Error(ErrorCode::usage,
                    what + "a LoRA adapter is in them: " + printable(*at) + " is a name of PEFT's",
                    "--backend hf --lora fold adds it to the weights, --backend hf alone writes it "
                    "beside the base");
    }
    const auto is_wrapped = [](const std::string& name) { return without_wrappers(name) != name; };
    if (const auto at = std::ranges::find_if(names, is_wrapped); at != names.end()) {
        throw Error(ErrorCode::usage,
                    what + "under names of a training wrapper: " + printable(*at) + " instead of " +
                        printable(without_wrappers(*at)),
                    "--backend hf writes them under the model's names");
    }
}

namespace {

// In the order in which PEFT looks for them.
constexpr std::array<const char*, 2> kAdapterWeights = {"adapter_model.safetensors",
                                                        "adapter_model.bin"};

constexpr std::array<KnownName, 2> kAdapterNames = {{
    {"adapter_config.json", ""},
    {"README.md", "the adapter's model card"},
}};

class PeftAdapter final : public WeightFilesFormat {
  public:
    [[nodiscard]] std::string_view name() const override { return "peft"; }
    [[nodiscard]] std::string_view backend() const override { return "peft"; }
    [[nodiscard]] bool explicit_only() const override { return true; }
    [[nodiscard]] std::string_view noun() const override { return "PEFT adapter"; }
    [[nodiscard]] bool holds_weights_only() const override { return true; }
    [[nodiscard]] std::string_view looks_for() const override {
        return "adapter_model.safetensors, adapter_model.bin";
    }

    [[nodiscard]] std::span<const KnownName> known_names() const override { return kAdapterNames; }

    [[nodiscard]] std::optional<Location> probe(const fs::path& directory) const override {
        const Listing listing = try_list_directory(directory);
        for (const char* const weights : kAdapterWeights) {
            if (listing.has_file(weights)) {
                return found_at(directory, listing, weights);
            }
        }
        return std::nullopt;
    }

  private:
    [[nodiscard]] Location found_at(const fs::path& directory, const Listing& listing,
                                    const char* weights) const {
        Location location = begun_at(directory, &listing);
        location.shard_files = {weights};
        location.adapter_directory = directory;
        if (weights == kAdapterWeights[0] && listing.has_file(kAdapterWeights[1])) {
            location.warnings["second_adapter"] =
                std::string(kAdapterWeights[1]) + " lies beside " + kAdapterWeights[0] +
                " and may be another step's: it is not read, as PEFT does not read it";
        }
        return location;
    }
};

}  // namespace

const Format& adapter_format() {
    static const PeftAdapter format;
    return format;
}

}  // namespace shardweld::formats::hf
