#include "target_builder.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "as_stored.hpp"
#include "hub_names.hpp"
#include "mismatches.hpp"
#include "overlaps.hpp"
#include "together.hpp"

namespace shardweld::plan {

namespace {

constexpr std::string_view kOfPredictions = "mtp.";  // of logical names
constexpr std::string_view kOfValue = "score";

Bytes stored_bytes(Index volume, DType dtype) {
    return static_cast<Bytes>(volume) * size_of(dtype);
}

/// The piece's box without its place in a stack.
layout::Box own_box(const TensorPiece& piece) {
    layout::Box box;
    for (std::size_t k = piece.stack > 0 ? 1 : 0; k < piece.box.size(); ++k) {
        box.push_back(piece.box[k]);
    }
    return box;
}

/// What is known of an optional line: a tensor that is stored, one that is not, and their numbers.
struct FoundOptional {
    std::string stored;
    std::string absent;
    Index n_stored = 0;
    Index n_absent = 0;
};

/// An order of boxes of one tensor.
bool is_box_before(const layout::Box* a, const layout::Box* b) {
    return std::ranges::lexicographical_compare(*a, *b, [](const auto& x, const auto& y) {
        return std::tie(x.lo, x.extent) < std::tie(y.lo, y.extent);
    });
}

/// Builds targets from hub lines against the filed segments, one after another.
class TargetBuilder {
  public:
    TargetBuilder(const Model& model, const BindOptions& options, const StoreMatcher& matcher,
                  LogicalSegments& segments, Binding& binding)
        : model_(model),
          options_(options),
          matcher_(matcher),
          segments_(segments),
          binding_(binding) {}

    void build(const HubName& hub) {
        if (hub.line->optional && !has_extents(hub)) {
            note_lacking(hub);
            return;
        }
        const layout::BoundLayout& bound = bound_for(*hub.line, hub.captures);
        if (!options_.pieces) {
            use_shape(bound.shape(), std::identity());
            build(hub, nullptr, lowered_);
            return;
        }
        std::vector<layout::SegmentPatch> lowered;
        const auto pieces = options_.pieces(*hub.line, hub.captures, bound.shape());
        const bool has_copies = std::ranges::any_of(pieces, &TensorPiece::is_copy);
        std::map<const layout::Box*, std::size_t, decltype(&is_box_before)> built(&is_box_before);
        for (const TensorPiece& piece : pieces) {
            if (has_copies) {
                const auto [same, is_new] = built.emplace(&piece.box, n_targets());
                if (!is_new && piece.is_copy && !piece.in_template) {
                    add_copy(hub, same->second, piece);
                    continue;
                }
            }
            lowered.clear();
            bound.lower(layout::dense(own_box(piece)), lowered);
            use_shape(piece.box, &layout::Range::extent);
            if (!build(hub, &piece, lowered)) {
                return;
            }
        }
    }

    /// Whether so much is missing that counting on tells nothing: a field of config.json is wrong.
    [[nodiscard]] bool is_hopeless() const {
        return n_missing_ > static_cast<Index>(segments_.n_stored()) + kMostMissing;
    }

    /// What missing names are noted under.
    [[nodiscard]] const char* kind_of_missing() const {
        return is_part_lost_ ? kPartLost : kMissing;
    }

    /// Error(mismatch) when a part is stored of what is stored together; counts what is.
    void check_together() {
        together_.check(kConfigHint);
        binding_.n_predictions = together_.n_stored(kOfPredictions);
    }

    /// Looks at optional tensors that have a precision of their own, as corrections of routers
    /// have: Error(mismatch) when some layers have one and others have not; a warning when none
    /// has.
    void check_optional() {
        for (const auto& [line, found] : optional_) {
            if (found.n_stored > 0 && found.n_absent > 0) {
                throw Error(ErrorCode::mismatch,
                            found.absent + " is not stored, but " +
                                counted(found.n_stored, "tensor") + " of its kind, such as " +
                                found.stored,
                            "copy the files of the save again, or take an earlier one: this one "
                            "lost a tensor")
                    .set_detail(line->origin);
            }
            if (found.n_absent > 0) {
                binding_.warnings.push_back(
                    {"optional_missing", found.absent,
                     found.absent + " is not stored" +
                         (found.n_absent == 1 ? ""
                                              : ", nor are " + std::to_string(found.n_absent - 1) +
                                                    " more of its kind") +
                         ": a model that was trained with it lost it, one that was not is loaded "
                         "with zeros for it"});
            }
        }
    }

    /// Error(mismatch) when names found nothing stored.
    void check_complete(std::span<const catalogue::Tensor> others) const {
        if (n_missing_ == 0) {
            return;
        }
        if (n_missing_ == 1) {
            refuse_headless();
        }
        std::string text = first_missing_;
        if (n_missing_ > 1) {
            text += "; missing too: " + other_missing_ + (n_missing_ > kMostListed ? ", ..." : "") +
                    " (" + (is_hopeless() ? "at least " : "") + std::to_string(n_missing_) +
                    " in all)";
        }
        const NameDifference difference = difference_of(missing_, others);
        if (difference.is_telling) {
            throw Error(ErrorCode::mismatch,
                        difference.text + ", and no part of a " + model_.recipe->name + " model",
                        difference.hint)
                .set_detail(text + " (" + missing_line_->origin + ")");
        }
        if (difference.hint.empty() && options_.supplied.empty()) {
            text +=
                "; what training did not hold is taken from another model with --supplement DIR";
        }
        throw Error(ErrorCode::mismatch,
                    text + (difference.text.empty() ? "" : "; " + difference.text),
                    difference.hint.empty() ? kConfigHint : difference.hint)
            .set_detail(missing_line_->origin);
    }

  private:
    [[nodiscard]] std::size_t n_targets() const { return binding_.targets.size(); }

    /// Ranks by the hundred hold the same box of a tensor: what was found for one of them goes for
    /// all.
    void add_copy(const HubName& hub, std::size_t of, const TensorPiece& piece) {
        if (!options_.may_lack) {
            note_optional(hub, true);
        }
        Target copy = binding_.targets[of];
        copy.name = shared_piece_name(piece, names_);
        copy.piece = piece.number;
        copy.is_copy = true;
        copy.replicas.clear();  // compared where the elements are counted
        binding_.targets.push_back(std::move(copy));
    }

    /// Has the next targets share a shape: `extent` of each of the axes.
    template <typename Axes, typename Extent>
    void use_shape(const Axes& axes, Extent extent) {
        if (!std::ranges::equal(axes, shape_, {}, extent)) {
            shape_ = collect_list(axes, extent);
        }
    }

    /// `piece`: what is written under one name of the tensor that a line stands for, which is a
    /// copy where its elements are counted elsewhere; nullptr: all of it. False where nothing is
    /// stored of it.
    bool build(const HubName& hub, const TensorPiece* piece,
               std::span<const layout::SegmentPatch> lowered) {
        const models::Line& line = *hub.line;
        Target target;
        target.name = piece == nullptr ? SharedName(hub.name) : shared_piece_name(*piece, names_);
        target.shape = shape_;
        // What is added makes up for the framework's form, which the module tree does not have, or
        // gives the written one.
        target.add = model_.dialect->has_own_names && !model_.recipe->is_form ? 0 : line.add;
        target.is_copy = piece != nullptr && piece->is_copy;
        target.piece = piece == nullptr ? 0 : piece->number;
        is_missing_ = false;
        n_counted_ = 0;
        file_parts(hub, lowered, target);
        std::vector<Operand> same;
        std::size_t n_absent = add_up(filed_, [&](const Filed& one) {
            return take_operands(one, hub, target, same) ? 0U : 1U;
        });
        n_absent_ += static_cast<Index>(n_absent);
        if (is_missing_ || (n_absent == filed_.size() && !filed_.empty())) {
            require_few_absent(hub);
            is_supplied(hub) ? note_optional(hub, true) : note_lacking(hub);
            return false;  // said at the end, or optional and wholly absent
        }
        if (n_absent > 0) {
            throw Error(ErrorCode::mismatch,
                        target.name.text() + (line.optional ? " is optional, but only" : ": only") +
                            " a part of it is stored",
                        kConfigHint)
                .set_detail(line.origin);
        }
        if (!options_.may_lack) {
            note_optional(hub, true);
        }
        if (options_.has_logical_patches) {
            target.logical_patches = collect_list(
                filed_, [&](const Filed& one) { return segments_.logical_patch_of(one); });
        }
        finish(std::move(target), std::move(same), line, piece);
        return true;
    }

    /// Files the segments of a part; those of padding become the target's zeros.
    void file_parts(const HubName& hub, std::span<const layout::SegmentPatch> lowered,
                    Target& target) {
        filed_.clear();
        std::vector<layout::Range> zeros;
        const std::vector<SegmentPlan>& plans = segments_.plans_of(*hub.line);
        for (const layout::SegmentPatch& patch : lowered) {
            if (plans[static_cast<std::size_t>(patch.segment)].is_dropped) {
                if (!take_padding(hub, patch)) {
                    add_runs(patch.patch, zeros);
                }
            } else {
                segments_.file(*hub.line, bound_, patch, hub.captures, filed_);
            }
        }
        std::ranges::sort(zeros, {}, &layout::Range::lo);
        target.zeros = std::move(zeros);
        if (filed_.empty()) {
            take_types(hub, target);
        }
    }

    /// Files padding that is stored, if it is wanted and all there.
    bool take_padding(const HubName& hub, const layout::SegmentPatch& patch) {
        if (!options_.keeps_padding) {
            return false;
        }
        std::vector<Filed> padding;
        segments_.file(*hub.line, bound_, patch, hub.captures, padding);
        const bool is_stored = std::ranges::all_of(padding, [&](const Filed& one) {
            const LogicalSegment* const segment = segments_.find(one.key);
            Overlaps found;
            if (segment != nullptr) {
                overlap_into(*segment, one.patch, found);
            }
            return found.volume == one.patch.volume();
        });
        if (is_stored) {
            append_all(filed_, padding);
        }
        return is_stored;
    }

    /// A part that is padding alone, or the rows of a rank that has none, is of the type of the
    /// tensor it belongs to. A tensor without elements has no patches to look by.
    void take_types(const HubName& hub, Target& target) {
        std::vector<Filed> whole;
        if (!lowered_.empty()) {
            segments_.file(*hub.line, bound_, lowered_.front(), hub.captures, whole);
        }
        const LogicalSegment* const segment =
            whole.empty() ? nullptr : segments_.find(whole.front().key);
        if (segment != nullptr) {
            target.stored = segment->dtype;
            target.dtype = segment->written_as;
            target.source = source_name(segments_.stored_name(segment->name));
        } else {
            target.stored = target.dtype = segments_.usual_type();
        }
    }

    /// Target::source, by which adapters look for targets. Pieces have none: there may be a
    /// million, and nobody looks for them.
    [[nodiscard]] std::string source_name(const std::string& stored) const {
        return options_.pieces ? std::string() : stored;
    }

    /// Error(mismatch) where all but a head is there: one that the model would share with the
    /// embedding, or that of a value model.
    void refuse_headless() const {
        const std::string& logical = missing_line_->logical;
        const std::string& name = missing_line_->name.text;
        const auto& rules = model_.recipe->same;
        auto* const rule = find_item(rules, logical, &models::SameRule::a);
        if (rule != nullptr) {
            const auto fields = model_.symbols->deciding_fields(rule->condition);
            throw Error(ErrorCode::mismatch,
                        "the checkpoint has no output head (" + name + "), but by config.json" +
                            (fields.empty() ? "" : " (" + joined(fields, ", ") + ")") +
                            " head and embedding are two",
                        "give --tie-word-embedding if the model is tied, else a save that has "
                        "the head, or with --supplement DIR a model that has it")
                .set_detail(missing_line_->origin);
        }
        if (logical == kOfValue) {
            throw Error(
                ErrorCode::mismatch,
                "the checkpoint has no value head (" + name + "): it looks like a language model",
                "leave --is_value_model out, and name the trained class in config.json's "
                "architectures")
                .set_detail(missing_line_->origin);
        }
    }

    static constexpr Index kMostListed = 4;
    static constexpr Index kMostCompared = 8;    ///< with what is stored instead
    static constexpr Index kMostMissing = 4096;  ///< beyond as many as are stored
    // Optional: three MTP layers of 384 experts promise some thousands.
    static constexpr Index kMostAbsent = 100'000;

    /// Bound layout and lowered patches of a whole target, kept while line and extents stay the
    /// same.
    const layout::BoundLayout& bound_for(const models::Line& line,
                                         const models::Captures& captures) {
        const models::Symbols& symbols = model_.of_written();
        std::vector<Index> extents = extents_of(line.layout, symbols, captures);
        if (line_ != &line || extents != extents_) {
            const auto extent_of = [&](const std::string& axis) {
                return symbols.value(axis, captures);
            };
            bound_ = layout::BoundLayout::bind(line.layout, extent_of);
            line_ = &line;
            extents_ = std::move(extents);
            lowered_.clear();
            bound_.lower(layout::dense_shape(bound_.shape()), lowered_);
        }
        return bound_;
    }

    /// A layer that lacks the module has no extents of it.
    [[nodiscard]] bool has_extents(const HubName& hub) const {
        try {
            (void)extents_of(hub.line->layout, model_.of_written(), hub.captures);
            return true;
        } catch (const Error&) {
            return false;
        }
    }

    /// Missing tensors are counted and said together: one wrong field of config.json may promise
    /// hundreds.
    void note_missing(const HubName& hub, std::uint32_t segment) {
        is_missing_ = true;
        is_part_lost_ = is_part_lost_ || hub.captures.empty();
        if (n_missing_++ == 0) {
            missing_line_ = hub.line;
            first_missing_ =
                hub.name + (model_.dialect->has_own_names
                                ? " is not stored"
                                : " needs " + segments_.segment_text(segment) +
                                      ", but the checkpoint holds no " +
                                      matcher_.names_of(segments_.logical_of(segment)) + " for it");
        } else if (n_missing_ <= kMostListed) {
            other_missing_ += (n_missing_ == 2 ? "" : ", ") + hub.name;
        }
        if (n_missing_ <= kMostCompared) {
            matcher_.add_shapes(segments_.logical_of(segment), missing_);
        }
    }

    [[nodiscard]] bool is_supplied(const HubName& hub) const {
        return !options_.supplied.empty() && options_.supplied.contains(hub.name);
    }

    void note_optional(const HubName& hub, bool is_stored) {
        if (hub.line->together) {
            together_.add_name(hub, is_stored);
        } else if (hub.line->optional && hub.line->keep && hub.captures.size() == 1) {
            FoundOptional& found = optional_[hub.line];
            (is_stored ? found.stored : found.absent) = hub.name;
            ++(is_stored ? found.n_stored : found.n_absent);
        }
    }

    void note_lacking(const HubName& hub) {
        auto& lacking = binding_.lacking;
        if (lacking.empty() || lacking.back() != hub.name) {
            lacking.push_back(hub.name);
        }
        if (!options_.may_lack) {
            note_optional(hub, false);
        }
    }

    void require_few_absent(const HubName& hub) const {
        if (n_absent_ > kMostAbsent) {
            throw Error(ErrorCode::mismatch,
                        "config.json promises " + hub.name + " and, like it, at least " +
                            std::to_string(kMostAbsent) +
                            " optional tensors of which nothing is stored",
                        "correct config.json: no model has so many layers or experts")
                .set_detail(hub.line->origin);
        }
    }

    /// Takes one patch of a target from its logical segment; false when an optional one is absent.
    bool take_operands(const Filed& wanted, const HubName& hub, Target& target,
                       std::vector<Operand>& same) {
        LogicalSegment* const segment = segments_.find(wanted.key);
        if (segment == nullptr) {
            if (hub.line->optional || options_.may_lack || is_supplied(hub)) {
                return false;
            }
            note_missing(hub, wanted.key.segment);
            return true;
        }
        Overlaps found;
        overlap_into(*segment, wanted.patch, found);
        check(found, *segment, wanted, hub);
        const std::string& stored = segments_.stored_name(segment->name);
        if (target.operands.empty()) {
            target.stored = segment->dtype;
            target.dtype = segment->written_as;
            target.source = source_name(stored);
        } else if (target.stored != segment->dtype) {
            throw Error(ErrorCode::mismatch,
                        hub.name + " would mix " + safetensors_name(target.stored) + " and " +
                            safetensors_name(segment->dtype) + " (" + stored + ")",
                        "copy all files from one save: these are of several");
        }
        if (target.source.text() != stored) {
            target.source = {};
        }
        // A form may have a tensor under a second name, as module trees have a tied head.
        if (options_.pieces && wanted.copy == 0 && !target.is_copy &&
            segment->taken == segment->primary_volume) {
            target.is_copy = target.is_second_name = true;
        }
        if (!target.is_copy && wanted.copy == 0) {
            segment->taken += found.volume;
            n_counted_ += found.volume;
        }
        target.operands.append(std::move(found.primary));
        if (target.is_copy || wanted.copy > 0) {
            return true;  // what must equal it is compared where the elements are counted
        }
        target.replicas.append(std::move(found.replicas));
        if (!found.same.empty()) {
            same_name_ = segments_.stored_name(segment->same_name);
            append_all(same, std::move(found.same));
        }
        return true;
    }

    void check(const Overlaps& found, const LogicalSegment& segment, const Filed& wanted,
               const HubName& hub) const {
        const std::string& stored = segments_.stored_name(segment.name);
        const auto cover = cover_by(found.clipped, wanted.patch, hub.name);
        if (cover == layout::CoverKind::overlap) {
            throw Error(ErrorCode::mismatch,
                        hub.name + " is stored twice: pieces of " + stored + " overlap")
                .set_detail(hub.line->origin);
        }
        if (cover == layout::CoverKind::gap) {
            throw Error(ErrorCode::mismatch,
                        hub.name + " " + shape_text(bound_.shape()) +
                            " is not covered: " + std::to_string(found.volume) + " of " +
                            std::to_string(wanted.patch.volume()) + " elements of " +
                            segments_.segment_text(wanted.key.segment) + " are stored in " + stored,
                        kConfigHint);
        }
    }

    void finish(Target target, std::vector<Operand> same, const models::Line& line,
                const TensorPiece* piece) {
        target.is_kept = line.keep.has_value();
        if (target.is_kept || !is_float(target.stored)) {
            target.dtype = target.stored;
        } else {
            target.dtype = options_.dtype.value_or(target.dtype);
        }
        binding_.ledger.consumed += stored_bytes(n_counted_, target.stored);
        if (piece != nullptr) {
            make_like(piece->in_template, target);
        }
        if (!same.empty()) {
            binding_.same.push_back(
                {same_name_, binding_.targets.size(), target.replicas.size(), same.size()});
            target.replicas.append(std::move(same));
        }
        for (const Operand& replica : target.replicas) {
            binding_.ledger.replica += stored_bytes(replica.copy.volume(), target.stored);
        }
        binding_.targets.push_back(std::move(target));
    }

    const Model& model_;
    const BindOptions& options_;
    const StoreMatcher& matcher_;
    LogicalSegments& segments_;
    Binding& binding_;
    const models::Line* line_ = nullptr;
    std::vector<Index> extents_;
    layout::BoundLayout bound_;
    std::vector<layout::SegmentPatch> lowered_;
    std::vector<Filed> filed_;  ///< of the target under way
    RecentStrings names_;       ///< of pieces
    SharedList<Index> shape_;   ///< of the last target: most that follow have the same
    std::string same_name_;
    bool is_missing_ = false;  ///< the target under way
    Index n_counted_ = 0;      ///< elements that it is the first to take
    Index n_absent_ = 0;       ///< optional ones
    Together together_;
    std::map<const models::Line*, FoundOptional> optional_;
    Index n_missing_ = 0;
    bool is_part_lost_ = false;  ///< no number of layers or experts explains a missing name
    std::string first_missing_;
    const models::Line* missing_line_ = nullptr;  ///< of the first
    std::string other_missing_;
    std::set<std::string> missing_;  ///< stored names of the first, '#' for numbers
};

}  // namespace

bool build_targets(const Model& model, const BindOptions& options, const StoreMatcher& matcher,
                   std::span<const catalogue::Tensor> others, Mismatches& mismatches,
                   LogicalSegments& segments, Binding& binding) {
    TargetBuilder builder(model, options, matcher, segments, binding);
    const auto build = [&](const HubName& hub) {
        if (!segments.is_given_up(hub.line->logical) &&
            !mismatches.check(hub.name, [&] { builder.build(hub); })) {
            segments.give_up(hub.line->logical);
        }
        return !builder.is_hopeless();
    };
    const bool all_seen = mismatches.check(
        "names", [&] { for_each_hub_name(*model.recipe, model.of_written(), build); });
    mismatches.check(builder.kind_of_missing(), [&] { builder.check_complete(others); });
    mismatches.check("together", [&] { builder.check_together(); });
    mismatches.check("optional", [&] { builder.check_optional(); });
    return all_seen && !builder.is_hopeless();
}

}  // namespace shardweld::plan
