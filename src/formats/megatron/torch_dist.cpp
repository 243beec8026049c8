// Megatron distributed checkpoints: `.metadata`, *.distcp, common.pt, metadata.json.
// Sources: megatron-core 0.16.1 megatron/core/dist_checkpointing/{core,serialization}.py.

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "core/in_context.hpp"
#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/containers/dcp_metadata.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/format.hpp"
#include "formats/registry.hpp"
#include "formats/shared/assembler.hpp"
#include "formats/shared/dcp_blobs.hpp"
#include "formats/shared/dcp_pieces.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/neighbour_names.hpp"
#include "formats/shared/optimizer_claims.hpp"
#include "formats/shared/optimizer_file.hpp"
#include "formats/shared/scalar_value.hpp"
#include "formats/shared/settings.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "dist_state.hpp"
#include "model_names.hpp"
#include "optimizer_state.hpp"

namespace shardweld::formats::megatron {

namespace {

/// Adds what an object among the shards says, called as
/// "chained_0.optimizer.distributed.dp_group_idx_1.optimizer"; others are left alone, and those in
/// files that are not seen here. Error(unsupported) for an object that is itself the state of a
/// group of ranks; Error as by the claims.
void add_group_settings(const Location& location, std::string_view name, const ObjectPlace& place,
                        GroupClaims& groups, StepClaims& steps) {
    const std::size_t group = name.find("dp_group_idx_");
    if (group == std::string_view::npos) {
        return;
    }
    if (name.ends_with(".param_state")) {
        throw Error(
            ErrorCode::unsupported,
            "the optimizer's state is kept as one object for each group of ranks (" +
                printable(name) + "), which is not read",
            kWeightsOnly + std::string(", or save once with --dist-ckpt-optim-fully-reshardable"));
    }
    const fs::path path = location.directory / place.file;
    if (!name.ends_with(".optimizer") || place.length == 0 || !io::is_file(path)) {
        return;
    }
    in_context(printable(name) + " in ", place.file, [&] {
        const auto input = io::InputFile::open(path);
        const TorchFile opened = TorchFile::read(input, place.offset, place.length);
        const PickleValue& root = only_element_of(opened.root());
        if (root.is_mapping()) {
            auto stated = groups_of(root.find("param_groups"), ScalarReader(opened, input));
            steps.add(stated, printable(name));
            groups.add(std::string(name.substr(0, group)), std::move(stated), printable(name));
        }
    });
}

/// Takes the step that a place tells. Error(mismatch) where another has told another one.
void note_step(double step, const char* place, Optimizer& out) {
    StepClaims steps;
    if (out.step) {
        steps.add(real_text(*out.step), "another place of this save");
    }
    steps.add(real_text(step), place);
    out.step = step;
}

/// What a common state says of the optimizer, beside the states themselves.
void take_settings(StateScan& scan, Catalogue& out) {
    Optimizer& told = scan.told.optimizer;
    if (!told.groups.empty()) {
        out.optimizer.groups = std::move(told.groups);
    }
    if (told.step) {
        note_step(*told.step, "the common state", out.optimizer);
    }
    if (!told.scheduler.empty()) {
        out.optimizer.scheduler = std::move(told.scheduler);
    }
    if (!told.form.empty()) {
        out.optimizer.form = std::move(told.form);
        out.optimizer.doubt = std::move(told.doubt);
    }
}

/// The common state of megatron-core 0.19, in the first rank's file, as `.metadata` is that rank's.
void read_common_state(const Location& location, const ObjectPlace& place, StateScan& scan) {
    Catalogue& out = scan.told;
    const fs::path path = location.directory / place.file;
    if (place.length == 0 || !io::is_file(path)) {
        out.warnings["args_unread"] = std::string(kCommonState) + " lies in " +
                                      printable(place.file) +
                                      ", which is not seen where .metadata is: the run's "
                                      "arguments are not compared with config.json";
        return;
    }
    in_context(std::string(kCommonState) + " in ", place.file, [&] {
        StateScan state = scan_state(io::InputFile::open(path), place, location);
        take_said(state.told, out);
        add_claims(state, scan.own, out);
        take_settings(state, out);
    });
}

/// Puts a tensor among the model's or, if it is asked for, among the optimizer's states; other
/// training state is counted as ignored.
void add_tensor(const Location& location, const DcpTensor& tensor, IgnoredRows& ignored,
                Catalogue& out) {
    const auto key = location.state == TakenState::weights ? std::nullopt
                                                           : state_key(tensor.name, location.state);
    if (key && take_state(*key, tensor_of(tensor), location.state, out.optimizer)) {
        return;
    }
    if (const auto row = ignored_row(tensor.name)) {
        ignored.add(*row, 1, stored_bytes(tensor));
        return;
    }
    out.tensors.push_back(tensor_of(tensor));
    out.tensors.back().name = model_name(tensor.name);
    undo_halves(out.tensors.back());
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
    Catalogue& out = scan.told;
    IgnoredRows ignored;
    GroupClaims group_claims;
    StepClaims step_claims;
    for (const DcpTensor& tensor : metadata.tensors) {
        add_tensor(location, tensor, ignored, out);
    }
    for (const DcpObject& object : metadata.objects) {
        const auto row = ignored_row(object.name);
        const std::string name = object.name.substr(0, object.name.find("/shard_"));
        const ObjectPlace place =
            object.length == 0 ? ObjectPlace{"no file", 0, 0} : place_of(object, metadata);
        if (row || !is_in_module(name) || object.length == 0) {
            if (!row && name != kCommonState) {
                require_no_part(location, place, name);
            }
            ignored.add(row ? *row : RowName(printable(name), "not a tensor"), 1, object.length);
        } else {
            leave_aside_object(location, place, name, ignored);
        }
        if (name == kCommonState) {
            read_common_state(location, place, scan);
        }
        require_no_state(name, location.state);
        if (location.state != TakenState::weights && object.length != 0) {
            add_group_settings(location, name, place, group_claims, step_claims);
        }
    }
    if (const auto step = step_claims.step()) {
        note_step(*step, "the groups of ranks", out.optimizer);
    }
    group_claims.finish(out.optimizer);
    scan.own.given = given_optimizer(location);
    catalogue::each_part(out, [](auto& tensors, auto& /*shards*/) { sort_tensors(tensors); });
    out.ignored = ignored.rows();
    take_files(location, location.shard_files, std::move(metadata.files), out);
    add_save_name(metadata.checkpoint_id, ".metadata", out);
    add_likenesses(".metadata", out);
    return scan;
}

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
    if (backend && !backend->empty()) {
        require_torch_dist(*backend, directory);
        if (!listing.has_file(kIndexFile)) {
            throw Error(ErrorCode::not_found,
                        directory.string() + " has metadata.json but no .metadata",
                        "copy it again, hidden files too; if the save was interrupted, take an "
                        "earlier one");
        }
        return true;
    }
    const bool has_keys =
        listing.has_file(kIndexFile) && !is_bytecheckpoint(directory / kIndexFile) &&
        (listing.has_file(kCommonFile) || has_megatron_keys(directory / kIndexFile));
    if (has_keys && backend) {
        throw Error(ErrorCode::corrupt,
                    (directory / kBackendFile).string() + " is not a JSON object",
                    "copy it again, or remove it: the other files say what they are");
    }
    return has_keys;
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
    return "Megatron torch_dist checkpoint" + catalogue::iteration_text(catalogue.facts) + ", " +
           counted(catalogue.files.size(), "shard file");
}

std::optional<Location> probe_torch_dist(const fs::path& directory, const Listing& listing) {
    if (!is_ours(directory, listing)) {
        return std::nullopt;
    }
    Location location = begun_at(torch_dist_format, directory);
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

StateScan scan_torch_dist(const Location& location, const std::string& file) {
    return in_context("file ", file, [&] {
        return file == kIndexFile ? read_index(location) : scan_beside(location, file);
    });
}

/// Requires a stack of experts whole: without a whole expert it looks like another model. Elsewhere
/// a missing chunk shows where layers and heads are known.
void require_experts(const Catalogue& catalogue) {
    for (const Tensor& tensor : catalogue.tensors) {
        if (has_part(tensor.name, "experts")) {
            const CoverFault fault = find_cover_fault(tensor);
            if (fault.held < volume_of(tensor.shape, "a tensor's shape")) {
                check_tiling(tensor, fault);
            }
        }
    }
}

Catalogue join_torch_dist(const Location& location, std::vector<StateScan> scans) {
    auto& [out, known] = scans.front();
    require_model(location, out);
    require_experts(out);
    for (const auto& [name, value] : location.facts) {
        out.facts[name] = value;
    }
    for (std::size_t i = 1; i < scans.size(); ++i) {
        take_said(scans[i].told, out);
        add_claims(scans[i], known, out);
        take_settings(scans[i], out);
    }
    add_given(known.given, out.optimizer);
    tell_unnamed(out);
    add_global_facts(out);
    out.notes = {summary(out)};
    note_unchecked(out);
    return std::move(out);
}

}  // namespace

const Format torch_dist_format = of_megatron({
    .name = "megatron torch_dist",
    .detail_of = [](const Location& /*location*/) { return std::string("torch_dist"); },
    .ranks = part_grid,
    .probe = probe_torch_dist,
    .scan_list = [](const Location& location) { return metadata_files(location, kIndexFile); },
    .scan = scan_typed<FileState, scan_torch_dist>,
    .combine = combine_typed<FileState, join_torch_dist>,
    .resolve = locate_archives,
    .split_flat_states = split_flat_states,
});

}  // namespace shardweld::formats::megatron
