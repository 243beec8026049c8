#include "scan.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/containers/duplicate_names.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/containers/torch_storage.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/ignored_rows.hpp"
#include "formats/shared/model_values.hpp"
#include "formats/shared/module_names.hpp"
#include "formats/shared/stored_piece.hpp"
#include "shardweld/error.hpp"

#include "dtensor.hpp"
#include "pieces.hpp"
#include "placements.hpp"
#include "rank_files.hpp"
#include "sharded_tensor.hpp"
#include "subclass.hpp"
#include "training_state.hpp"

namespace shardweld::formats::fsdp {

namespace {

using catalogue::Catalogue;

constexpr std::size_t kLeastOfDTensor = 256;  // bytes of pickle

// Collects one file.
class RankScan {
  public:
    RankScan(const TorchFile& file, const RankFile& rank, const Mesh& by_hand, Catalogue& out)
        : file_(file),
          rank_(rank),
          dtensors_(file, rank, by_hand),
          entries_left_(file.pickle().consumed()),
          values_(file, ignored_),
          out_(out) {
        if (by_hand.shape.empty()) {
            at_.fsdp = to_int(rank.rank, "a rank");
            return;
        }
        const RankMesh mesh = mesh_by_hand(by_hand, rank.rank, rank.world);
        for (std::size_t d = 0; d < mesh.extents.size(); ++d) {
            if (mesh.names[d] == "tp") {
                at_.tp = to_int(mesh.coordinate[d], "a tensor-parallel rank");
            } else if (!is_replicating(mesh.names[d])) {
                at_.fsdp = to_int(at_.fsdp * mesh.extents[d] + mesh.coordinate[d], "a rank");
            }
        }
    }

    void add_entries(const PickleValue& state) {
        const std::size_t n_entries = state.pair_count();
        names_.reserve(n_entries);
        out_.tensors.reserve(std::min(n_entries, file_.pickle().consumed() / kLeastOfDTensor));
        for (std::size_t i = 0; i < n_entries; ++i) {
            const std::string_view name = parameter_name(state.key(i));
            try {
                add(name, state.value(i));
            } catch (Error& error) {
                error.add_context("tensor " + printable(name));
                throw;
            }
        }
        require_distinct(names_);
        out_.ignored = ignored_.take();
        out_.notes.assign(dtensors_.meshes().begin(), dtensors_.meshes().end());
    }

    /// Whether a tensor told the rank, and it is that of the file's name.
    [[nodiscard]] bool knows_rank() const { return knows_rank_ || dtensors_.knows_rank(); }

  private:
    void add(std::string_view key, const PickleValue& value) {
        if (is_extra_state(key)) {
            values_.leave_aside(key, value, "extra state");
            return;
        }
        if (is_flat_parameter(key)) {
            refuse_flat_parameter(
                "this is FSDP's LOCAL_STATE_DICT",
                "load it in the trainer that wrote it, and save with SHARDED_STATE_DICT instead");
        }
        auto subclass = subclass_of(value);
        const auto tensor = subclass ? std::nullopt : file_.tensor(value);
        if (!subclass && !tensor) {
            values_.leave_aside(key, value);
            return;
        }
        names_.push_back(key);
        if (subclass) {
            add_global(std::string(key), std::move(*subclass));
        } else {
            out_.shards.push_back(
                {std::string(key), tensor->dtype, tensor->shape, at_, piece_of(*tensor)});
        }
    }

    void add_global(std::string name, Subclass value) {
        const std::string_view type = distributed_class(*value.type);
        if (type != "DTensor" && type != "ShardedTensor") {
            throw Error(ErrorCode::unsupported,
                        "it is a " + describe(*value.type) + ", which is not read",
                        "save torch's DTensor, ShardedTensor or plain tensors");
        }
        knows_rank_ = knows_rank_ || (type == "ShardedTensor" && knows_rank_of_group(value));
        catalogue::Tensor tensor = type == "DTensor"
                                       ? dtensors_.read(std::move(value))
                                       : read_sharded_tensor(file_, value, rank_, entries_left_);
        n_pieces_ += tensor.pieces.size();
        if (n_pieces_ > kMostPieces) {
            throw Error(ErrorCode::unsupported, "the tensors up to here fall into more than " +
                                                    std::to_string(kMostPieces) + " boxes");
        }
        if (volume_of(tensor.shape, "a tensor's global shape") == 0) {
            ignored_.add({pattern_of(printable(name)), "empty tensor"}, 1, 0);
        } else {
            tensor.name = std::move(name);
            out_.tensors.push_back(std::move(tensor));
        }
    }

    const TorchFile& file_;
    RankFile rank_;
    DTensorReader dtensors_;
    std::size_t entries_left_;
    std::size_t n_pieces_ = 0;
    bool knows_rank_ = false;
    catalogue::Coordinates at_;
    std::vector<std::string_view> names_;
    IgnoredRows ignored_;
    ModelValues values_;
    Catalogue& out_;
};

catalogue::Claims claims_of(const RankFile& rank) {
    catalogue::Claims claims{{"rank", std::to_string(rank.rank)}};
    if (rank.stem.empty()) {
        claims["world size"] = std::to_string(rank.world);
    }
    return claims;
}

// What tells which rank's file it is. torch.save keeps the name that it was given.
void add_statements(const std::string& file, const RankFile& rank, const TorchFile& torch_file,
                    bool knows_rank, Catalogue& out) {
    out.statements.push_back({file, "its name", claims_of(rank), {}, false});
    const std::string suffix = fs::path(file).extension().string();
    if (const auto inner = parse_file_name(torch_file.archive_name() + suffix)) {
        out.statements.push_back(
            {file, "the name of the archive in it", claims_of(*inner), {}, true});
    }
    if (knows_rank) {
        out.statements.push_back(
            {file, "its device mesh", {{"rank", std::to_string(rank.rank)}}, {}, true});
    }
}

}  // namespace

Catalogue scan_rank(const Location& location, const std::string& file) {
    return scan_torch_file(location, file, [&](const TorchFile& torch_file, Catalogue& out) {
        if (!torch_file.root().is_mapping()) {
            throw Error(ErrorCode::corrupt,
                        "holds no dictionary of tensors but " + describe(torch_file.root()));
        }
        const RankFile rank = rank_among(location.shard_files, file);
        RankScan scan(torch_file, rank, location.mesh, out);
        scan.add_entries(torch_file.root());
        add_statements(file, rank, torch_file, scan.knows_rank(), out);
        add_training_state(location, rank, out);
    });
}

}  // namespace shardweld::formats::fsdp
