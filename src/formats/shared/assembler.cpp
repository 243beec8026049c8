#include "assembler.hpp"

#include <algorithm>
#include <utility>

#include "core/text.hpp"

#include "adam.hpp"
#include "optimizer_claims.hpp"

namespace shardweld::formats {

namespace {

// Order of boxes: by begin, then by extent; pieces of one tensor have the same axes.
int compare(const Piece& a, const Piece& b) {
    for (const std::size_t k : indices(a.patch.axes)) {
        const layout::Axis& x = a.patch.axes[k];
        const layout::Axis& y = b.patch.axes[k];
        if (x.lo != y.lo) {
            return x.lo < y.lo ? -1 : 1;
        }
        if (x.extent != y.extent) {
            return x.extent < y.extent ? -1 : 1;
        }
    }
    return 0;
}

std::string box_text(const Piece& piece) {
    const auto& axes = piece.patch.axes;
    return shape_text(collect_list(axes, &layout::Axis::extent)) + " at " +
           shape_text(collect_list(axes, &layout::Axis::lo));
}

std::string path_of(const std::vector<File>& files, std::uint32_t file) {
    return file < files.size() ? printable(files[file].path) : "one file";
}

std::string sharding_of(bool is_shard) {
    return is_shard ? "a plain tensor" : "part of a sharded tensor";
}

std::string placement_of(const Tensor& tensor) {
    return tensor.placement.empty() ? "a ShardedTensor" : tensor.placement;
}

}  // namespace

void number_replicas(std::vector<Piece>& pieces) {
    std::ranges::stable_sort(pieces, [](const Piece& a, const Piece& b) {
        const int order = compare(a, b);
        return order < 0 || (order == 0 && a.file < b.file);
    });
    for (const std::size_t i : indices(pieces)) {
        const bool is_copy =
            i > 0 && compare(pieces[i - 1], pieces[i]) == 0 && pieces[i - 1].file != pieces[i].file;
        pieces[i].replica = is_copy ? pieces[i - 1].replica + 1 : 0;
    }
}

namespace {

/// " (experts 2 to 3)" of a gap in a stack of matrices that is called so; "" of others.
std::string experts_within(const Tensor& tensor, const layout::Cover& gap) {
    constexpr std::size_t kOfMatrix = 2;
    const std::size_t rank = gap.lo.size();
    if (rank <= kOfMatrix || rank != tensor.shape.size() || !has_part(tensor.name, "experts")) {
        return "";
    }
    const Index first = gap.lo[rank - kOfMatrix - 1];
    const Index last = gap.hi[rank - kOfMatrix - 1] - 1;
    return first >= last
               ? " (expert " + std::to_string(first) + ")"
               : " (experts " + std::to_string(first) + " to " + std::to_string(last) + ")";
}

}  // namespace

CoverFault find_cover_fault(const Tensor& tensor) {
    CoverFault fault;
    std::vector<const Piece*> primary;
    std::vector<const layout::Patch*> patches;
    for (const Piece& piece : tensor.pieces) {
        if (piece.replica == 0) {
            primary.push_back(&piece);
            patches.push_back(&piece.patch);
            fault.held = checked_add(fault.held, piece.patch.volume(), "elements of a tensor");
        }
    }
    const layout::Cover cover =
        patches.empty() ? layout::check_cover(tensor.shape, {})
                        : layout::check_cover(layout::dense_shape(tensor.shape), patches);
    fault.kind = cover.kind;
    if (cover.kind == CoverKind::gap) {
        fault.where = "between " + shape_text(cover.lo) + " and " + shape_text(cover.hi) +
                      experts_within(tensor, cover);
    } else if (cover.kind == CoverKind::overlap) {
        fault.first_box = box_text(*primary[cover.first]);
        fault.second_box = box_text(*primary[cover.second]);
        fault.where = fault.first_box + " and " + fault.second_box;
        fault.first_file = primary[cover.first]->file;
        fault.second_file = primary[cover.second]->file;
    }
    return fault;
}

void require_cover(const Tensor& tensor, const CoverFault& fault, const std::vector<File>& files,
                   const AssemblyErrors& errors) {
    const std::string what =
        printable(tensor.name) + " of shape " + shape_text(tensor.shape) + ": ";
    switch (fault.kind) {
        case CoverKind::exact:
            return;
        case CoverKind::gap:
            throw Error(errors.gap, what + "no file holds the elements " + fault.where,
                        errors.cover_hint);
        case CoverKind::overlap:
            throw Error(errors.overlap,
                        what +
                            (files.empty() ? "parts overlap: "
                                           : path_of(files, fault.first_file) + " and " +
                                                 path_of(files, fault.second_file) +
                                                 " hold parts that overlap: ") +
                            fault.where,
                        errors.cover_hint);
        default:
            throw Error(errors.irregular, what + "too many parts that form no grid",
                        errors.cover_hint);
    }
}

void order_files(Catalogue& catalogue, Unused unused) {
    std::vector<bool> is_used(catalogue.files.size(), unused == Unused::kept);
    const auto for_each_piece = [&](const auto& visit) {
        catalogue::each_tensor(
            catalogue, [&](Tensor& tensor) { std::ranges::for_each(tensor.pieces, visit); });
        catalogue::each_shard(catalogue, [&](Shard& shard) { visit(shard.piece); });
        for (MasterSample& sample : catalogue.samples.all) {
            visit(sample.master);
            visit(sample.weight);
        }
    };
    for_each_piece([&](const auto& piece) { is_used.at(piece.file) = true; });
    const std::vector<File> files = std::exchange(catalogue.files, {});
    for (std::size_t i = 0; i < files.size(); ++i) {
        if (is_used[i]) {
            catalogue.files.push_back(files[i]);
        }
    }
    std::ranges::sort(catalogue.files, [](const auto& a, const auto& b) {
        return a.path == b.path ? a.size > b.size : natural_less(a.path, b.path);
    });
    const auto doubles = std::unique(catalogue.files.begin(), catalogue.files.end(),
                                     [](const auto& a, const auto& b) { return a.path == b.path; });
    catalogue.files.erase(doubles, catalogue.files.end());
    std::vector<std::uint32_t> numbers;
    for (const File& file : files) {
        const auto at =
            std::ranges::lower_bound(catalogue.files, file.path, natural_less, &File::path);
        numbers.push_back(static_cast<std::uint32_t>(at - catalogue.files.begin()));
    }
    for_each_piece([&](auto& piece) { piece.file = numbers[piece.file]; });
}

void take_said(Catalogue& scan, Catalogue& out) {
    append_all(out.statements, std::move(scan.statements));
    for (const auto& [global, count] : scan.inert_globals) {
        out.inert_globals[global] += count;
    }
}

std::uint32_t Assembler::add_scan(Catalogue& scan) {
    const auto first = static_cast<std::uint32_t>(out_.files.size());
    append_all(out_.files, std::move(scan.files));
    take_said(scan, out_);
    ignored_.add(scan.ignored);
    catalogue::each_tensor(scan, [&](Tensor& tensor) {
        for (Piece& piece : tensor.pieces) {
            piece.file += first;
        }
    });
    catalogue::each_shard(scan, [&](Shard& shard) { shard.piece.file += first; });
    return first;
}

Assembled& Assembler::add(Tensor tensor, std::uint32_t file, bool is_shard) {
    const auto [at, is_new] = tensors.try_emplace(tensor.name);
    Assembled& known = at->second;
    if (is_new) {
        known = {std::move(tensor), {file}, is_shard};
        return known;
    }
    require_same(known, tensor, file, is_shard);
    for (const std::size_t k : indices(tensor.shape)) {
        known.tensor.shape[k] = std::max(known.tensor.shape[k], tensor.shape[k]);
    }
    append_all(known.tensor.pieces, tensor.pieces);
    known.files.push_back(file);
    return known;
}

void Assembler::require_same(const Assembled& known, const Tensor& more, std::uint32_t file,
                             bool is_shard) const {
    const Tensor& tensor = known.tensor;
    const bool has_shape = shapes_ == Shapes::stated ? tensor.shape == more.shape
                                                     : tensor.shape.size() == more.shape.size();
    if (known.is_shard == is_shard && tensor.dtype == more.dtype && has_shape &&
        tensor.placement == more.placement) {
        return;
    }
    const std::string& name = tensor.stored_as.empty() ? more.name : tensor.stored_as;
    const std::string one =
        known.files.empty() ? "one file" : path_of(out_.files, known.files.front());
    const std::string other = known.files.empty() ? "another" : path_of(out_.files, file);
    const auto require_alike = [&](const auto& a, const auto& b) {
        require_equal(name, a, one, b, other, errors_.hint);
    };
    require_alike(sharding_of(known.is_shard), sharding_of(is_shard));
    require_alike(tensor.dtype, more.dtype);
    if (!has_shape) {
        require_alike(tensor.shape, more.shape);
    }
    require_alike(placement_of(tensor), placement_of(more));
}

void Assembler::require_same(const Tensor& known, const Tensor& more) const {
    require_same(Assembled{known, {}}, more, 0);
}

void Assembler::finish() {
    out_.tensors.reserve(tensors.size());
    for (auto& [name, assembled] : tensors) {
        out_.tensors.push_back(std::move(assembled.tensor));
    }
    out_.ignored = ignored_.rows();
}

namespace {

/// The tensors of one state in all files.
std::vector<Tensor> joined_state(const std::string& name, Shapes shapes,
                                 std::vector<ToldOptimizer>& told, const std::vector<File>& files) {
    Catalogue part;
    part.files = files;
    Assembler all(part, {}, shapes);
    for (auto& [place, optimizer] : told) {
        auto* const state = find_item(optimizer.states, name, &State::name);
        if (state == nullptr) {
            continue;
        }
        for (Tensor& tensor : state->tensors) {
            const std::uint32_t file = tensor.pieces.empty() ? 0 : tensor.pieces.front().file;
            all.add(std::move(tensor), file);
        }
    }
    all.finish();
    return std::move(part.tensors);
}

}  // namespace

void join_optimizers(Shapes shapes, std::vector<ToldOptimizer> told, Catalogue& out) {
    Optimizer& all = out.optimizer;
    StepClaims steps;
    GroupClaims groups;
    GroupClaims schedulers;
    for (auto& [place, optimizer] : told) {
        const std::string where = printable(place);
        if (!optimizer.groups.empty()) {
            groups.add("", std::move(optimizer.groups), where);
        }
        if (!optimizer.scheduler.empty()) {
            schedulers.add("", {{optimizer.scheduler, {}}}, where);
            all.scheduler = std::move(optimizer.scheduler);
        }
        all.is_ordered = all.is_ordered || optimizer.is_ordered;
        if (optimizer.step) {
            steps.add(real_text(*optimizer.step), where);
        }
        for (const State& state : optimizer.states) {
            state_called(state.name, all);
        }
    }
    groups.finish(all);
    all.step = steps.step();
    for (State& state : all.states) {
        state.tensors = joined_state(state.name, shapes, told, out.files);
    }
    require_both_moments(all);
}

}  // namespace shardweld::formats
