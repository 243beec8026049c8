#include "recut.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "core/text.hpp"
#include "layout/unfold.hpp"
#include "shardweld/error.hpp"

namespace shardweld::plan {

namespace {

/// An operand's elements as boxes of its target; storage is the file.
struct Boxes {
    const Operand* operand = nullptr;
    std::vector<layout::Patch> patches;
};

std::vector<Boxes> boxes_of(const std::vector<Operand>& operands, const std::vector<Index>& shape) {
    std::vector<Boxes> boxes;
    for (const Operand& operand : operands) {
        boxes.push_back({&operand, layout::unfold_dst(operand.copy, shape)});
    }
    return boxes;
}

[[noreturn]] void refuse(const Target& piece, const std::string& what) {
    throw Error(ErrorCode::unsupported, printable(piece.name) + " would be made of " + what,
                "merge first, then reshape the model that was written");
}

std::string type_of(DType dtype) {
    return std::string(safetensors_name(dtype));
}

class Recutter {
  public:
    Recutter(const std::vector<Target>& model, std::uint32_t first_file)
        : model_(model), first_file_(first_file) {}

    void recut(Target& piece) {
        std::vector<Operand> bound = std::exchange(piece.operands, {});
        piece.replicas.clear();
        bool is_first = true;
        for (Operand& operand : bound) {
            if (operand.file < first_file_) {
                piece.operands.push_back(operand);  // padding of a template
                continue;
            }
            const std::uint32_t at = operand.file - first_file_;
            take_types(model_[at], is_first, piece);
            is_first = false;
            take(at, operand.copy, piece);
        }
    }

  private:
    void take_types(const Target& whole, bool is_first, Target& piece) {
        if (is_first) {
            bound_add_ = piece.add;
            piece.stored = whole.stored;
            piece.source = whole.source;
        } else if (piece.stored != whole.stored) {
            refuse(piece, type_of(piece.stored) + " and " + type_of(whole.stored) + " elements");
        }
        piece.source = piece.source == whole.source ? piece.source : "";
        piece.add = bound_add_ + whole.add;
        if (whole.stored != whole.dtype && whole.dtype != piece.dtype) {
            refuse(piece, type_of(whole.stored) + " elements that are " + type_of(whole.dtype) +
                              " in the model and " + type_of(piece.dtype) + " there");
        }
    }

    /// `copy`: from the elements of the model's target.
    void take(std::uint32_t at, const layout::Copy& copy, Target& piece) {
        const Target& whole = model_[at];
        const auto wanted = layout::unfold_src(copy, whole.shape);
        add_operands(operands_of(at), wanted, piece.operands);
        if (!piece.is_copy) {
            add_operands(boxes_of(whole.replicas, whole.shape), wanted, piece.replicas);
        }
        if (whole.fold) {
            piece.folded.push_back({*whole.fold, whole.dtype, copy});
        }
        if (!piece.folded.empty() && piece.add != 0) {
            refuse(piece, "elements that are folded into and added to");
        }
    }

    static void add_operands(const std::vector<Boxes>& stored,
                             const std::vector<layout::Patch>& wanted, std::vector<Operand>& out) {
        for (const Boxes& one : stored) {
            for (const layout::Patch& from : one.patches) {
                for (const layout::Patch& to : wanted) {
                    if (const auto copy = layout::overlap(from, to)) {
                        out.push_back(
                            {one.operand->file, one.operand->base, *copy, one.operand->term});
                    }
                }
            }
        }
    }

    const std::vector<Boxes>& operands_of(std::uint32_t at) {
        const auto found = boxes_.find(at);
        return found != boxes_.end()
                   ? found->second
                   : boxes_.emplace(at, boxes_of(model_[at].operands, model_[at].shape))
                         .first->second;
    }

    const std::vector<Target>& model_;
    std::uint32_t first_file_;
    std::map<std::uint32_t, std::vector<Boxes>> boxes_;  ///< by target of the model
    Index bound_add_ = 0;                                ///< what binding says is added to a piece
};

}  // namespace

std::vector<catalogue::Tensor> as_tensors(const std::vector<Target>& model,
                                          std::uint32_t first_file) {
    std::vector<catalogue::Tensor> tensors;
    tensors.reserve(model.size());
    for (std::uint32_t at = 0; at < model.size(); ++at) {
        catalogue::Tensor tensor;
        tensor.name = model[at].name;
        tensor.dtype = model[at].dtype;
        tensor.shape = model[at].shape;
        catalogue::Piece piece;
        piece.file = first_file + at;
        piece.storage_bytes = model[at].bytes();
        piece.patch = layout::dense_shape(tensor.shape);
        tensor.pieces.push_back(std::move(piece));
        tensors.push_back(std::move(tensor));
    }
    return tensors;
}

void recut(const std::vector<Target>& model, std::uint32_t first_file,
           std::vector<Target>& pieces) {
    Recutter recutter(model, first_file);
    for (Target& piece : pieces) {
        recutter.recut(piece);
    }
}

}  // namespace shardweld::plan
