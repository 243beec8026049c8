// Saves of torch_checkpointing: for each item and rank a file of torch.save or safetensors with the
// rank's local tensors, and metadata.pkl, which says where in the whole tensors they lie. Without a
// resharder there is no metadata.pkl, and DTensors say so themselves.
// Source: torch_checkpointing 0.1.1 checkpoint_writer.py, checkpoint_layout.py.

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "core/in_context.hpp"
#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/containers/dcp_metadata.hpp"
#include "formats/containers/safetensors_header.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/dcp/join_scans.hpp"
#include "formats/dcp/model_selection.hpp"
#include "formats/fsdp/dtensor.hpp"
#include "formats/fsdp/entries.hpp"
#include "formats/fsdp/rank_files.hpp"
#include "formats/registry.hpp"
#include "formats/shared/assembler.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/model_values.hpp"
#include "formats/shared/module_names.hpp"
#include "formats/typed_scan.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "metadata.hpp"

namespace shardweld::formats::torch_checkpointing {

namespace {

constexpr std::string_view kStaged = "tmp_";
constexpr std::string_view kSafetensors = ".safetensors";
constexpr const char* kModelItem = "model";
constexpr int kDeepestDictionary = 16;
constexpr const char* kSaveMetadata =
    "save with a resharder (ItemSpec(resharder=DefaultResharder())), which writes metadata.pkl";

/// Whose part of what a file is.
struct RankItem {
    std::string item;
    Index rank = 0;
    const SavedItem* saved = nullptr;  ///< null where no metadata.pkl tells of it
};

/// 3 of "model_3.pt".
std::optional<Index> rank_of(std::string_view file) {
    const auto found = match_rule(name_rules().shards, file, saved_format.name);
    return found ? std::optional(found->parts.number("rank")) : std::nullopt;
}

/// What the location has of metadata.pkl, decoded once for all files of a save.
std::shared_ptr<const Saved> saved_of(const Location& location) {
    static std::mutex guard;  // files are scanned by several threads
    static std::vector<std::byte> decoded_last;
    static std::shared_ptr<const Saved> saved;
    const std::lock_guard lock(guard);
    if (saved == nullptr || decoded_last != location.own) {
        saved = std::make_shared<const Saved>(decoded<Saved>(location.own));
        decoded_last = location.own;
    }
    return saved;
}

RankItem owner_of(const Saved& saved, const std::string& file) {
    for (const auto& [name, item] : saved.items) {
        for (const auto& [rank, path] : item.files) {
            if (path == file) {
                return {name, rank, item.tensors.empty() ? nullptr : &item};
            }
        }
    }
    throw Error(ErrorCode::internal, "no rank's file is called " + printable(file));
}

/// The path of an item's value: the item's name, and those below it.
std::string path_in(const std::string& item, std::vector<std::string> path) {
    path.insert(path.begin(), item);
    return dcp::path_name(path);
}

/// What a file's nested dictionaries and lists hold.
struct NestedValues {
    std::map<std::string, std::string> paths;  ///< by what they are called in the model
    fsdp::Entries entries;                     ///< their names are kept in `paths`
    std::size_t left = 0;                      ///< that may still be looked at
};

void add_nested(const std::string& item, const PickleValue& value, std::vector<std::string>& path,
                NestedValues& out) {
    if (out.left-- == 0) {
        throw Error(ErrorCode::corrupt, "its dictionaries hold themselves");
    }
    const bool is_list = value.is_list() && !value.elements().empty();
    if ((!value.is_mapping() && !is_list) || path.size() == kDeepestDictionary) {
        const std::string name = dotted(dcp::path_name(path));
        const auto [known, is_new] = out.paths.emplace(name, path_in(item, path));
        if (!is_new) {
            throw Error(ErrorCode::corrupt, "two values are called " + printable(name));
        }
        out.entries.emplace_back(known->first, &value);
        return;
    }
    const std::size_t count = is_list ? value.elements().size() : value.pair_count();
    for (std::size_t i = 0; i < count; ++i) {
        const bool is_number = is_list || value.key(i).kind == PickleKind::integer;
        path.push_back(is_list     ? std::to_string(i)
                       : is_number ? std::to_string(value.key(i).integer)
                                   : std::string(parameter_name(value.key(i))));
        add_nested(item, is_list ? *value.elements()[i] : value.value(i), path, out);
        path.pop_back();
    }
}

/// Puts one file's tensors where metadata.pkl says they lie.
class RankPlacer {
  public:
    RankPlacer(const Saved& saved, RankItem of, Catalogue& out)
        : saved_(saved), of_(std::move(of)), out_(out) {}

    /// `stored`: a rank's part of a tensor that says nothing itself.
    void add_plain(const std::string& name, std::string path, DType dtype,
                   const std::vector<Index>& shape, Piece piece) {
        in_context("tensor ", name, [&] {
            Tensor tensor{std::move(path), dtype, shape, {}, name};
            const Placing* const placing = placing_of(tensor.name);
            if (placing == nullptr) {
                tensor.pieces.push_back(std::move(piece));
                add(std::move(tensor));
                return;
            }
            StoredTensor local{
                dtype, shape, {}, piece.base, piece.storage_bytes, piece.patch.offset, piece.crc32};
            for (const auto& axis : piece.patch.axes) {
                local.strides.push_back(axis.stride);
            }
            const auto [lying, holding] = held(*placing, dtype);
            fsdp::require_local(local, holding, lying);
            tensor.shape = placing->shape;
            tensor.placement = holding.placement;
            tensor.pieces = fsdp::pieces_of(local, holding.runs);
            add(std::move(tensor));
        });
    }

    /// A DTensor, which both it and metadata.pkl place.
    void add_placed(Tensor tensor, std::string path) {
        in_context("tensor ", tensor.name, [&] {
            tensor.stored_as = std::exchange(tensor.name, std::move(path));
            if (const Placing* const placing = placing_of(tensor.name)) {
                const auto [lying, holding] = held(*placing, tensor.dtype);
                require_equal("its shape", tensor.shape, "the file", placing->shape, kMetadataFile);
                require_equal("its place on the ranks", tensor.placement, "the file",
                              holding.placement, kMetadataFile);
            }
            add(std::move(tensor));
        });
    }

    /// Error(mismatch) for a tensor that this rank holds and the file has not.
    void require_all(const std::set<std::string>& paths) const {
        if (of_.saved == nullptr) {
            return;
        }
        for (const auto& [path, placings] : of_.saved->tensors) {
            const bool is_held = std::ranges::any_of(placings, [&](const Placing& placing) {
                return saved_.seen_by(of_.rank, placing.mesh).has_value();
            });
            if (is_held && !paths.contains(path)) {
                throw mixed_saves_error(std::string(kMetadataFile) + " gives this file tensor " +
                                        printable(dotted(path)) + ", which it does not have");
            }
        }
    }

  private:
    [[nodiscard]] const Placing* placing_of(const std::string& path) {
        if (of_.saved == nullptr) {
            return nullptr;
        }
        const auto found = of_.saved->tensors.find(path);
        if (found != of_.saved->tensors.end()) {
            for (const Placing& placing : found->second) {
                if (auto mesh = saved_.seen_by(of_.rank, placing.mesh)) {
                    mesh_ = std::move(*mesh);
                    return &placing;
                }
            }
        }
        throw mixed_saves_error(std::string(kMetadataFile) + " does not say where rank " +
                                std::to_string(of_.rank) + "'s part of it lies");
    }

    /// On the mesh that placing_of has found.
    [[nodiscard]] std::pair<fsdp::Lying, fsdp::Holding> held(const Placing& placing, DType dtype) {
        require_equal("its type", dtype, "the file", placing.dtype, kMetadataFile);
        fsdp::Lying lying{placing.shape, placing.placements, &mesh_};
        fsdp::Holding holding = fsdp::make_holding(lying);
        return {std::move(lying), std::move(holding)};
    }

    void add(Tensor tensor) {
        n_pieces_ += tensor.pieces.size();
        if (n_pieces_ > fsdp::kMostPieces) {
            throw Error(ErrorCode::unsupported, "the tensors up to here fall into more than " +
                                                    std::to_string(fsdp::kMostPieces) + " boxes");
        }
        if (volume_of(tensor.shape, "a tensor's shape") > 0) {
            out_.tensors.push_back(std::move(tensor));
        }
    }

    const Saved& saved_;
    RankItem of_;
    Catalogue& out_;
    fsdp::RankMesh mesh_;
    std::size_t n_pieces_ = 0;
};

FileAssertion::Values rank_claims(const RankItem& of) {
    return {{"item", of.item}, {"rank", std::to_string(of.rank)}};
}

void add_torch_file(const TorchFile& file, const std::string& name, const Saved& saved,
                    const RankItem& of, Catalogue& out) {
    NestedValues values{{}, {}, file.pickle().consumed()};
    std::vector<std::string> path;
    add_nested(of.item, file.root(), path, values);
    const bool is_default = name == file_of_rank(of.item, of.rank);
    const fsdp::RankFile rank{saved.world, of.rank, is_default ? of.item + "_{rank}.pt" : name};
    const fsdp::EntriesRead read = fsdp::read_entries(file, rank, {}, values.entries, out);
    const bool knows_nothing = of.saved == nullptr && !read.knows_rank && !out.shards.empty();
    if (knows_nothing) {
        throw Error(ErrorCode::unsupported,
                    "there is no metadata.pkl, and none of its tensors says where it lies",
                    kSaveMetadata);
    }
    RankPlacer placer(saved, of, out);
    placer.require_all(collect_set(values.paths, [](const auto& one) { return one.second; }));
    for (Tensor& tensor : std::exchange(out.tensors, {})) {
        const std::string& known = values.paths.at(tensor.name);
        placer.add_placed(std::move(tensor), known);
    }
    for (Shard& shard : std::exchange(out.shards, {})) {
        const std::string called(shard.name);
        placer.add_plain(called, values.paths.at(called), shard.dtype, shard.shape, shard.piece);
    }
    if (read.knows_rank) {
        out.statements.push_back({name, "its device mesh", rank_claims(of), {}, true});
    }
}

void add_safetensors(const io::InputFile& input, const Saved& saved, const RankItem& of,
                     Catalogue& out) {
    std::map<std::string, std::string> paths;  // by the names in the header
    std::set<std::string> found;
    for (const auto& [path, placings] : of.saved->tensors) {
        const std::string below = path.substr(std::min(path.size(), of.item.size() + 1));
        if (!paths.emplace(dotted(below), path).second) {
            throw Error(ErrorCode::corrupt, "two tensors are called " + printable(dotted(below)));
        }
    }
    RankPlacer placer(saved, of, out);
    for (const auto& [name, stored] : read_safetensors_header(input)) {
        const auto known = paths.find(name);
        const std::string path = known == paths.end() ? name : known->second;
        found.insert(path);
        placer.add_plain(name, path, stored.dtype, stored.shape, piece_of(stored));
    }
    placer.require_all(found);
}

Scan scan_file(const Location& location, const std::string& file) {
    const auto held = saved_of(location);
    const Saved& saved = *held;
    const RankItem of = owner_of(saved, file);
    Catalogue out =
        file.ends_with(kSafetensors)
            ? scan_input_file(location, file,
                              [&](const io::InputFile& input, Catalogue& scan) {
                                  add_safetensors(input, saved, of, scan);
                              })
            : scan_torch_file(location, file, [&](const TorchFile& torch_file, Catalogue& scan) {
                  add_torch_file(torch_file, file, saved, of, scan);
              });
    out.statements.push_back({file, "its name", rank_claims(of), {}, false});
    return out;
}

// Whether all tensors of an item are states of optimizers, schedulers and the like.
bool is_training_item(const SavedItem& item) {
    return !item.tensors.empty() && std::ranges::all_of(item.tensors, [](const auto& tensor) {
        const Placing& placing = tensor.second.front();
        return dcp::training_state(tensor.first, {tensor.first, placing.dtype, placing.shape, {}})
            .has_value();
    });
}

std::vector<std::string> files_of_models(const Saved& saved) {
    std::vector<std::string> files;
    for (const auto& [name, item] : saved.items) {
        if (!is_training_item(item)) {
            for (const auto& [rank, file] : item.files) {
                files.push_back(file);
            }
        }
    }
    std::ranges::sort(files, natural_less);
    return files;
}

// What the names of model_{rank}.pt tell.
Saved saved_without_metadata(const std::vector<std::string>& files) {
    Saved saved;
    for (const std::string& file : files) {
        require_at_most("the rank", rank_of(file).value_or(0), kLargestWorld - 1, file);
        saved.world = std::max(saved.world, rank_of(file).value_or(0) + 1);
    }
    for (Index rank = 0; rank < saved.world; ++rank) {
        saved.items[kModelItem].files[rank] = file_of_rank(kModelItem, rank);
    }
    return saved;
}

void require_renamed(const fs::path& directory) {
    const std::string name = directory.filename().string();
    if (name.starts_with(kStaged)) {
        throw Error(ErrorCode::not_found,
                    "the save in " + directory.string() +
                        " did not end: torch_checkpointing calls it " +
                        printable(name.substr(kStaged.size())) + " when all ranks have written",
                    "take another save; if this one is known to be whole, rename it so");
    }
}

std::optional<Location> probe_save(const fs::path& directory, const Listing& listing) {
    Location location = begun_at(saved_format, directory, &listing);
    location.shard_files = filter_list(
        listing.files, [](const std::string& file) { return rank_of(file).has_value(); });
    auto* const local = find_where(
        location.shard_files, [](const std::string& file) { return file.ends_with(kSafetensors); });
    if (listing.has_file(kMetadataFile)) {
        const auto saved = read_saved(directory / kMetadataFile);
        if (!saved) {
            return std::nullopt;
        }
        location.own = encoded(*saved);
        location.shard_files = filter_list(files_of_models(*saved), [&](const std::string& file) {
            return io::is_file(directory / file);
        });
    } else if (listing.has_file("model.safetensors.index.json")) {
        return std::nullopt;  // a model whose files are numbered
    } else if (local != nullptr) {
        // Their tensors have local shapes: nothing here says where they lie.
        throw Error(ErrorCode::not_found,
                    directory.string() + " holds " + printable(*local) +
                        "..., the ranks' parts of tensors, but no " + kMetadataFile +
                        ", which says where they lie",
                    std::string("copy it from the save, or ") + kSaveMetadata);
    } else if (location.shard_files.empty()) {
        return std::nullopt;
    } else {
        location.own = encoded(saved_without_metadata(location.shard_files));
    }
    require_renamed(directory);
    return location;
}

Catalogue combine_ranks(const Location& location, std::vector<Scan> scans) {
    const auto held = saved_of(location);
    const Saved& saved = *held;
    const auto missing = filter_list(files_of_models(saved), [&](const std::string& file) {
        return !contains(location.shard_files, file);
    });
    const std::string missing_text =
        missing.empty() ? ""
                        : std::to_string(missing.size()) + " of " +
                              std::to_string(missing.size() + location.shard_files.size()) +
                              " rank files are missing: " + name_list(missing);
    Catalogue out = dcp::join(std::move(scans), Shapes::stated);
    dcp::select_model(out);
    dcp::note_trainer(out);
    const std::string known =
        missing.empty() && saved.meshes.empty()
            ? "those of ranks 0 to " + std::to_string(saved.world - 1) + " are here: "
            : missing_text + (missing.empty() ? "" : "; ");
    dcp::require_complete(out, known.empty() ? "" : known + kCopyAll);
    if (!missing.empty()) {
        out.warnings["replica_absent"] =
            missing_text + " (not needed: the others hold every element)";
    }
    out.facts = location.facts;
    out.notes.insert(out.notes.begin(), "torch_checkpointing save, world size " +
                                            std::to_string(saved.world) + ", " +
                                            counted(out.files.size(), "file"));
    for (const SavedMesh& mesh : saved.meshes) {
        if (static_cast<Index>(mesh.ranks.size()) == saved.world && out.mesh.size() <= 1) {
            out.mesh = fsdp::dims_of({mesh.extents, mesh.names, {}, {}, {}});
        }
    }
    return out;
}

}  // namespace

/// metadata.pkl beside files of items and ranks, or model_{rank}.pt without it.
const Format saved_format = {
    .name = "torch_checkpointing",
    .backend = "torch_checkpointing",
    .noun = "torch_checkpointing save",
    .option = InputOption::prefix,
    .subject = "torch_checkpointing saves",
    .probe = probe_save,
    .scan = scan_file,
    .combine = combine_ranks,
};

}  // namespace shardweld::formats::torch_checkpointing
