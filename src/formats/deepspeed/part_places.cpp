#include "part_places.hpp"

#include "core/text.hpp"
#include "formats/shared/hints.hpp"
#include "shardweld/error.hpp"

#include "pickled.hpp"
#include "scan.hpp"

namespace shardweld::formats::deepspeed {

namespace {

using catalogue::Tensor;

PartPlace place_boxes(const Tensor& rule, const std::vector<Index>& local) {
    PartPlace place{rule.shape, {}};
    const std::vector<Index> strides = dense_strides(local);
    for (const catalogue::Piece& piece : rule.pieces) {
        LocalBox box;
        box.replica = piece.replica;
        Index at = piece.patch.offset;
        for (std::size_t k = 0; k < local.size(); ++k) {
            box.global.push_back(piece.patch.axes[k].lo);
            box.extent.push_back(piece.patch.axes[k].extent);
            box.local.push_back(at / strides[k]);
            at %= strides[k];
        }
        place.boxes.push_back(std::move(box));
    }
    return place;
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

}  // namespace

PartPlace place_whole(const std::vector<Index>& local) {
    const std::vector<Index> zero(local.size(), 0);
    return {local, {{zero, zero, local, 0}}};
}

PartPlace place_part(const std::string& name, const std::vector<Index>& local, Index mp,
                     Index n_tensor_ranks, const ModelRanks& ranks, const LocalShapes& others) {
    const auto rank = ranks.find(mp);
    const Tensor* const rule = rank == ranks.end() ? nullptr : rank->second.rule_for(name);
    if (rule == nullptr) {
        throw Error(ErrorCode::unsupported,
                    "nothing says how the parts of " + printable(name) + " on " +
                        std::to_string(n_tensor_ranks) +
                        " tensor-parallel ranks are joined (universal_checkpoint_info)",
                    "convert it with DeepSpeed's ds_to_universal.py and merge what that makes");
    }
    if (rule->placement == kRuleBoxes) {
        return place_boxes(*rule, local);
    }
    PartPlace place = place_whole(local);
    const std::size_t axis = rule->placement == kRuleColumns ? 1 : 0;
    if (rule->placement == kRuleReplicated || local.size() <= axis) {
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

}  // namespace shardweld::formats::deepspeed
