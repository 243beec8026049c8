// ByteCheckpoint's model/ directory: DCP's index with a class of its own, items without archives.
// Source: bytecheckpoint 0.0.2 bytecheckpoint/checkpointer, engine/store_engine.py.

#include <algorithm>
#include <utility>

#include "core/in_context.hpp"
#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/containers/dcp_metadata.hpp"
#include "formats/megatron/model_names.hpp"
#include "formats/registry.hpp"
#include "formats/shared/dcp_blobs.hpp"
#include "formats/shared/dcp_pieces.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/model_values.hpp"
#include "formats/shared/module_names.hpp"
#include "formats/shared/neighbour_names.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::bytecheckpoint {

namespace {

constexpr const char* kMetadata = ".metadata";

// optimizer/ is saved in the same form: state.NAME.exp_avg, param_groups... Modules may be called
// so.
bool is_optimizer_key(std::string_view key) {
    const std::string_view first = key.substr(0, key.find('.'));
    return (first == "state" || first == "param_groups") && !is_called_as_weight(key);
}

// Keys are names of the module tree, or Megatron's.
void name_tensors(Catalogue& out) {
    const bool is_megatron = std::ranges::any_of(out.tensors, [](const Tensor& tensor) {
        return megatron::holds_megatron_name(tensor.stored_as);
    });
    for (Tensor& tensor : out.tensors) {
        if (is_megatron) {
            tensor.name = megatron::model_name(without_wrappers(tensor.stored_as));
        }
    }
    out.dialect = is_megatron ? "megatron_core" : "hf_module";
    megatron::sort_tensors(out.tensors);
}

void add_tensor(const DcpTensor& stored, const DcpMetadata& metadata, IgnoredRows& ignored,
                Catalogue& out) {
    if (is_optimizer_key(stored.name)) {
        ignored.add({"state.*", "training state"}, 1, stored_bytes(stored));
    } else if (is_extra_state(stored.name)) {
        ignored.add({"*_extra_state", "extra state"}, 1, stored_bytes(stored));
    } else if (is_flat_parameter(stored.name)) {
        refuse_flat_parameter("FSDP's " + printable(stored.name) + " is saved",
                              "save without save_decomposed_model_optimizer");
    } else {
        out.tensors.push_back(tensor_of(stored, metadata.views));
    }
}

Scan scan_metadata(const Location& location, const std::string& /*file*/) {
    DcpMetadata metadata = DcpMetadata::read(location.directory / kMetadata);
    if (metadata.views.empty() && !metadata.tensors.empty()) {
        throw Error(ErrorCode::corrupt, ".metadata has no all_tensor_metadata",
                    "copy the file of the save again");
    }
    Catalogue out;
    IgnoredRows ignored;
    for (const DcpTensor& stored : metadata.tensors) {
        add_tensor(stored, metadata, ignored, out);
    }
    for (const DcpObject& object : metadata.objects) {
        if (is_optimizer_key(object.name)) {
            ignored.add({pattern_of(printable(object.name)), "training state"}, 1, object.length);
        } else {
            leave_aside_object(location, place_of(object, metadata), without_wrappers(object.name),
                               ignored);
        }
    }
    name_tensors(out);
    out.ignored = ignored.rows();
    take_files(location, location.shard_files, std::move(metadata.files), out);
    add_likenesses(kMetadata, out);
    return out;
}

std::optional<Location> probe_directory(const fs::path& directory, const Listing& listing) {
    if (!is_bytecheckpoint(directory / kMetadata)) {
        return std::nullopt;
    }
    Location location = begun_at(bytecheckpoint_format, directory, &listing);
    location.shard_files = filter_list(
        listing.files, [](const std::string& file) { return file.ends_with(".distcp"); });
    return location;
}

Catalogue combine_scan(const Location& location, std::vector<Scan> scans) {
    Catalogue out = std::move(scans.front());
    if (out.tensors.empty()) {
        refuse_only_state(location.directory.string(), out,
                          "give the directory above, or its model/");
    }
    in_context("file ", kMetadata,
               [&] { std::ranges::for_each(out.tensors, [](auto& one) { check_tiling(one); }); });
    tell_unnamed(out);
    out.facts = location.facts;
    if (out.dialect == "megatron_core") {  // whole tensors: nothing is interleaved by rank
        out.facts.insert({{"t", 1}, {"te", 1}, {"version", 3}});
    }
    out.notes = {"ByteCheckpoint checkpoint, " + counted(out.files.size(), "shard file")};
    if (out.dialect == "megatron_core") {
        out.notes.emplace_back(kNothingStated);
    }
    return out;
}

}  // namespace

/// model/.metadata and *.distcp whose items are bare elements.
const Format bytecheckpoint_format = {
    .name = "bytecheckpoint",
    .backend = "bytecheckpoint",
    .noun = "ByteCheckpoint checkpoint",
    .ranks = part_grid,
    .probe = probe_directory,
    .scan_list = [](const Location& /*location*/) { return std::vector<std::string>{kMetadata}; },
    .scan = scan_metadata,
    .combine = combine_scan,
    .resolve =
        [](const Location& location, const Catalogue& catalogue,
           std::span<const std::uint32_t> files, const std::function<void()>& before_file) {
            return locate_blobs(location, catalogue, files, before_file, false);
        },
};

}  // namespace shardweld::formats::bytecheckpoint
