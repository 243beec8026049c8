#include "as_stored.hpp"

#include <algorithm>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::plan {

bool passes_unlisted(const models::Recipe& recipe, const std::string& name) {
    return recipe.hub.empty() ||
           std::any_of(recipe.passes.begin(), recipe.passes.end(),
                       [&](const std::string& glob) { return glob_matches(glob, name); });
}

bool passes_unlisted(const models::Recipe& recipe, const catalogue::Tensor& tensor) {
    const bool has_elements = std::ranges::none_of(tensor.shape, [](Index n) { return n == 0; });
    return !has_elements || passes_unlisted(recipe, tensor.name);
}

std::string renamed(const models::Recipe& recipe, const std::string& name) {
    const models::RenameRule* best = models::longest_match(recipe.renames, name);
    return best == nullptr ? name : best->to + name.substr(best->from.size());
}

Target target_as_stored(const catalogue::Tensor& tensor, std::string name, const Wanted& wanted) {
    Target target;
    target.name = std::move(name);
    target.source = tensor.name;
    target.shape = tensor.shape;
    target.stored = tensor.dtype;
    const DType own = tensor.written_as.value_or(tensor.dtype);
    target.is_kept = std::ranges::any_of(
        wanted.kept, [&](const std::string& glob) { return glob_matches(glob, tensor.name); });
    const bool is_cast = is_float(tensor.dtype) && !target.is_kept;
    target.dtype = is_cast ? wanted.dtype.value_or(own) : tensor.dtype;
    const layout::Patch whole = layout::dense_shape(tensor.shape);
    layout::Box box;
    for (const Index extent : tensor.shape) {
        box.push_back({0, extent});
    }
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
    if (cover == layout::Cover::Kind::overlap) {
        throw Error(ErrorCode::mismatch, tensor.name + " is stored twice: its pieces overlap",
                    "copy all files from one save: these are of several");
    }
    if (cover == layout::Cover::Kind::gap) {
        throw Error(
            ErrorCode::mismatch,
            tensor.name + " " + shape_text(tensor.shape) +
                " is not covered: " + std::to_string(volume) + " of " +
                std::to_string(target.volume()) + " elements are stored",
            "no file that was read has the rest: copy what was left out, or take an earlier "
            "save");
    }
    return target;
}

/// One number beside a family's modules, such as a loss or a step.
bool is_lone_number(const models::Recipe& recipe, const catalogue::Tensor& tensor) {
    Index volume = 1;
    for (const Index extent : tensor.shape) {
        volume = extent == 1 ? volume : 0;
    }
    return volume == 1 && tensor.name.find('.') == std::string::npos &&
           !passes_unlisted(recipe, tensor);
}

void add_as_stored(std::vector<catalogue::Tensor> tensors, const std::set<std::string>& presumed,
                   const Model& model, const Wanted& wanted, Binding& binding) {
    std::vector<std::string> extra;
    binding.targets.reserve(binding.targets.size() + tensors.size());
    for (catalogue::Tensor& tensor : tensors) {
        if (is_lone_number(*model.recipe, tensor)) {
            binding.ledger.ignore(tensor.name, "a single number that is no part of the family",
                                  catalogue::stored_bytes(tensor));
            continue;
        }
        Target target = target_as_stored(tensor, tensor.name, wanted);
        const Bytes element = size_of(target.stored);
        binding.ledger.consumed += static_cast<Bytes>(target.volume()) * element;
        for (const Operand& replica : target.replicas) {
            binding.ledger.replica += static_cast<Bytes>(replica.copy.volume()) * element;
        }
        if (presumed.contains(tensor.name)) {
            binding.same.push_back({tensor.name, binding.targets.size(), 0, target.replicas.size(),
                                    SamePair::Why::presumed});
        }
        if (!passes_unlisted(*model.recipe, tensor)) {
            extra.push_back(tensor.name);
        }
        binding.targets.push_back(std::move(target));
        tensor = {};  // there may be millions
    }
    if (!extra.empty()) {
        binding.warnings.push_back(
            {"extra_tensors", extra.front(),
             std::to_string(extra.size()) + " tensor(s) are no part of the " + model.recipe->name +
                 " model that config.json describes: " + listed(extra) +
                 "; they are written under the names they are stored under"});
    }
}

layout::Cover::Kind cover_by(const std::vector<layout::Patch>& parts, const layout::Patch& wanted,
                             const std::string& name) {
    using Kind = layout::Cover::Kind;
    std::vector<const layout::Patch*> boxes;
    boxes.reserve(parts.size());
    Index volume = 0;
    for (const layout::Patch& part : parts) {
        boxes.push_back(&part);
        volume = checked_add(volume, part.volume(), name);
    }
    const Kind kind = layout::check_cover(wanted, boxes).kind;
    if (kind == Kind::irregular) {
        throw Error(ErrorCode::unsupported, name + ": too many pieces that form no grid");
    }
    // With so many elements, what leaves a gap here overlaps elsewhere.
    return kind == Kind::gap && volume >= wanted.volume() ? Kind::overlap : kind;
}

}  // namespace shardweld::plan
