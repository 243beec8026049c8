#include "join.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/hints.hpp"
#include "shardweld/error.hpp"

#include "file_names.hpp"
#include "flat_groups.hpp"
#include "model_rank.hpp"
#include "pickled.hpp"
#include "scan.hpp"

namespace shardweld::formats::deepspeed {

namespace {

using catalogue::Catalogue;
using catalogue::Tensor;

/// How many ranks saved a checkpoint, and at which ZeRO stage, as all files say alike.
class Grid {
  public:
    /// What one file says. Error(mismatch) where another says otherwise.
    void note(const FileContent& content, const std::string& path, const FileName& name);
    /// When all files are noted. Model-parallel ranks are counted pipeline stage by pipeline stage.
    /// Error(not_found) where the model states of one are missing, Error(mismatch), Error(corrupt).
    void settle(const ModelRanks& ranks);

    /// ZeRO-3.
    [[nodiscard]] bool is_split() const { return is_split_; }
    [[nodiscard]] Index n_tensor_ranks() const { return n_tensor_ranks_; }
    /// Model states of ZeRO-3 that are not there: they hold parts of frozen parameters.
    [[nodiscard]] std::vector<std::string> absent_states(const ModelRanks& ranks) const;
    void add_facts(const ModelRanks& ranks, bool has_partitions, catalogue::Catalogue& out) const;

  private:
    [[nodiscard]] std::optional<Index> said(const char* fact) const;

    std::map<std::string, std::pair<Index, std::string>> said_;  // fact: value, file
    std::string whole_states_;                                   // a file of ZeRO 0 to 2
    std::string split_states_;                                   // one of ZeRO-3
    std::map<Index, std::set<Index>> states_of_;  // of ZeRO-3: data-parallel by model-parallel rank
    bool is_split_ = false;
    Index n_tensor_ranks_ = 1;
};

constexpr Index kSplitStage = 3;
constexpr std::size_t kMostAbsent = 100;

void Grid::note(const FileContent& content, const std::string& path, const FileName& name) {
    for (const auto& [fact, said] :
         {std::pair(kStage, content.stage), std::pair(kModelRanks, content.n_model_ranks),
          std::pair(kTensorRanks, content.n_tensor_ranks)}) {
        if (!said) {
            continue;
        }
        const auto [at, is_new] = said_.try_emplace(fact, *said, path);
        if (!is_new && at->second.first != *said) {
            throw Error(ErrorCode::mismatch,
                        std::string(fact) + " is " + std::to_string(at->second.first) + " in " +
                            printable(at->second.second) + " but " + std::to_string(*said) +
                            " in " + printable(path),
                        kOneSave);
        }
    }
    if (name.kind == FileKind::model_part) {
        split_states_ = path;
        states_of_[name.mp].insert(name.dp);
    } else if (name.kind == FileKind::model) {
        whole_states_ = path;
    }
}

std::optional<Index> Grid::said(const char* fact) const {
    const auto at = said_.find(fact);
    return at == said_.end() ? std::nullopt : std::optional(at->second.first);
}

void Grid::settle(const ModelRanks& ranks) {
    const std::string& states = split_states_.empty() ? whole_states_ : split_states_;
    if (!split_states_.empty() && !whole_states_.empty()) {
        throw Error(ErrorCode::mismatch,
                    printable(whole_states_) + " is of ZeRO stage 1 or 2, but " +
                        printable(split_states_) + " of stage 3",
                    kOneSave);
    }
    const auto stage = said(kStage);
    is_split_ = stage ? *stage == kSplitStage : !split_states_.empty();
    if (stage && !states.empty() && is_split_ == split_states_.empty()) {
        throw Error(ErrorCode::mismatch,
                    printable(said_.at(kStage).second) + " says that it is of ZeRO stage " +
                        std::to_string(*stage) + ", but " + printable(states) +
                        (is_split_ ? " is of stage 1 or 2" : " is of stage 3"),
                    kOneSave);
    }
    const Index found = ranks.empty() ? 1 : ranks.rbegin()->first + 1;
    const Index n_ranks = said(kModelRanks).value_or(found);
    if (found > n_ranks) {
        throw Error(ErrorCode::mismatch,
                    "there are files of " + std::to_string(found) +
                        " model-parallel ranks, but mp_world_size is " + std::to_string(n_ranks) +
                        " in " + printable(said_.at(kModelRanks).second),
                    kOneSave);
    }
    for (Index mp = 0; mp < n_ranks; ++mp) {
        const auto rank = ranks.find(mp);
        if (rank == ranks.end() || rank->second.states_file().empty()) {
            throw Error(ErrorCode::not_found,
                        "the model states of model-parallel rank " + std::to_string(mp) +
                            " are missing (" + std::to_string(n_ranks) + " ranks saved)",
                        kCopyAll);
        }
    }
    n_tensor_ranks_ = said(kTensorRanks).value_or(n_ranks);
    if (n_tensor_ranks_ < 1 || n_ranks % n_tensor_ranks_ != 0) {
        throw Error(ErrorCode::corrupt, "tp_degree is " + std::to_string(n_tensor_ranks_) + " of " +
                                            std::to_string(n_ranks) + " model-parallel ranks");
    }
}

std::vector<std::string> Grid::absent_states(const ModelRanks& ranks) const {
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

void Grid::add_facts(const ModelRanks& ranks, bool has_partitions,
                     catalogue::Catalogue& out) const {
    if (const auto stage = said(kStage)) {
        out.facts[kStage] = *stage;
    }
    out.facts[kTensorRanks] = n_tensor_ranks_;
    out.facts[kModelRanks] = ranks.rbegin()->first + 1;
    if (has_partitions) {
        out.facts[kDataRanks] = ranks.begin()->second.data_ranks();
    }
}

struct PartPlace {
    std::vector<Index> shape;  ///< of the whole tensor
    std::vector<LocalBox> boxes;
};

/// By model-parallel rank.
using LocalShapes = std::map<Index, std::vector<Index>>;

/// Error(mismatch) unless the affine map is of a part of this shape.
void require_shape(const std::string& name, const std::vector<Index>& mapped,
                   const std::vector<Index>& local, Index mp) {
    if (mapped != local) {
        throw Error(ErrorCode::mismatch,
                    printable(name) + " has shape " + shape_text(local) +
                        " on model-parallel rank " + std::to_string(mp) +
                        ", but its affine_map is of " + shape_text(mapped),
                    kOneSave);
    }
}

const std::vector<Index>& shape_on(const std::string& name, Index mp, const ModelRanks& ranks,
                                   const LocalShapes& others) {
    const auto rank = ranks.find(mp);
    const std::vector<Index>* shape = rank == ranks.end() ? nullptr : rank->second.shape_of(name);
    if (const auto other = others.find(mp); shape == nullptr && other != others.end()) {
        shape = &other->second;
    }
    if (shape == nullptr) {
        throw Error(ErrorCode::mismatch,
                    printable(name) + " is not on model-parallel rank " + std::to_string(mp),
                    kOneSave);
    }
    return *shape;
}

/// The place of a part that is the whole.
PartPlace place_whole(const std::vector<Index>& local) {
    const std::vector<Index> zero(local.size(), 0);
    return {local, {{zero, zero, local, 0}}};
}

/// The place of the part of model-parallel rank `mp`, one of `n_tensor_ranks` of its pipeline
/// stage. Shapes that `ranks` do not know are those of `others`. Error(unsupported) where no rule
/// says how to join, Error(mismatch) where the ranks' shapes do not fit together.
PartPlace place_part(const std::string& name, const std::vector<Index>& local, Index mp,
                     Index n_tensor_ranks, const ModelRanks& ranks, const LocalShapes& others) {
    const auto rank = ranks.find(mp);
    const JoinRule* const rule = rank == ranks.end() ? nullptr : rank->second.rule_for(name);
    if (rule == nullptr) {
        throw Error(ErrorCode::unsupported,
                    "nothing says how the parts of " + printable(name) + " on " +
                        std::to_string(n_tensor_ranks) +
                        " tensor-parallel ranks are joined (universal_checkpoint_info)",
                    "convert it with DeepSpeed's ds_to_universal.py and merge what that makes");
    }
    if (rule->kind == JoinRule::Kind::boxes) {
        require_shape(name, rule->local_shape, local, mp);
        return {rule->shape, rule->boxes};
    }
    PartPlace place = place_whole(local);
    const std::size_t axis = rule->kind == JoinRule::Kind::columns ? 1 : 0;
    if (rule->kind == JoinRule::Kind::replicated || local.size() <= axis) {
        return place;  // a bias of a row-parallel layer, a number
    }
    const Index first = mp - mp % n_tensor_ranks;
    Index extent = 0;
    for (Index other = first; other < first + n_tensor_ranks; ++other) {
        const std::vector<Index>& shape = shape_on(name, other, ranks, others);
        if (shape.size() != local.size()) {
            throw Error(ErrorCode::mismatch,
                        printable(name) + " is " + shape_text(shape) + " on model-parallel rank " +
                            std::to_string(other) + " but " + shape_text(local) + " on " +
                            std::to_string(mp),
                        kOneSave);
        }
        place.boxes.front().global[axis] += other < mp ? shape[axis] : 0;
        extent = checked_add(extent, shape[axis], name);
    }
    place.shape[axis] = extent;
    return place;
}

constexpr Index kAll = -1;

/// One name's tensor, and how many have been put into it.
struct Joined {
    Tensor tensor;
    std::string file;                      ///< of the first part
    std::map<Index, std::uint32_t> parts;  ///< by tensor-parallel rank; kAll of whole ones
};

/// A tensor of one file that is no part of a flat group.
struct WholeTensor {
    Tensor tensor;
    FileName name;
};

class Joiner {
  public:
    Joiner(Weights weights, Catalogue& out) : weights_(weights), out_(out) {}

    void add(FileScan scan) {
        auto& [told, content] = scan;
        const std::uint32_t file = join_scan(told, ignored_, out_);
        const std::string& path = out_.files[file].path;
        const FileName name = parse_file_name(path).value_or(FileName{});
        grid_.note(content, path, name);
        aliases_.merge(content.aliases);
        if (name.kind == FileKind::partition) {
            ranks_[name.mp].add_partition(
                {path, name, std::move(told.shards), std::move(content.groups)});
            return;
        }
        if (name.kind == FileKind::model || name.kind == FileKind::model_part) {
            ranks_[name.mp].add_states(path, std::move(content));
        }
        for (Tensor& tensor : told.tensors) {
            wholes_.push_back({std::move(tensor), name});
        }
    }

    void finish() {
        grid_.settle(ranks_);
        if (weights_ != Weights::model) {
            for (auto& [mp, rank] : ranks_) {
                rank.arrange(grid_.is_split());
            }
            for (auto& [mp, rank] : ranks_) {
                add_parameters(mp, rank);
            }
            name_tied_layers();
        }
        for (WholeTensor& whole : wholes_) {
            add_whole(whole);
        }
        for (const auto& [name, joined] : tensors_) {
            settle(joined);
        }
        add_aliases();
        for (auto& [name, joined] : tensors_) {
            out_.tensors.push_back(std::move(joined.tensor));
        }
        if (const auto absent = grid_.absent_states(ranks_); !absent.empty()) {
            out_.warnings["states_absent"] =
                name_list(absent) + ": not there, and not needed: other ranks' say the same";
        }
        out_.ignored = ignored_.take();
        grid_.add_facts(ranks_, weights_ != Weights::model, out_);
    }

  private:
    void add_parameters(Index mp, ModelRank& rank) {
        for (const ModelRank::Located& located : rank.locate()) {
            const Parameter& declared = *located.parameter;
            if (located.runs.empty()) {
                ignored_.add({"*", "empty tensor"}, 1, 0);
                continue;
            }
            const DType dtype = located.runs.front().shard->dtype;
            Joined& joined = joined_for(declared.name, dtype, rank.states_file());
            const auto boxes = boxes_of(declared.name, declared.shape, mp, joined);
            const std::uint32_t copy = copy_number(joined, declared.shape, mp);
            for (const Run& run : located.runs) {
                if (run.shard->dtype != dtype) {
                    throw Error(ErrorCode::mismatch, "flat groups differ in dtype", kOneSave);
                }
                add_pieces(run, declared.shape, boxes, copy, joined.tensor.pieces);
            }
            if (weights_ == Weights::rounded && declared.dtype != dtype) {
                joined.tensor.written_as = declared.dtype;
            }
        }
        if (const Bytes padding = rank.padding_bytes(); padding > 0) {
            ignored_.add({"*", "padding of flat partitions"}, 1, padding);
        }
    }

    // A pipeline declares a tied module once, by its key, and saves it with each layer that is one.
    // Which are is told by name and shape alone: where two modules may be meant, copies stay.
    void name_tied_layers() {
        for (const WholeTensor& whole : wholes_) {
            const std::string& name = whole.tensor.name;
            if (whole.name.kind != FileKind::layer || is_declared(name)) {
                continue;
            }
            std::set<std::string> originals;
            for (const auto& [mp, rank] : ranks_) {
                rank.find_tied(std::string_view(name).substr(name.find('.') + 1),
                               whole.tensor.shape, originals);
            }
            if (originals.size() == 1) {
                aliases_.emplace(name, *originals.begin());
                tied_.insert(*originals.begin());
            }
        }
    }

    [[nodiscard]] bool is_declared(const std::string& name) const {
        return std::any_of(ranks_.begin(), ranks_.end(),
                           [&](const auto& rank) { return rank.second.declares(name); });
    }

    void add_whole(WholeTensor& whole) {
        Tensor& tensor = whole.tensor;
        if (weights_ != Weights::model &&
            (is_declared(tensor.name) || aliases_.contains(tensor.name))) {
            ignored_.add(
                {"*", "copies of weights that are taken from the optimizer's partitions"}, 1,
                to_bytes(volume_of(tensor.shape, tensor.name), "elements") * size_of(tensor.dtype));
            return;
        }
        const std::string& file =
            tensor.pieces.empty() ? tensor.name : out_.files[tensor.pieces.front().file].path;
        Joined& joined = joined_for(tensor.name, tensor.dtype, file);
        joined.tensor.written_as = tensor.written_as;
        const Index mp = model_rank_of(whole);
        const auto boxes = boxes_of(tensor.name, tensor.shape, mp, joined);
        if (is_fragment(tensor)) {
            joined.tensor.pieces.insert(joined.tensor.pieces.end(), tensor.pieces.begin(),
                                        tensor.pieces.end());
        } else {
            add_pieces(tensor.pieces.front(), boxes, copy_number(joined, tensor.shape, mp),
                       joined.tensor.pieces);
        }
    }

    /// A layer's file tells its tensor-parallel rank only: that of a stage that knows the tensor.
    [[nodiscard]] Index model_rank_of(const WholeTensor& whole) const {
        for (const auto& [mp, rank] : ranks_) {
            if (whole.name.kind == FileKind::layer &&
                mp % grid_.n_tensor_ranks() == whole.name.mp &&
                rank.rule_for(whole.tensor.name) != nullptr) {
                return mp;
            }
        }
        return whole.name.mp;
    }

    /// 0 of the first that has this part, or everything.
    [[nodiscard]] std::uint32_t copy_number(Joined& joined, const std::vector<Index>& local,
                                            Index mp) const {
        return joined.parts[local == joined.tensor.shape ? kAll : mp % grid_.n_tensor_ranks()]++;
    }

    Joined& joined_for(const std::string& name, DType dtype, const std::string& file) {
        const auto [at, is_new] = tensors_.try_emplace(name);
        Joined& joined = at->second;
        if (is_new) {
            joined.tensor.name = name;
            joined.tensor.dtype = dtype;
            joined.file = file;
        } else if (joined.tensor.dtype != dtype) {
            throw Error(ErrorCode::mismatch,
                        printable(name) + " is " +
                            std::string(safetensors_name(joined.tensor.dtype)) + " in " +
                            printable(joined.file) + " but " +
                            std::string(safetensors_name(dtype)) + " in " + printable(file),
                        kOneSave);
        }
        return joined;
    }

    /// Where a rank's part of a tensor belongs; sets or checks the whole one's shape.
    std::vector<LocalBox> boxes_of(const std::string& name, const std::vector<Index>& local,
                                   Index mp, Joined& joined) {
        PartPlace place =
            grid_.n_tensor_ranks() == 1
                ? place_whole(local)
                : place_part(name, local, mp, grid_.n_tensor_ranks(), ranks_, wholes_shape(name));
        if (joined.parts.empty() && joined.tensor.pieces.empty()) {
            joined.tensor.shape = place.shape;
        } else if (joined.tensor.shape != place.shape) {
            throw Error(ErrorCode::mismatch,
                        printable(name) + " has shape " + shape_text(joined.tensor.shape) + " in " +
                            printable(joined.file) + " but " + shape_text(place.shape) +
                            " on model-parallel rank " + std::to_string(mp),
                        kOneSave);
        }
        return std::move(place.boxes);
    }

    /// Local shapes of a tensor that is in no flat group, by model-parallel rank.
    [[nodiscard]] LocalShapes wholes_shape(const std::string& name) {
        if (whole_shapes_.empty()) {
            for (const WholeTensor& whole : wholes_) {
                whole_shapes_[whole.tensor.name][whole.name.mp] = whole.tensor.shape;
            }
        }
        const auto at = whole_shapes_.find(name);
        return at == whole_shapes_.end() ? LocalShapes{} : at->second;
    }

    void settle(const Joined& joined) const {
        const Tensor& tensor = joined.tensor;
        const CoverFault fault = find_cover_fault(tensor);
        if (fault.kind == Cover::Kind::exact) {
            return;
        }
        const bool is_gap = fault.kind == Cover::Kind::gap;
        if (const auto absent = grid_.absent_states(ranks_); is_gap && !absent.empty()) {
            throw Error(ErrorCode::not_found, "files are missing: " + name_list(absent), kCopyAll)
                .add_context("lost " + printable(tensor.name) + ", elements " + fault.text);
        }
        throw Error(
            ErrorCode::mismatch,
            printable(tensor.name) + " of shape " + shape_text(tensor.shape) +
                (is_gap ? ": no rank holds the elements " : ": parts of two ranks overlap: ") +
                fault.text,
            kOneSave);
    }

    void add_aliases() {
        for (const auto& [alias, original] : aliases_) {
            if (const auto at = tensors_.find(original); at != tensors_.end()) {
                Joined joined = at->second;
                joined.tensor.name = alias;
                tensors_.try_emplace(alias, std::move(joined));
            }
        }
        for (const std::string& name : tied_) {
            tensors_.erase(name);
        }
    }

    Weights weights_;
    Catalogue& out_;
    Grid grid_;
    ModelRanks ranks_;
    std::vector<WholeTensor> wholes_;
    std::map<std::string, LocalShapes> whole_shapes_;
    std::map<std::string, std::string> aliases_;
    std::set<std::string> tied_;  // modules of a pipeline, whose layers are aliases
    std::map<std::string, Joined> tensors_;
    IgnoredRows ignored_;
};

}  // namespace

void join_files(std::vector<FileScan> scans, Weights weights, Catalogue& out) {
    Joiner join(weights, out);
    add_each(std::move(scans), join);
    join.finish();
}

}  // namespace shardweld::formats::deepspeed
