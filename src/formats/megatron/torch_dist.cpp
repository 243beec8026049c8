// Megatron distributed checkpoints: `.metadata`, *.distcp, common.pt, metadata.json.
// Sources: megatron-core 0.16.1 megatron/core/dist_checkpointing/{core,serialization}.py.
#include <algorithm>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/containers/dcp_metadata.hpp"
#include "formats/format.hpp"
#include "formats/registry.hpp"
#include "formats/shared/dcp_blobs.hpp"
#include "formats/shared/dcp_pieces.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/file_sets.hpp"
#include "formats/shared/training_state.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "adapter.hpp"
#include "dist_state.hpp"
#include "model_names.hpp"

namespace shardweld::formats::megatron {

namespace {

/// The common state of megatron-core 0.19, in the first rank's file, as `.metadata` is that rank's.
void read_common_state(const Location& location, const DcpObject& object, const std::string& file,
                       StateScan& scan) {
    catalogue::Catalogue& out = scan.told;
    const fs::path path = location.directory / file;
    if (object.length == 0 || !io::is_file(path)) {
        out.warnings["args_unread"] = std::string(kCommonState) + " lies in " + printable(file) +
                                      ", which is not seen where .metadata is: the run's "
                                      "arguments are not compared with config.json";
        return;
    }
    try {
        StateScan state = scan_state(io::InputFile::open(path), file,
                                     {object.offset, object.length}, location.check_crc);
        out.statements = std::move(state.told.statements);
        out.inert_globals = std::move(state.told.inert_globals);
        add_claims(state, scan.own, out);
    } catch (Error& error) {
        error.add_context(std::string(kCommonState) + " in " + printable(file));
        throw;
    }
}

/// Model tensors with their chunks as unlocated pieces; training state and byte objects are counted
/// as ignored. Error(not_found) naming all shard files that are needed and absent,
/// Error(unsupported) for compressed shards and adapters.
StateScan read_index(const Location& location) {
    auto metadata = DcpMetadata::read(location.directory / ".metadata");
    if (metadata.has_transforms) {
        throw Error(ErrorCode::unsupported, "the shards are compressed",
                    "save without compression (transforms)");
    }
    StateScan scan;
    catalogue::Catalogue& out = scan.told;
    IgnoredRows ignored;
    for (const DcpTensor& tensor : metadata.tensors) {
        if (const auto row = ignored_row(tensor.name)) {
            ignored.add(*row, 1, stored_bytes(tensor));
        } else {
            out.tensors.push_back(tensor_of(tensor));
            out.tensors.back().name = model_name(tensor.name);
            undo_halves(out.tensors.back());
        }
    }
    for (const DcpObject& object : metadata.objects) {
        const auto row = ignored_row(object.name);
        const std::string name = object.name.substr(0, object.name.find("/shard_"));
        const std::string file =
            object.length == 0 ? std::string("no file") : metadata.files.at(object.file);
        if (row || !is_in_module(name) || object.length == 0) {
            if (!row && name != kCommonState) {
                require_no_part(location, {file, object.offset, object.length}, name);
            }
            ignored.add(row ? *row : std::pair(printable(name), std::string("not a tensor")), 1,
                        object.length);
        } else {
            leave_aside_object(location, {file, object.offset, object.length}, name, ignored);
        }
        if (name == kCommonState) {
            read_common_state(location, object, file, scan);
        }
    }
    sort_tensors(out.tensors);
    out.ignored = ignored.take();
    note_unnamed(location, location.shard_files, metadata.files, out);
    keep_used_files(std::move(metadata.files), out, metadata.ends);
    add_save_name(metadata.checkpoint_id, ".metadata", out);
    add_likenesses(".metadata", out);
    return scan;
}

using catalogue::Catalogue;

constexpr const char* kIndexFile = ".metadata";
// Megatron's copy of the tokenizer's files. Only HuggingFace's own has settings among them.
constexpr const char* kTokenizer = "tokenizer";

// How much of `.metadata` is searched for Megatron's names: it begins with the keys.
constexpr Bytes kSearchedBytes = 4U << 20U;

void require_torch_dist(const std::string& backend, const fs::path& directory) {
    if (backend != "torch_dist") {
        throw Error(ErrorCode::unsupported,
                    directory.string() + " is a Megatron checkpoint with sharded_backend \"" +
                        printable(backend) + "\", which is not read",
                    "load and save it once with --ckpt-format torch_dist; this build reads "
                    "torch_dist, zarr and legacy mp_rank_* directories");
    }
}

// Plain DCP directories are Megatron's when their keys are.
bool has_megatron_keys(const fs::path& path) {
    const auto file = io::InputFile::open(path);
    std::string text(to_size(std::min(file.size(), kSearchedBytes), ".metadata"), '\0');
    file.read_at(0, std::as_writable_bytes(std::span(text)));
    return holds_megatron_name(text);
}

bool is_ours(const fs::path& directory, const Listing& listing) {
    const auto backend =
        listing.has_file(kBackendFile) ? sharded_backend(directory / kBackendFile) : std::nullopt;
    if (backend) {
        require_torch_dist(*backend, directory);
        if (!listing.has_file(kIndexFile)) {
            throw Error(ErrorCode::not_found,
                        directory.string() + " has metadata.json but no .metadata",
                        "copy it again, hidden files too; if the save was interrupted, take an "
                        "earlier one");
        }
        return true;
    }
    return listing.has_file(kIndexFile) && !is_bytecheckpoint(directory / kIndexFile) &&
           (listing.has_file(kCommonFile) || has_megatron_keys(directory / kIndexFile));
}

// With a weight bridge verl keeps only training state here.
void require_model(const Location& location, const Catalogue& catalogue) {
    if (!catalogue.tensors.empty()) {
        return;
    }
    refuse_only_state(location.directory.string(), catalogue,
                      location.hf_directory
                          ? "look for the model's weights in " + location.hf_directory->string()
                          : "");
}

std::string summary(const Catalogue& catalogue) {
    std::string text = "Megatron torch_dist checkpoint";
    if (const auto at = catalogue.facts.find("iteration"); at != catalogue.facts.end()) {
        text += ", iteration " + std::to_string(at->second);
    }
    return text + ", " + std::to_string(catalogue.files.size()) + " shard files";
}

class TorchDist final : public FormatOf<FileState> {
  public:
    [[nodiscard]] std::string_view name() const override { return "megatron torch_dist"; }
    [[nodiscard]] std::string_view backend() const override { return "megatron"; }
    [[nodiscard]] std::string_view noun() const override { return "Megatron checkpoint"; }
    [[nodiscard]] std::string_view dialect() const override { return "megatron_core"; }
    [[nodiscard]] std::string_view subject_of(InputOption option) const override {
        return option == InputOption::prefix ? "Megatron checkpoints" : "";
    }
    [[nodiscard]] bool pads_vocabulary() const override { return true; }
    [[nodiscard]] std::string detail_of(const Location& /*location*/) const override {
        return "torch_dist";
    }
    [[nodiscard]] std::string_view looks_for() const override { return ".metadata"; }

    [[nodiscard]] std::optional<Location> probe(const fs::path& directory) const override {
        const Listing listing = try_list_directory(directory);
        if (!is_ours(directory, listing)) {
            return std::nullopt;
        }
        Location location = begun_at(directory);
        for (const std::string& file : listing.files) {
            if (file.ends_with(".distcp") || file.ends_with(".safetensors")) {
                location.shard_files.push_back(file);
            }
        }
        if (io::is_file(directory / kTokenizer / "tokenizer_config.json")) {
            location.tokenizer_directory = directory / kTokenizer;
        }
        return location;
    }

    [[nodiscard]] std::vector<std::string> scan_list(const Location& location) const override {
        return metadata_files(location, kIndexFile);
    }

    [[nodiscard]] Resolution resolve(const Location& location, const Catalogue& catalogue,
                                     std::span<const std::uint32_t> files,
                                     const std::function<void()>& before_file) const override {
        return locate_blobs(location, catalogue, files, before_file);
    }

  private:
    [[nodiscard]] StateScan scan_file(const Location& location,
                                      const std::string& file) const override {
        try {
            if (file == kIndexFile) {
                return read_index(location);
            }
            const fs::path path = location.directory / file;
            return file == kCommonFile
                       ? scan_state(io::InputFile::open(path), file, {}, location.check_crc)
                       : StateScan{scan_claims(path.lexically_normal())};
        } catch (Error& error) {
            error.add_context("file " + file);
            throw;
        }
    }

    [[nodiscard]] Catalogue join(const Location& location,
                                 std::vector<StateScan> scans) const override {
        auto& [out, known] = scans.front();
        require_model(location, out);
        for (const auto& [name, value] : location.facts) {
            out.facts[name] = value;
        }
        for (std::size_t i = 1; i < scans.size(); ++i) {
            Catalogue& scan = scans[i].told;
            std::move(scan.statements.begin(), scan.statements.end(),
                      std::back_inserter(out.statements));
            for (const auto& [global, count] : scan.inert_globals) {
                out.inert_globals[global] += count;
            }
            add_claims(scans[i], known, out);
        }
        tell_unnamed(out);
        add_global_facts(out);
        out.notes = {summary(out)};
        note_unchecked(out);
        return std::move(out);
    }
};

}  // namespace

const Format& torch_dist_format() {
    static const TorchDist format;
    return format;
}

}  // namespace shardweld::formats::megatron
