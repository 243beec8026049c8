// Megatron distributed checkpoints of the zarr backend, which cores before 0.13 could write: one
// directory for each key, an array or objects.
// Sources: megatron-core 0.12.2 megatron/core/dist_checkpointing/strategies/{zarr,tensorstore}.py.

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "core/in_context.hpp"
#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/registry.hpp"
#include "formats/shared/assembler.hpp"
#include "formats/shared/dcp_blobs.hpp"
#include "formats/shared/directory_listing.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "dist_state.hpp"
#include "model_names.hpp"
#include "zarr_array.hpp"

namespace shardweld::formats::megatron {

namespace {

using io::is_file;

// A file of the checkpoint that is no chunk; one that vanishes meanwhile counts as empty.
ObjectPlace object_in(const Location& location, const std::string& path) {
    std::error_code failed;
    const auto size = fs::file_size(location.directory / path, failed);
    return {path, 0, failed ? 0 : size};
}

// Bytes of files in a key's directory.
Bytes bytes_of(const Location& location, const std::string& key,
               const std::vector<std::string>& files) {
    Bytes bytes = 0;
    for (const std::string& file : files) {
        bytes = checked_add_bytes(bytes, object_in(location, key + "/" + file).length,
                                  "bytes left aside");
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
        leave_aside_object(location, object_in(location, key + "/" + file), key, ignored);
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
        if (!row && std::ranges::any_of(listing.files, is_chunk_name)) {
            throw Error(ErrorCode::not_found, printable(key) + " has chunk files but no .zarray",
                        "copy it again, hidden files too; if the save was interrupted, take an "
                        "earlier one");
        }
        if (!row && is_in_module(key)) {
            leave_objects(location, key, listing, ignored);
        } else {
            for (const std::string& file : row ? std::vector<std::string>() : listing.files) {
                require_no_part(location, object_in(location, key + "/" + file), key);
            }
            ignored.add(row ? *row : RowName(printable(key), "not a tensor"),
                        std::ssize(listing.files), bytes_of(location, key, listing.files));
        }
    }
    Catalogue out;
    out.ignored = ignored.rows();
    return out;
}

Catalogue scan_array(const Location& location, const std::string& key) {
    const fs::path& directory = location.directory;
    const auto row = ignored_row(key);
    if (!row) {
        return read_zarr_array(directory, key);
    }
    IgnoredRows ignored;
    ignored.add(*row, 1, bytes_of(location, key, list_directory(directory / key).files));
    Catalogue out;
    out.ignored = ignored.rows();
    return out;
}

void require_tensors(const Location& location, const std::vector<Tensor>& tensors) {
    if (tensors.empty()) {
        throw Error(
            ErrorCode::not_found,
            location.directory.string() + " has no directory with a model tensor's .zarray",
            "copy it again, hidden files too; if the save was interrupted, take an earlier one");
    }
}

std::string zarr_summary(const Catalogue& catalogue) {
    return "Megatron zarr checkpoint" + catalogue::iteration_text(catalogue.facts) + ", " +
           std::to_string(catalogue.tensors.size()) + " arrays in " +
           std::to_string(catalogue.files.size()) + " chunk files";
}

std::optional<Location> probe_zarr(const fs::path& directory, const Listing& listing) {
    if (!listing.has_file(kBackendFile) || sharded_backend(directory / kBackendFile) != "zarr") {
        return std::nullopt;
    }
    Location location = begun_at(zarr_format, directory);
    for (const std::string& key : listing.directories) {
        if (is_file(directory / key / kArrayFile)) {
            location.shard_files.push_back(key + "/" + kArrayFile);
        }
    }
    return location;
}

StateScan scan_zarr(const Location& location, const std::string& file) {
    const fs::path path = file;
    return in_context("file ", file, [&] {
        return file == kBackendFile ? StateScan{scan_objects(location)}
               : path.filename() == kArrayFile
                   ? StateScan{scan_array(location, path.parent_path().string())}
                   : scan_beside(location, file);
    });
}

Catalogue join_zarr(const Location& location, std::vector<StateScan> scans) {
    Catalogue out;
    Assembler all(out);
    out.facts = location.facts;
    FileState known;
    for (StateScan& one : scans) {
        StateScan scan = std::exchange(one, {});
        all.add_scan(scan.told);
        for (Tensor& tensor : scan.told.tensors) {
            tensor.name = model_name(tensor.name);
            out.tensors.push_back(std::move(tensor));
        }
        // The first claims are kept, as args are nearer to the run.
        add_claims(scan, known, out);
    }
    require_tensors(location, out.tensors);
    sort_tensors(out.tensors);
    order_files(out, Unused::kept);
    all.finish();
    add_global_facts(out);
    out.notes = {zarr_summary(out)};
    note_unchecked(out);
    return out;
}

}  // namespace

const Format zarr_format = of_megatron({
    .name = "megatron zarr",
    .detail_of = [](const Location& /*location*/) { return std::string("zarr"); },
    .probe = probe_zarr,
    .scan_list =
        [](const Location& location) {
            std::vector<std::string> files = metadata_files(location, kBackendFile);
            append_all(files, location.shard_files);
            return files;
        },
    .scan = scan_typed<FileState, scan_zarr>,
    .combine = combine_typed<FileState, join_zarr>,
});

}  // namespace shardweld::formats::megatron
