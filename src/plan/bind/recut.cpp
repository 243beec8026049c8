#include "recut.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/strides.hpp"
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

std::vector<Boxes> boxes_of(std::span<const Operand> operands, std::span<const Index> shape) {
    return collect_list(operands, [&](const Operand& operand) {
        return Boxes{&operand, layout::unfold_dst(operand.copy, shape)};
    });
}

[[noreturn]] void refuse(const Target& piece, const std::string& what) {
    throw Error(ErrorCode::unsupported, printable(piece.name.text()) + " would be made of " + what,
                "merge first, then reshape the model that was written");
}

std::string type_of(DType dtype) {
    return safetensors_name(dtype);
}

/// What a piece takes of a target's stored elements: boxes of a tensor of this shape whose storage
/// is the piece.
struct Taken {
    std::vector<Index> shape;
    std::vector<layout::Patch> boxes;
};

/// A copy's boxes, as few as they can be.
Taken taken_by(const layout::Copy& copy, std::vector<Index> shape) {
    shape = layout::divided_src(copy, std::move(shape));
    return {shape, layout::unfold_src(copy, shape)};
}

/// The axis along which several elements share a code.
std::size_t packed_axis(const Decode& how, const std::vector<Index>& shape) {
    const std::vector<Index> strides = dense_strides(shape);
    const auto at = std::ranges::find(strides, how.is_turned() ? how.n_columns : 1);
    return static_cast<std::size_t>(at - strides.begin());
}

/// Boxes of a weight as boxes of its codes, which stand in the piece as the elements do, `packing`
/// in one. nullopt: codes would be divided, or not stand in one.
std::optional<Taken> as_codes(const Decode& how, Taken taken) {
    const Index n = how.packing();
    const auto divide = [&](Index& value) { return std::exchange(value, value / n) % n == 0; };
    const std::size_t packed = packed_axis(how, taken.shape);
    bool fits = divide(taken.shape.at(packed));
    for (layout::Patch& box : taken.boxes) {
        for (const std::size_t k : indices(box.axes)) {
            layout::Axis& axis = box.axes[k];
            fits = fits && (k == packed ? (axis.stride == 1 || n == 1) && divide(axis.lo) &&
                                              divide(axis.extent)
                                        : axis.extent == 1 || divide(axis.stride));
        }
        fits = fits && divide(box.offset);
    }
    return fits ? std::optional(std::move(taken)) : std::nullopt;
}

/// All codes of a weight, by rows.
std::vector<Index> shape_of_codes(const Decode& how) {
    return how.is_turned() ? std::vector{how.n_rows / 2, how.n_columns}
                           : std::vector{how.n_rows, how.codes_in(1)};
}

/// Whether a copy takes whole tiles of rows as they are, to begin a piece with.
bool is_of_whole_rows(const Decode& how, const layout::Copy& copy, Index volume) {
    const bool is_straight =
        copy.loops.empty() ||
        (copy.loops.size() == 1 && copy.loops[0].src_stride == 1 && copy.loops[0].dst_stride == 1);
    return is_straight && copy.dst_offset == 0 && copy.volume() == volume &&
           copy.src_offset % (how.rows_of_scale() * how.n_columns) == 0 &&
           copy.volume() % how.n_columns == 0;
}

class Recutter {
  public:
    Recutter(const std::vector<Target>& model, std::uint32_t first_file)
        : model_(model), first_file_(first_file) {}

    void recut(Target& piece) {
        const auto bound = std::exchange(piece.operands, {});
        piece.replicas.clear();
        bool is_first = true;
        for (const Operand& operand : bound) {
            if (operand.file < first_file_) {
                piece.operands.push_back(operand);  // padding of a template
                continue;
            }
            const std::uint32_t at = operand.file - first_file_;
            take_types(model_[at], is_first, piece);
            is_first = false;
            take_operand(at, operand.copy, bound.size() == 1, piece);
        }
        if (!piece.decoded.empty()) {
            require_codes_alone(bound.size(), piece);
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
        if (!whole.decode && whole.stored != whole.dtype && whole.dtype != piece.dtype) {
            refuse(piece, type_of(whole.stored) + " elements that are " + type_of(whole.dtype) +
                              " in the model and " + type_of(piece.dtype) + " there");
        }
    }

    /// `copy`: from the elements of the model's target.
    void take_operand(std::uint32_t at, const layout::Copy& copy, bool is_alone, Target& piece) {
        const Target& whole = model_[at];
        const Taken taken =
            whole.decode
                ? codes_taken(*whole.decode, copy, is_alone && whole.dtype == piece.dtype, piece)
                : taken_by(copy, whole.shape);
        piece.operands.append(operands_in(operands_of(at, taken.shape), taken.boxes));
        if (!piece.is_copy) {
            piece.replicas.append(operands_in(boxes_of(whole.replicas, taken.shape), taken.boxes));
        }
        if (whole.fold) {
            piece.folded.push_back({*whole.fold, whole.dtype, copy});
        }
        if (!piece.folded.empty() && piece.add != 0) {
            refuse(piece, "elements that are folded into and added to");
        }
    }

    /// A piece of whole rows is made as a weight is; any other in parts.
    static Taken codes_taken(const Decode& how, const layout::Copy& copy, bool may_be_whole,
                             Target& piece) {
        if (may_be_whole && is_of_whole_rows(how, copy, piece.volume())) {
            return whole_rows_taken(how, copy, piece);
        }
        auto codes = as_codes(how, taken_by(copy, {how.n_rows, how.n_columns}));
        if (!codes) {
            refuse(piece, "codes of " + std::string(facts_of(how.encoding).name) +
                              " in an order in which they cannot be cut");
        }
        piece.decoded.push_back({how, copy});
        if (how.packing() > 1) {
            piece.strip = strip_rows_of(how.packing(), 1);
        }
        return *std::move(codes);
    }

    static Taken whole_rows_taken(const Decode& how, const layout::Copy& copy, Target& piece) {
        const Index first = copy.src_offset / how.n_columns;
        Decode own = how;
        own.n_rows = copy.volume() / how.n_columns;
        own.scales_at += static_cast<Bytes>(first / how.rows_of_scale()) * how.scale_row_bytes();
        piece.decode = own;
        const std::vector<Index> shape = shape_of_codes(how);
        layout::Box box = layout::whole_box(shape_of_codes(own));
        box[0].lo = how.codes_in(first) / shape[1];
        return {shape, {layout::dense(box)}};
    }

    /// All elements of such a piece are codes of one kind.
    static void require_codes_alone(std::size_t n_parts, const Target& piece) {
        const Index n = piece.packing();
        const bool is_one_kind =
            piece.decoded.size() == n_parts && piece.n_zeros() == 0 && piece.add == 0 &&
            std::ranges::all_of(piece.decoded,
                                [&](const DecodedPart& part) { return part.how.packing() == n; });
        if (!is_one_kind) {
            refuse(piece, "codes of fewer bits and of other elements");
        }
    }

    static std::vector<Operand> operands_in(const std::vector<Boxes>& stored,
                                            const std::vector<layout::Patch>& wanted) {
        std::vector<Operand> found;
        for (const Boxes& one : stored) {
            for (const layout::Patch& from : one.patches) {
                add_overlaps(*one.operand, from, wanted, found);
            }
        }
        return found;
    }

    static void add_overlaps(const Operand& operand, const layout::Patch& from,
                             const std::vector<layout::Patch>& wanted, std::vector<Operand>& out) {
        for (const layout::Patch& to : wanted) {
            if (const auto copy = layout::overlap(from, to)) {
                out.push_back({operand.file, operand.base, *copy, operand.term});
            }
        }
    }

    const std::vector<Boxes>& operands_of(std::uint32_t at, const std::vector<Index>& shape) {
        const auto [found, is_new] = boxes_.try_emplace({at, shape});
        if (is_new) {
            found->second = boxes_of(model_[at].operands, shape);
        }
        return found->second;
    }

    const std::vector<Target>& model_;
    std::uint32_t first_file_;
    /// By target of the model, and the shape of what it is stored as.
    std::map<std::pair<std::uint32_t, std::vector<Index>>, std::vector<Boxes>> boxes_;
    Index bound_add_ = 0;  ///< what binding says is added to a piece
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
