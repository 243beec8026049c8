// Megatron distributed checkpoints of the zarr backend, which cores before 0.13 could write: one
// directory for each key, an array or objects.
// Sources: megatron-core 0.12.2 megatron/core/dist_checkpointing/strategies/{zarr,tensorstore}.py.

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/registry.hpp"
#include "formats/shared/dcp_blobs.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/file_scan.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "dist_state.hpp"
#include "model_names.hpp"
#include "zarr_array.hpp"

namespace shardweld::formats::megatron {

namespace {

using catalogue::Catalogue;

using io::is_file;

constexpr std::array<KnownName, 1> kNames = {{{"*/", ""}}};  // each is one key's

// Bytes of all files in a listing; those that vanish meanwhile count as nothing.
Bytes bytes_of(const fs::path& directory, const std::vector<std::string>& files) {
    Bytes bytes = 0;
    for (const std::string& file : files) {
        std::error_code failed;
        const auto size = fs::file_size(directory / file, failed);
        bytes = checked_add_bytes(bytes, failed ? 0 : size, "bytes left aside");
    }
    return bytes;
}

// <key>/shard_<i>_<n>.pt.
void leave_objects(const Location& location, const std::string& key, const Listing& listing,
                   IgnoredRows& ignored) {
    for (const std::string& file : listing.files) {
        if (!file.ends_with(".pt")) {
            throw Error(ErrorCode::unsupported,
                        printable(key) + " has neither .zarray nor objects (*.pt), but " +
                            printable(file) + ", which is not read",
                        "load and save it once with --ckpt-format torch_dist");
        }
        const std::string path = key + "/" + file;
        std::error_code failed;
        const auto size = fs::file_size(location.directory / path, failed);
        leave_aside_object(location, {path, 0, failed ? 0 : size}, key, ignored);
    }
}

// Directories without an array hold objects.
Catalogue scan_objects(const Location& location) {
    const fs::path& directory = location.directory;
    IgnoredRows ignored;
    for (const std::string& key : list_directory(directory).directories) {
        if (is_file(directory / key / kArrayFile)) {
            continue;
        }
        const Listing listing = list_directory(directory / key);
        const auto row = ignored_row(key);
        if (!row && std::any_of(listing.files.begin(), listing.files.end(), is_chunk_name)) {
            throw Error(ErrorCode::not_found, printable(key) + " has chunk files but no .zarray",
                        "copy it again, hidden files too; if the save was interrupted, take an "
                        "earlier one");
        }
        if (!row && is_in_module(key)) {
            leave_objects(location, key, listing, ignored);
        } else {
            for (const std::string& file : row ? std::vector<std::string>() : listing.files) {
                std::error_code failed;
                const std::string path = key + "/" + file;
                const auto size = fs::file_size(directory / path, failed);
                require_no_part(location, {path, 0, failed ? 0 : size}, key);
            }
            ignored.add(row ? *row : std::pair(printable(key), std::string("not a tensor")),
                        static_cast<Index>(listing.files.size()),
                        bytes_of(directory / key, listing.files));
        }
    }
    Catalogue out;
    out.ignored = ignored.take();
    return out;
}

Catalogue scan_array(const fs::path& directory, const std::string& key) {
    const auto row = ignored_row(key);
    if (!row) {
        return read_zarr_array(directory, key);
    }
    IgnoredRows ignored;
    ignored.add(*row, 1, bytes_of(directory / key, list_directory(directory / key).files));
    Catalogue out;
    out.ignored = ignored.take();
    return out;
}

// Adds what one scan found; the first claims are kept, as args are nearer to the run.
void absorb(StateScan added, FileState& known, IgnoredRows& ignored, Catalogue& out) {
    Catalogue& scan = added.told;
    const auto first_file = static_cast<std::uint32_t>(out.files.size());
    std::move(scan.files.begin(), scan.files.end(), std::back_inserter(out.files));
    for (auto& tensor : scan.tensors) {
        tensor.name = model_name(tensor.name);
        for (auto& piece : tensor.pieces) {
            piece.file += first_file;
        }
        out.tensors.push_back(std::move(tensor));
    }
    ignored.add(scan.ignored);
    std::move(scan.statements.begin(), scan.statements.end(), std::back_inserter(out.statements));
    for (const auto& [global, count] : scan.inert_globals) {
        out.inert_globals[global] += count;
    }
    add_claims(added, known, out);
}

void sort_files(Catalogue& out) {
    std::vector<std::uint32_t> order(out.files.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return natural_less(out.files[a].path, out.files[b].path);
    });
    std::vector<catalogue::File> files;
    std::vector<std::uint32_t> number(order.size());
    for (const std::uint32_t old : order) {
        number[old] = static_cast<std::uint32_t>(files.size());
        files.push_back(std::move(out.files[old]));
    }
    out.files = std::move(files);
    for (auto& tensor : out.tensors) {
        for (auto& piece : tensor.pieces) {
            piece.file = number[piece.file];
        }
    }
}

void require_tensors(const Location& location, const std::vector<catalogue::Tensor>& tensors) {
    if (tensors.empty()) {
        throw Error(
            ErrorCode::not_found,
            location.directory.string() + " has no directory with a model tensor's .zarray",
            "copy it again, hidden files too; if the save was interrupted, take an earlier one");
    }
}

std::string zarr_summary(const Catalogue& catalogue) {
    std::string text = "Megatron zarr checkpoint";
    if (const auto at = catalogue.facts.find("iteration"); at != catalogue.facts.end()) {
        text += ", iteration " + std::to_string(at->second);
    }
    return text + ", " + std::to_string(catalogue.tensors.size()) + " arrays in " +
           std::to_string(catalogue.files.size()) + " chunk files";
}

class Zarr final : public FormatOf<FileState> {
  public:
    [[nodiscard]] std::string_view name() const override { return "megatron zarr"; }
    [[nodiscard]] std::string_view backend() const override { return "megatron"; }
    [[nodiscard]] std::string_view noun() const override { return "Megatron checkpoint"; }
    [[nodiscard]] std::string_view dialect() const override { return "megatron_core"; }
    [[nodiscard]] std::string_view subject_of(InputOption option) const override {
        return option == InputOption::prefix ? "Megatron checkpoints" : "";
    }
    [[nodiscard]] bool pads_vocabulary() const override { return true; }
    [[nodiscard]] std::string detail_of(const Location& /*location*/) const override {
        return "zarr";
    }

    [[nodiscard]] std::span<const KnownName> known_names() const override { return kNames; }

    [[nodiscard]] std::optional<Location> probe(const fs::path& directory) const override {
        if (!is_file(directory / kBackendFile) ||
            sharded_backend(directory / kBackendFile) != "zarr") {
            return std::nullopt;
        }
        Location location = begun_at(directory);
        for (const std::string& key : list_directory(directory).directories) {
            if (is_file(directory / key / kArrayFile)) {
                location.shard_files.push_back(key + "/" + kArrayFile);
            }
        }
        return location;
    }

    [[nodiscard]] std::vector<std::string> scan_list(const Location& location) const override {
        std::vector<std::string> files = metadata_files(location, kBackendFile);
        files.insert(files.end(), location.shard_files.begin(), location.shard_files.end());
        return files;
    }

  private:
    [[nodiscard]] StateScan scan_file(const Location& location,
                                      const std::string& file) const override {
        const fs::path path = location.directory / file;
        try {
            if (file == kBackendFile) {
                return {scan_objects(location)};
            }
            if (file == kCommonFile) {
                return scan_state(io::InputFile::open(path), file, {}, location.check_crc);
            }
            return {path.filename() == kArrayFile
                        ? scan_array(location.directory, fs::path(file).parent_path().string())
                        : scan_claims(path.lexically_normal())};
        } catch (Error& error) {
            error.add_context("file " + printable(file));
            throw;
        }
    }

    [[nodiscard]] Catalogue join(const Location& location,
                                 std::vector<StateScan> scans) const override {
        Catalogue out;
        IgnoredRows ignored;
        out.facts = location.facts;
        FileState known;
        for (StateScan& scan : scans) {
            absorb(std::move(scan), known, ignored, out);
        }
        require_tensors(location, out.tensors);
        sort_tensors(out.tensors);
        sort_files(out);
        out.ignored = ignored.take();
        add_global_facts(out);
        out.notes = {zarr_summary(out)};
        note_unchecked(out);
        return out;
    }
};

}  // namespace

const Format& zarr_format() {
    static const Zarr format;
    return format;
}

}  // namespace shardweld::formats::megatron
