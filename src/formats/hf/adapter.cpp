#include "adapter.hpp"

#include <array>
#include <span>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "formats/shared/directory_listing.hpp"

#include "join_files.hpp"

namespace shardweld::formats::hf {

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
    [[nodiscard]] bool only_by_name() const override { return true; }
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
