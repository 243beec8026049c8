// HuggingFace model directories.
// Knows the directory's layout; which files are weights is model_files', what they hold
// join_files'.

#include "hf.hpp"

#include <array>
#include <span>
#include <utility>

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/core/error.hpp"

#include "../shared/directory_listing.hpp"
#include "../shared/signs.hpp"
#include "join_files.hpp"
#include "weight_files.hpp"

namespace shardweld::formats::hf {

namespace {

using catalogue::Catalogue;

constexpr std::array<KnownName, 1> kNames = {{
    {"sharded/*", "the shards from which torch's HuggingFace storage writer made the model"},
}};

class HuggingFace final : public Format {
  public:
    [[nodiscard]] std::string_view name() const override { return "huggingface"; }
    [[nodiscard]] std::string_view backend() const override { return "hf"; }
    [[nodiscard]] bool only_by_name() const override { return true; }
    [[nodiscard]] std::string_view noun() const override { return "HuggingFace model"; }
    [[nodiscard]] bool holds_weights_only() const override { return true; }
    [[nodiscard]] std::string_view looks_for() const override {
        return "model.safetensors, *.safetensors, pytorch_model*.bin, their index";
    }
    [[nodiscard]] bool is_told_by(const Listing& listing) const override {
        return is_hf_model(listing);
    }
    void refuse_unasked(const fs::path& directory) const override {
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

    [[nodiscard]] std::vector<std::string> scan_list(const Location& location) const override {
        return location.shard_files;
    }

    [[nodiscard]] Catalogue scan(const Location& location, const std::string& file) const override {
        return scan_file(location, file);
    }

    [[nodiscard]] Catalogue combine(const Location& location,
                                    std::vector<Catalogue> scans) const override {
        return join_files(location, std::move(scans), Strays::left_aside);
    }
};

}  // namespace

const Format& hf_format() {
    static const HuggingFace format;
    return format;
}

}  // namespace shardweld::formats::hf
