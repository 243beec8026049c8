#include "as_stored.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "models/name_changes.hpp"
#include "shardweld/error.hpp"

namespace shardweld::plan {

bool passes_unlisted(const models::Recipe& recipe, const std::string& name) {
    return recipe.hub.empty() || any_glob_matches(recipe.passes, name);
}

bool passes_unlisted(const models::Recipe& recipe, const catalogue::Tensor& tensor) {
    const bool has_elements = std::ranges::none_of(tensor.shape, [](Index n) { return n == 0; });
    return !has_elements || passes_unlisted(recipe, tensor.name);
}

std::string renamed(const models::Recipe& recipe, const std::string& name) {
    return models::renamed_by(recipe.renames, name);
}

/// The elements of a box of a tensor.
Target target_of_box(const catalogue::Tensor& tensor, SharedName name, const layout::Box& box,
                     const BindOptions& options) {
    Target target;
    target.name = name;
    target.source = tensor.name;
    target.shape = collect_list(box, &layout::Range::extent);
    target.stored = tensor.dtype;
    const DType own = tensor.written_as.value_or(tensor.dtype);
    target.is_kept = any_glob_matches(options.kept, tensor.name);
    const bool is_cast = is_float(tensor.dtype) && !target.is_kept;
    target.dtype = is_cast ? options.dtype.value_or(own) : tensor.dtype;
    const layout::Patch whole = layout::dense(box);
    std::vector<layout::Patch> primaries;
    Index volume = 0;
    for (const catalogue::Piece& piece : tensor.pieces) {
        const auto copy = layout::overlap(piece.patch, whole);
        if (!copy) {
            continue;
        }
        if (piece.replica == 0) {
            volume = checked_add(volume, copy->volume(), tensor.name);
            primaries.push_back(*layout::clip(piece.patch, box));
            target.operands.push_back({piece.file, piece.base, *copy});
        } else {
            target.replicas.push_back({piece.file, piece.base, *copy});
        }
    }
    const auto cover = cover_by(primaries, whole, tensor.name);
    if (cover == layout::CoverKind::overlap) {
        throw Error(ErrorCode::mismatch, tensor.name + " is stored twice: its pieces overlap",
                    "copy all files from one save: these are of several");
    }
    if (cover == layout::CoverKind::gap) {
        throw Error(
            ErrorCode::mismatch,
            tensor.name + " " + shape_text(target.shape) +
                " is not covered: " + std::to_string(volume) + " of " +
                std::to_string(target.volume()) + " elements are stored",
            "no file that was read has the rest: copy what was left out, or take an earlier "
            "save");
    }
    return target;
}

Target target_as_stored(const catalogue::Tensor& tensor, SharedName name,
                        const BindOptions& options) {
    return target_of_box(tensor, name, layout::whole_box(tensor.shape), options);
}

/// One number beside a family's modules, such as a loss or a step.
bool is_lone_number(const models::Recipe& recipe, const catalogue::Tensor& tensor) {
    Index volume = 1;
    for (const Index extent : tensor.shape) {
        volume = extent == 1 ? volume : 0;
    }
    return volume == 1 && !has_part(tensor.name, '.') && !passes_unlisted(recipe, tensor);
}

/// What a training checkpoint calls the tensor, and where it holds it; a model has it whole.
std::vector<TensorPiece> pieces_of(const catalogue::Tensor& tensor, const BindOptions& options) {
    if (!options.pieces) {
        return {{"", {tensor.name}, layout::whole_box(tensor.shape)}};
    }
    models::Line line;
    line.name = models::Pattern::parse(options.passing(tensor.name));
    return options.pieces(line, {}, tensor.shape);
}

void add_target(Target target, bool is_presumed, const std::string& name, Binding& binding) {
    const Bytes element = size_of(target.stored);
    if (target.is_copy) {
        target.replicas.clear();  // they are compared where the elements are counted
    } else {
        binding.ledger.consumed += static_cast<Bytes>(target.volume()) * element;
    }
    for (const Operand& replica : target.replicas) {
        binding.ledger.replica += static_cast<Bytes>(replica.copy.volume()) * element;
    }
    if (is_presumed && !target.is_copy) {
        binding.same.push_back(
            {name, binding.targets.size(), 0, target.replicas.size(), SamePair::Why::presumed});
    }
    binding.targets.push_back(std::move(target));
}

void add_as_stored(std::vector<catalogue::Tensor> tensors, const std::set<std::string>& presumed,
                   const Model& model, const BindOptions& options, Binding& binding) {
    std::vector<std::string> extra;
    std::vector<std::string> unplaced;
    RecentStrings names;
    binding.targets.reserve(binding.targets.size() + tensors.size());
    for (catalogue::Tensor& tensor : tensors) {
        if (is_lone_number(*model.recipe, tensor)) {
            binding.ledger.ignore(tensor.name, "a single number that is no part of the family",
                                  catalogue::stored_bytes(tensor));
            continue;
        }
        const std::vector<TensorPiece> pieces = pieces_of(tensor, options);
        if (pieces.empty()) {
            unplaced.push_back(tensor.name);
        }
        for (const TensorPiece& piece : pieces) {
            Target target = target_of_box(
                tensor, options.pieces ? shared_piece_name(piece, names) : SharedName(tensor.name),
                piece.box, options);
            target.is_copy = piece.is_copy;
            target.piece = piece.number;
            make_like(piece.in_template, target);
            add_target(std::move(target), presumed.contains(tensor.name), tensor.name, binding);
        }
        if (!passes_unlisted(*model.recipe, tensor)) {
            extra.push_back(tensor.name);
        }
        tensor = {};  // there may be millions
    }
    if (!unplaced.empty()) {
        throw Error(ErrorCode::mismatch,
                    "the template has no place for " + counted(unplaced.size(), "tensor") +
                        " of the model: " + listed(unplaced),
                    options.unplaced_hint);
    }
    if (!extra.empty() && !options.has_names_for_all) {
        throw Error(ErrorCode::unsupported,
                    counted(extra.size(), "tensor") + " " + verb_of(extra.size(), "is", "are") +
                        " no part of a " + model.recipe->name + " model, and " +
                        verb_of(extra.size(), "has", "have") +
                        " no name in a training checkpoint: " + listed(extra),
                    "give a model without " + verb_of(extra.size(), "it", "them"));
    }
    if (!extra.empty()) {
        binding.warnings.push_back(
            {"extra_tensors", extra.front(),
             counted(extra.size(), "tensor") + " " + verb_of(extra.size(), "is", "are") +
                 " no part of the " + model.recipe->name +
                 " model that config.json describes: " + listed(extra) + "; " +
                 verb_of(extra.size(), "it is written under the name it is",
                         "they are written under the names they are") +
                 " stored under"});
    }
}

void make_like(const OptionalBox<TensorPiece::InTemplate>& in_template, Target& target) {
    if (!in_template) {
        return;
    }
    const bool is_cast = target.dtype != in_template->dtype;
    if (is_cast && !(is_float(target.stored) && is_float(in_template->dtype))) {
        throw Error(ErrorCode::mismatch,
                    target.name.text() + " is " + safetensors_name(in_template->dtype) +
                        " in the template and " + safetensors_name(target.stored) + " in the model",
                    "give a template that was saved of this model");
    }
    target.dtype = in_template->dtype;
    if (target.operands.empty()) {
        target.stored = in_template->dtype;  // padding alone
    }
    if (target.stored == in_template->dtype && target.add == 0) {
        for (const layout::Range& padding : std::exchange(target.zeros, {})) {
            target.operands.push_back({in_template->file,
                                       in_template->base,
                                       {padding.lo, padding.lo, {{padding.extent, 1, 1}}}});
        }
    }
}

layout::CoverKind cover_by(const std::vector<layout::Patch>& parts, const layout::Patch& wanted,
                           const std::string& name) {
    std::vector<const layout::Patch*> boxes;
    boxes.reserve(parts.size());
    Index volume = 0;
    for (const layout::Patch& part : parts) {
        boxes.push_back(&part);
        volume = checked_add(volume, part.volume(), name);
    }
    const layout::CoverKind kind = layout::check_cover(wanted, boxes).kind;
    if (kind == layout::CoverKind::irregular) {
        throw Error(ErrorCode::unsupported, name + ": too many pieces that form no grid");
    }
    // With so many elements, what leaves a gap here overlaps elsewhere.
    return kind == layout::CoverKind::gap && volume >= wanted.volume() ? layout::CoverKind::overlap
                                                                       : kind;
}

}  // namespace shardweld::plan
