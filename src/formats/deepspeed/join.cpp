#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "formats/shared/assembler.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/hints.hpp"
#include "shardweld/error.hpp"

#include "file_names.hpp"
#include "flat_groups.hpp"
#include "model_rank.hpp"
#include "module_weights.hpp"
#include "pickled.hpp"
#include "scan.hpp"

namespace shardweld::formats::deepspeed {

namespace {

constexpr Index kSplitStage = 3;
constexpr std::size_t kMostAbsent = 100;

std::string model_rank_text(Index mp) {
    return "model-parallel rank " + std::to_string(mp);
}

/// How many ranks saved a checkpoint, and at which ZeRO stage, as all files say alike.
class SaveSizes {
  public:
    /// What one file says. Error(mismatch) where another says otherwise.
    void add_file(const FileContent& content, const std::string& path, const FileName& name) {
        for (const auto& [fact, said] :
             {std::pair(kStage, content.stage), std::pair(kModelRanks, content.n_model_ranks),
              std::pair(kTensorRanks, content.n_tensor_ranks)}) {
            if (said) {
                said_.agree(fact, *said, path);
            }
        }
        if (name.kind == ZeroFile::model_part) {
            split_states_ = path;
            states_of_[name.mp].insert(name.dp);
        } else if (name.kind == ZeroFile::model) {
            whole_states_ = path;
        }
    }

    /// When all files are noted. Model-parallel ranks are counted pipeline stage by pipeline stage.
    /// Error(not_found) where the model states of one are missing, Error(mismatch), Error(corrupt).
    void require_whole_grid(const ModelRanks& ranks) {
        const std::string& states = split_states_.empty() ? whole_states_ : split_states_;
        if (!split_states_.empty() && !whole_states_.empty()) {
            require_equal<std::string>(kStage, "1 or 2", whole_states_, "3", split_states_);
        }
        const auto stage = said_.find(kStage);
        is_split_ = stage ? *stage == kSplitStage : !split_states_.empty();
        if (stage && !states.empty() && is_split_ == split_states_.empty()) {
            require_equal<std::string>(kStage, std::to_string(*stage), said_.speaker(kStage),
                                       is_split_ ? "1 or 2" : "3", states);
        }
        const Index found = ranks.empty() ? 1 : ranks.rbegin()->first + 1;
        const Index n_ranks = said_.find(kModelRanks).value_or(found);
        if (found > n_ranks) {
            require_at_most(kModelRanks, found, n_ranks, said_.speaker(kModelRanks));
        }
        for (Index mp = 0; mp < n_ranks; ++mp) {
            auto* const rank = find_value(ranks, mp);
            if (rank == nullptr || rank->states_file().empty()) {
                throw files_missing("the model states of " + model_rank_text(mp) +
                                    " are missing (" + std::to_string(n_ranks) + " ranks saved)");
            }
        }
        n_tensor_ranks_ = said_.find(kTensorRanks).value_or(n_ranks);
        if (n_tensor_ranks_ < 1 || n_ranks % n_tensor_ranks_ != 0) {
            throw Error(ErrorCode::corrupt, "tp_degree is " + std::to_string(n_tensor_ranks_) +
                                                " of " + std::to_string(n_ranks) +
                                                " model-parallel ranks");
        }
    }

    /// ZeRO-3.
    [[nodiscard]] bool is_split() const { return is_split_; }
    [[nodiscard]] Index n_tensor_ranks() const { return n_tensor_ranks_; }

    /// Model states of ZeRO-3 that are not there: they hold parts of frozen parameters.
    [[nodiscard]] std::vector<std::string> absent_states(const ModelRanks& ranks) const {
        std::vector<std::string> absent;
        for (const auto& [mp, present] : states_of_) {
            for (Index dp = 0; dp < ranks.at(mp).data_ranks(); ++dp) {
                if (!present.contains(dp) && absent.size() < kMostAbsent) {
                    absent.push_back(states_name(mp, dp));
                }
            }
        }
        return absent;
    }

    void add_facts(const ModelRanks& ranks, bool has_partitions, Catalogue& out) const {
        if (const auto stage = said_.find(kStage)) {
            out.facts[kStage] = *stage;
        }
        out.facts[kTensorRanks] = n_tensor_ranks_;
        out.facts[kModelRanks] = ranks.rbegin()->first + 1;
        if (has_partitions) {
            out.facts[kDataRanks] = ranks.begin()->second.data_ranks();
        }
    }

  private:
    catalogue::Claims<Index> said_;
    std::string whole_states_;                    // a file of ZeRO 0 to 2
    std::string split_states_;                    // one of ZeRO-3
    std::map<Index, std::set<Index>> states_of_;  // of ZeRO-3: data-parallel by model-parallel rank
    bool is_split_ = false;
    Index n_tensor_ranks_ = 1;
};

/// By model-parallel rank.
using LocalShapes = std::map<Index, std::vector<Index>>;

/// The local shape of a tensor that tensor-parallel ranks hold parts of. `others`: shapes that
/// `ranks` do not know. Error(mismatch) where the rank has none.
const std::vector<Index>& shape_on(Index mp, const std::string& name, const ModelRanks& ranks,
                                   const LocalShapes& others) {
    auto* const rank = find_value(ranks, mp);
    const auto* shape = rank == nullptr ? nullptr : rank->shape_of(name);
    shape = shape == nullptr ? find_value(others, mp) : shape;
    if (shape == nullptr) {
        throw mixed_saves_error(printable(name) + " is not on " + model_rank_text(mp));
    }
    return *shape;
}

/// The boxes of a part that is the whole.
JoinRule whole_rule(const std::vector<Index>& local) {
    const std::vector<Index> zero(local.size(), 0);
    return {JoinKind::boxes, local, local, {{zero, zero, local, 0}}};
}

/// The boxes of the part of model-parallel rank `mp`, one of `n_tensor_ranks` of its pipeline
/// stage. Error(unsupported) where no rule says how to join, Error(mismatch) where the ranks'
/// shapes do not fit together.
JoinRule part_rule(const std::string& name, const ModelRanks& ranks, const LocalShapes& others,
                   const std::vector<Index>& local, Index mp, Index n_tensor_ranks) {
    auto* const rank = find_value(ranks, mp);
    const JoinRule* const rule = rank == nullptr ? nullptr : rank->rule_for(name);
    if (rule == nullptr) {
        throw Error(ErrorCode::unsupported,
                    "nothing says how the parts of " + printable(name) + " on " +
                        std::to_string(n_tensor_ranks) +
                        " tensor-parallel ranks are joined (universal_checkpoint_info)",
                    "convert it with DeepSpeed's ds_to_universal.py and merge what that makes");
    }
    if (rule->kind == JoinKind::boxes) {
        require_equal("the shape of " + name, local, model_rank_text(mp), rule->local_shape,
                      "its affine_map");
        return *rule;
    }
    JoinRule boxes = whole_rule(local);
    const std::size_t axis = rule->kind == JoinKind::columns ? 1 : 0;
    if (rule->kind == JoinKind::replicated || local.size() <= axis) {
        return boxes;  // a bias of a row-parallel layer, a number
    }
    const Index first = mp - mp % n_tensor_ranks;
    Index extent = 0;
    for (Index other = first; other < first + n_tensor_ranks; ++other) {
        const std::vector<Index>& shape = shape_on(other, name, ranks, others);
        if (shape.size() != local.size()) {
            require_equal("the shape of " + name, shape, model_rank_text(other), local,
                          model_rank_text(mp));
        }
        boxes.boxes.front().global[axis] += other < mp ? shape[axis] : 0;
        extent = checked_add(extent, shape[axis], name);
    }
    boxes.shape[axis] = extent;
    return boxes;
}

/// A tensor of one file that is no part of a flat group.
struct WholeTensor {
    Tensor tensor;
    FileName name;
    std::uint32_t file = 0;
};

class ZeroFiles {
  public:
    ZeroFiles(Weights weights, Catalogue& out)
        : weights_(weights), out_(out), all_(out, {.irregular = ErrorCode::mismatch}) {}

    void add(FileScan scan) {
        auto [told, content] = std::move(scan);
        const std::uint32_t file = all_.add_scan(told);
        const std::string& path = out_.files[file].path;
        const FileName name = parse_file_name(path).value_or(FileName{});
        grid_.add_file(content, path, name);
        aliases_.merge(content.aliases);
        if (name.kind == ZeroFile::partition) {
            ranks_[name.mp].add_partition(
                {path, name, std::move(told.shards), std::move(content.groups)});
            return;
        }
        if (name.kind == ZeroFile::model || name.kind == ZeroFile::model_part) {
            states_.try_emplace(name.mp, file);
            ranks_[name.mp].add_states(path, std::move(content));
        }
        for (Tensor& tensor : told.tensors) {
            wholes_.push_back({std::move(tensor), name, file});
        }
    }

    void finish() {
        grid_.require_whole_grid(ranks_);
        if (weights_ != Weights::model) {
            for (auto& [mp, rank] : ranks_) {
                rank.arrange(grid_.is_split());
            }
            name_tied_layers();
            note_module();
            for (auto& [mp, rank] : ranks_) {
                add_parameters(mp, rank);
            }
            out_.samples.remedy = kTakeModel;
        }
        for (WholeTensor& whole : wholes_) {
            add_whole(whole);
        }
        const std::vector<std::string> absent = grid_.absent_states(ranks_);
        for (const auto& [name, joined] : all_.tensors) {
            require_whole_tensor(joined.tensor, absent);
        }
        add_aliases();
        if (!absent.empty()) {
            out_.warnings["states_absent"] =
                name_list(absent) + ": not there, and not needed: other ranks' say the same";
        }
        all_.finish();
        grid_.add_facts(ranks_, weights_ != Weights::model, out_);
    }

  private:
    void add_parameters(Index mp, ModelRank& rank) {
        for (const ModelRank::Located& located : rank.locate()) {
            const FlatParameter& declared = *located.parameter;
            if (located.runs.empty()) {
                all_.ignored().add({"*", "empty tensor"}, 1, 0);
                continue;
            }
            const DType dtype = located.runs.front().shard->dtype;
            const TensorPart part =
                part_of(declared.name, dtype, declared.shape, mp, states_.at(mp));
            const std::uint32_t copy = copy_number(part, declared.shape, mp);
            for (const FlatRun& run : located.runs) {
                if (run.shard->dtype != dtype) {
                    throw mixed_saves_error("flat groups differ in dtype");
                }
                add_pieces(run, declared.shape, part.boxes, copy, part.tensor->pieces);
            }
            if (weights_ == Weights::rounded && declared.dtype != dtype) {
                part.tensor->written_as = declared.dtype;
            }
            module_.add_master_samples(mp, grid_.n_tensor_ranks(), located, out_);
        }
        if (const Bytes padding = rank.padding_bytes(); padding > 0) {
            all_.ignored().add({"*", "padding of flat partitions"}, 1, padding);
        }
    }

    // A pipeline declares a tied module once, by its key, and saves it with each layer that is one.
    // Which are is told by name and shape alone: where two modules may be meant, copies stay.
    void name_tied_layers() {
        for (const WholeTensor& whole : wholes_) {
            const std::string& name = whole.tensor.name;
            if (whole.name.kind != ZeroFile::layer || is_declared(name)) {
                continue;
            }
            const std::string in_layer = name.substr(name.find('.') + 1);
            std::set<std::string> originals;
            for (const auto& [mp, rank] : ranks_) {
                rank.find_tied(in_layer, whole.tensor.shape, originals);
            }
            if (originals.size() == 1) {
                aliases_.emplace(name, *originals.begin());
                tied_.insert(*originals.begin());
            }
        }
    }

    // Layers that are tied are the one parameter.
    void note_module() {
        for (const WholeTensor& whole : wholes_) {
            auto* const original = find_value(aliases_, whole.tensor.name);
            const bool is_tied = whole.name.kind == ZeroFile::layer && original != nullptr;
            module_.add(is_tied ? *original : whole.tensor.name, whole.name, whole.tensor);
        }
    }

    [[nodiscard]] bool is_declared(const std::string& name) const {
        return std::ranges::any_of(ranks_,
                                   [&](const auto& rank) { return rank.second.declares(name); });
    }

    void add_whole(WholeTensor& whole) {
        Tensor& tensor = whole.tensor;
        if (weights_ != Weights::model &&
            (is_declared(tensor.name) || aliases_.contains(tensor.name))) {
            all_.ignored().add(
                {"*", kCopies}, 1,
                to_bytes(volume_of(tensor.shape, tensor.name), "elements") * size_of(tensor.dtype));
            return;
        }
        const Index mp = model_rank_of(whole);
        const TensorPart part = part_of(tensor.name, tensor.dtype, tensor.shape, mp, whole.file);
        part.tensor->written_as = tensor.written_as;
        if (is_fragment(tensor)) {
            append_all(part.tensor->pieces, tensor.pieces);
        } else {
            add_pieces(tensor.pieces.front(), part.boxes, copy_number(part, tensor.shape, mp),
                       part.tensor->pieces);
        }
    }

    /// A layer's file tells its tensor-parallel rank only: that of a stage that knows the tensor.
    [[nodiscard]] Index model_rank_of(const WholeTensor& whole) const {
        for (const auto& [mp, rank] : ranks_) {
            if (whole.name.kind == ZeroFile::layer &&
                mp % grid_.n_tensor_ranks() == whole.name.mp &&
                rank.rule_for(whole.tensor.name) != nullptr) {
                return mp;
            }
        }
        return whole.name.mp;
    }

    /// A rank's part of a tensor.
    struct TensorPart {
        Tensor* tensor;               ///< the whole one
        std::vector<LocalBox> boxes;  ///< where in it the part belongs
    };

    /// 0 of the first that has this part, or everything.
    [[nodiscard]] std::uint32_t copy_number(const TensorPart& part, const std::vector<Index>& local,
                                            Index mp) {
        constexpr Index kAll = -1;
        return n_copies_[{part.tensor,
                          local == part.tensor->shape ? kAll : mp % grid_.n_tensor_ranks()}]++;
    }

    TensorPart part_of(const std::string& name, DType dtype, const std::vector<Index>& local,
                       Index mp, std::uint32_t file) {
        auto* const known = find_value(all_.tensors, name);
        if (known != nullptr) {
            all_.require_same(*known, {name, dtype, known->tensor.shape, {}}, file);
        }
        JoinRule place = grid_.n_tensor_ranks() == 1 ? whole_rule(local)
                                                     : part_rule(name, ranks_, wholes_shape(name),
                                                                 local, mp, grid_.n_tensor_ranks());
        if (known != nullptr) {
            require_equal("the shape of " + name, known->tensor.shape,
                          out_.files[known->files.front()].path, place.shape, model_rank_text(mp));
        }
        return {&all_.add({name, dtype, place.shape, {}}, file).tensor, std::move(place.boxes)};
    }

    /// Local shapes of a tensor that is in no flat group, by model-parallel rank.
    [[nodiscard]] LocalShapes wholes_shape(const std::string& name) {
        if (whole_shapes_.empty()) {
            for (const WholeTensor& whole : wholes_) {
                whole_shapes_[whole.tensor.name][whole.name.mp] = whole.tensor.shape;
            }
        }
        return copy_or(find_value(whole_shapes_, name), LocalShapes{});
    }

    void require_whole_tensor(const Tensor& tensor, const std::vector<std::string>& absent) const {
        const CoverFault fault = find_cover_fault(tensor);
        if (fault.kind == CoverKind::gap && !absent.empty()) {
            throw files_missing("files are missing: " + name_list(absent))
                .add_context("lost " + printable(tensor.name) + ", elements " + fault.where);
        }
        all_.require_cover(tensor, fault);
    }

    void add_aliases() {
        for (const auto& [alias, original] : aliases_) {
            if (auto* const at = find_value(all_.tensors, original)) {
                Assembled joined = *at;
                joined.tensor.name = alias;
                all_.tensors.try_emplace(alias, std::move(joined));
            }
        }
        for (const std::string& name : tied_) {
            all_.tensors.erase(name);
        }
    }

    Weights weights_;
    Catalogue& out_;
    Assembler all_;
    SaveSizes grid_;
    ModelRanks ranks_;
    std::map<Index, std::uint32_t> states_;  // by model-parallel rank: its first states' file
    std::vector<WholeTensor> wholes_;
    ModuleWeights module_;
    std::map<std::string, LocalShapes> whole_shapes_;
    std::map<std::string, std::string> aliases_;
    std::set<std::string> tied_;  // modules of a pipeline, whose layers are aliases
    /// How many have been put into a tensor, by tensor-parallel rank of the part.
    std::map<std::pair<const Tensor*, Index>, std::uint32_t> n_copies_;
};

}  // namespace

void join_files(std::vector<FileScan> scans, Weights weights, Catalogue& out) {
    ZeroFiles files(weights, out);
    for (FileScan& scan : scans) {
        files.add(std::exchange(scan, {}));
    }
    files.finish();
}

}  // namespace shardweld::formats::deepspeed
