#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "catalogue/tensor.hpp"
#include "core/by_name.hpp"
#include "core/process/system.hpp"
#include "core/text.hpp"
#include "models/pattern.hpp"
#include "plan/binding.hpp"
#include "shardweld/error.hpp"

#include "as_stored.hpp"
#include "join_shards.hpp"
#include "logical_segments.hpp"
#include "mismatches.hpp"
#include "sorted_targets.hpp"
#include "store_match.hpp"
#include "stored_sizes.hpp"
#include "target_builder.hpp"

namespace shardweld::plan {

namespace {

using catalogue::Catalogue;
using catalogue::Tensor;

constexpr const char* kStar = "*";
/// Fact of a checkpoint whose files may not be all: shapes are what these reach, and tell nothing
/// about config.json.
constexpr const char* kRanksFact = "shard_ranks";

/// The extent of the layout's `*` in a segment of it; 0 where the segment has none.
Index star_extent(const layout::SegmentAxes& segment, const std::vector<Index>& extents) {
    const auto star = std::ranges::find(segment.axes, kStar);
    return star == segment.axes.end()
               ? 0
               : extents[static_cast<std::size_t>(star - segment.axes.begin())];
}

/// The dim in which the `*` stands.
std::size_t star_dim(const layout::Layout& layout) {
    const auto holds_star = [](const layout::Dim& dim) {
        const auto segments = layout::segments_of({"", {dim}, ""});
        return std::ranges::any_of(
            segments, [](const auto& segment) { return contains(segment.axes, kStar); });
    };
    const auto found = std::ranges::find_if(layout.dims, holds_star);
    return static_cast<std::size_t>(found - layout.dims.begin());
}

Index dropped_of(const catalogue::Tensor& tensor, const StoreMatch& match, const Model& model) {
    const models::Line& line = *match.line;
    const auto bound = layout::BoundLayout::bind(
        line.layout,
        [&](const std::string& axis) { return model.symbols->value(axis, match.captures); },
        tensor.shape);
    Index dropped = 0;
    int number = 0;
    for (const layout::SegmentAxes& segment : layout::segments_of(line.layout)) {
        if (contains(line.drop, segment.label)) {
            dropped += star_extent(segment, bound.extents(number));
        }
        ++number;
    }
    return dropped;
}

/// Adds what the line drops of the tensor, if it drops anything. Error(mismatch) as the layout and
/// the rule's expression give them.
void add_padding(const catalogue::Tensor& tensor, const StoreMatch& match, const Model& model,
                 std::vector<Padding>& out) {
    const models::Line& line = *match.line;
    const Index dropped = line.drop.empty() ? 0 : dropped_of(tensor, match, model);
    if (dropped == 0) {
        return;
    }
    const auto below =
        line.below == nullptr ? std::nullopt : model.symbols->try_expr(line.below, match.captures);
    out.push_back({tensor.name, tensor.shape[star_dim(line.layout)] - dropped, dropped, below});
}

/// Why the form does not have a logical tensor; null: it should.
const models::IgnoreRule* left_out(const models::Recipe& recipe, const std::string& logical) {
    return find_where(recipe.left_out, [&](const models::IgnoreRule& one) {
        return any_glob_matches(one.globs, logical);
    });
}

/// Counts as ignored the stored tensors without a line, which the recipe lets pass (towers, other
/// heads). Error(unsupported) for those that it does not know.
void leave_out(std::vector<catalogue::Tensor>& others, const Model& model, Ledger& ledger) {
    std::vector<std::string> unknown;
    for (const catalogue::Tensor& tensor : others) {
        if (passes_unlisted(*model.recipe, tensor.name)) {
            ledger.ignore(tensor.name, "not in the written form of the model",
                          catalogue::stored_bytes(tensor));
        } else {
            unknown.push_back(tensor.name);
        }
    }
    if (!unknown.empty()) {
        throw Error(ErrorCode::unsupported,
                    counted(unknown.size(), "tensor") + " " +
                        verb_of(unknown.size(), "has", "have") + " no place in the form that a " +
                        model.recipe->name + " model is written in: " + listed(unknown),
                    "write safetensors, or give the config.json of the model that was trained");
    }
    others.clear();
}

Bytes bytes_of(Index volume, DType dtype) {
    return static_cast<Bytes>(volume) * size_of(dtype);
}

/// A module tree keeps what no line takes; of a framework's tensors only those pass that the recipe
/// lets pass.
void refuse_unknown(const std::vector<Tensor>& others, const Model& model) {
    std::vector<std::string> texts;
    std::vector<Tensor> unknown;
    for (const Tensor& tensor : others) {
        if (!model.dialect->has_own_names && !passes_unlisted(*model.recipe, tensor.name)) {
            texts.push_back(tensor.name + " " + shape_text(tensor.shape));
            unknown.push_back(tensor);
        }
    }
    if (texts.empty()) {
        return;
    }
    std::set<std::string> known = collect_set(model.dialect->store, [](const models::Line& line) {
        return models::digits_hidden(line.name);
    });
    const NameDifference difference = difference_of(known, unknown);
    const std::string all = counted(texts.size(), "stored tensor") + " that no line of dialect " +
                            model.dialect->name + " matches for a " + model.recipe->name +
                            " model: " + listed(texts);
    if (difference.is_telling) {
        throw Error(ErrorCode::mismatch,
                    difference.text + ", and no part of a " + model.recipe->name + " model",
                    difference.hint)
            .set_detail(all);
    }
    throw Error(ErrorCode::mismatch, all + (difference.hint.empty() ? "" : "; " + difference.text),
                !difference.hint.empty()
                    ? difference.hint
                    : "check config.json's model_type and the flags --is_value_model and "
                      "--tie_word_embedding, or give a --recipe");
}

/// Error(mismatch) for a tensor that the family has, but not by this config.json. Names of a
/// framework are left to refuse_unknown.
void refuse_switched_off(const Tensor& tensor, const Model& model, const StoreMatcher& matcher) {
    if (!model.dialect->has_own_names || passes_unlisted(*model.recipe, tensor)) {
        return;
    }
    const models::Line* const line = matcher.switched_off(tensor.name);
    if (line == nullptr) {
        return;
    }
    const std::string fields = joined(model.symbols->deciding_fields(line->condition), ", ");
    throw Error(ErrorCode::mismatch,
                tensor.name + " " + shape_text(tensor.shape) + " is stored, but config.json (" +
                    fields + ") describes a model without it",
                kConfigHint)
        .set_detail(line->origin);
}

/// Error(mismatch) for a tensor that has not the shape of what its name stands for, but of what it
/// would stand for under the other setting of --is_value_model.
Error of_other_meaning(const Tensor& tensor, bool is_value) {
    const std::string shape = tensor.name + " is " + shape_text(tensor.shape);
    return is_value
               ? Error(ErrorCode::mismatch,
                       "the checkpoint has no value head: " + shape + ", as in a language model",
                       "leave --is_value_model out")
               : Error(ErrorCode::mismatch,
                       "the checkpoint has no language model's head: " + shape +
                           ", as in a value model",
                       "give --is_value_model");
}

void file_one(const Tensor& tensor, const StoreMatch& match, const Model& model,
              const StoreMatcher& matcher, LogicalSegments& segments, Mismatches& mismatches) {
    try {
        segments.add(tensor, *match.line, match.captures);
    } catch (Error& error) {
        error.add_context("stored tensor " + tensor.name + " " + shape_text(tensor.shape));
        error.set_detail(match.line->origin);
        if (const auto other = matcher.other_meaning(tensor.name, match)) {
            const bool is_value = model.symbols->try_value("value").value_or(0) != 0;
            if (error.hint().empty()) {
                error.set_hint(is_value ? "if this is a language model, leave --is_value_model out"
                                        : "if this is a value model, give --is_value_model");
            }
            if (matcher.fits(*other, tensor.shape)) {
                mismatches.add_error(kOtherMeaning, of_other_meaning(tensor, is_value));
            }
        }
        throw Error(in_config_words(error, tensor, match, model));
    }
}

/// Files every stored tensor under its logical tensors; returns those that no line takes.
std::vector<Tensor> file_all(Catalogue& catalogue, const Model& model, const StoreMatcher& matcher,
                             LogicalSegments& segments, Binding& binding, Mismatches& mismatches,
                             StoredSizes& sizes) {
    std::vector<Tensor> unknown;
    for (Tensor& tensor : catalogue.tensors) {
        const auto match = matcher.find(tensor.name, tensor.shape);
        if (match) {
            sizes.add_tensor(*match, tensor.shape);
            const bool fits = mismatches.check(tensor.name, [&] {
                file_one(tensor, *match, model, matcher, segments, mismatches);
                add_padding(tensor, *match, model, binding.padding);
            });
            if (!fits) {
                segments.give_up(match->line->logical);
            }
        } else if (const models::IgnoreRule* rule = matcher.ignored(tensor.name)) {
            binding.ledger.ignore(tensor.name, rule->reason, catalogue::stored_bytes(tensor));
        } else {
            mismatches.check(tensor.name, [&] { refuse_switched_off(tensor, model, matcher); });
            unknown.push_back(std::move(tensor));
            continue;
        }
        tensor.pieces = {};
    }
    return unknown;
}

/// The recipe's rename rules: for all names of a module tree; of a framework's, where that leads to
/// a name that passes, such as a vision tower's, or to one that the dialect has.
void rename_all(Catalogue& catalogue, const Model& model, const StoreMatcher& matcher) {
    const models::Recipe& recipe = *model.recipe;
    catalogue::each_item(catalogue, [&](auto& one) {
        std::string name = renamed(recipe, one.name);
        if (name != one.name && (model.dialect->has_own_names || passes_unlisted(recipe, name) ||
                                 matcher.find(name, one.shape.size()))) {
            one.name = std::move(name);
        }
    });
    if (const Tensor* const twice = sort_by_name(catalogue.tensors)) {
        throw Error(ErrorCode::mismatch,
                    "two stored tensors would both be written as " + twice->name +
                        " by the rename rules of " + recipe.origin,
                    "correct the recipe's rename rules");
    }
}

/// Whole tensors under the names of dialect and recipe. The names of those of which nothing but
/// equality says that all ranks hold the same.
std::set<std::string> name_and_join(Catalogue& catalogue, const Model& model,
                                    const StoreMatcher& matcher) {
    apply_aliases(catalogue, model);
    rename_all(catalogue, model, matcher);
    if (catalogue.shards.empty()) {
        return {};
    }
    JoinedShards joined = join_shards(catalogue, model, matcher);
    append_all(catalogue.tensors, std::move(joined.tensors));
    catalogue.shards = {};
    return std::move(joined.presumed);
}

/// Every stored element must have gone somewhere; names the first tensor of which some did not.
void check_all_used(const Model& model, const BindOptions& options, LogicalSegments& segments,
                    Binding& binding) {
    const LogicalSegment* worst = nullptr;
    std::uint32_t worst_id = 0;
    Index n_left = 0;
    for (const auto& [key, segment] : segments.all()) {
        binding.logicals.insert(segments.logical_of(key.segment));
        if (segments.is_given_up(segments.logical_of(key.segment))) {
            continue;
        }
        const Index left = segment.primary_volume - segment.taken;
        const models::IgnoreRule* const rule =
            left == 0 ? nullptr : left_out(*model.recipe, segments.logical_of(key.segment));
        if (rule != nullptr) {
            binding.ledger.ignore(segments.stored_name(segment.name), rule->reason,
                                  bytes_of(left, segment.dtype));
        } else if (segment.dropped && segment.taken == 0) {
            for (const SegmentSource& source : segment.sources) {
                binding.ledger.padding += bytes_of(source.patch.volume(), segment.dtype);
            }
        } else if (left != 0) {
            ++n_left;
            if (worst == nullptr || natural_less(segments.stored_name(segment.name),
                                                 segments.stored_name(worst->name))) {
                worst = &segment;
                worst_id = key.segment;
            }
        }
    }
    if (worst != nullptr) {
        throw Error(ErrorCode::mismatch,
                    segments.stored_name(worst->name) + " (" + segments.segment_text(worst_id) +
                        ") holds " + std::to_string(worst->primary_volume - worst->taken) +
                        " elements that no tensor of the " +
                        (options.unplaced_hint.empty() ? "model" : "template") + " uses" +
                        (n_left > 1 ? ", and so do " + std::to_string(n_left - 1) + " others" : ""),
                    options.unplaced_hint.empty() ? kConfigHint : options.unplaced_hint);
    }
}

}  // namespace

void supplement(Binding& binding, std::vector<Target> targets) {
    for (Target& target : targets) {
        binding.supplied.push_back(target.name);
        binding.targets.push_back(std::move(target));
    }
    std::ranges::sort(binding.supplied, natural_less);
    sort_targets(binding);
}

std::vector<NamedTensor> named_tensors(Catalogue catalogue, const Model& model) {
    const StoreMatcher matcher(*model.dialect, *model.recipe, *model.symbols);
    name_and_join(catalogue, model, matcher);
    std::vector<NamedTensor> named;
    for (Tensor& tensor : catalogue.tensors) {
        const auto match = matcher.find(tensor.name, tensor.shape);
        if (!match && matcher.ignored(tensor.name) != nullptr) {
            continue;
        }
        NamedTensor one;
        if (match) {
            one.line = match->line;
            one.padding = match->line->drop.empty() ? 0 : dropped_of(tensor, *match, model);
        }
        one.tensor = std::move(tensor);
        named.push_back(std::move(one));
    }
    return named;
}

Binding bind(Catalogue catalogue, const Model& model, const BindOptions& options) {
    Binding binding;
    binding.ledger.ignored = std::move(catalogue.ignored);
    const StoreMatcher matcher(*model.dialect, *model.recipe, *model.symbols);
    const std::set<std::string> presumed = name_and_join(catalogue, model, matcher);
    std::optional<LogicalSegments> segments(std::in_place, model);
    Mismatches mismatches;
    StoredSizes sizes;
    const bool are_shapes_known = !catalogue.facts.contains(kRanksFact);
    const Mismatches::Explain explain = [&](bool is_short) {
        return are_shapes_known ? explanation_of(sizes.differences(model, is_short), model)
                                : Mismatches::Explanation();
    };
    std::vector<Tensor> others =
        file_all(catalogue, model, matcher, *segments, binding, mismatches, sizes);
    catalogue.tensors = {};
    mismatches.check(kUnknown, [&] { refuse_unknown(others, model); });
    for (const models::SameRule& rule : model.recipe->same) {
        mismatches.check("same " + rule.a, [&] {
            if (segments->is_given_up(rule.a) || segments->is_given_up(rule.b)) {
                return;
            }
            if (model.symbols->holds(rule.condition)) {
                segments->tie(rule);
            } else {
                segments->require_apart(rule);
            }
        });
    }
    if (!build_targets(model, options, matcher, others, mismatches, *segments, binding)) {
        mismatches.require_none(explain);
    }
    mismatches.check("left", [&] { check_all_used(model, options, *segments, binding); });
    mismatches.require_none(explain);
    segments.reset();
    if (options.pieces) {
        return_freed_memory();  // before a million of them are put in order
    }
    if (model.recipe->is_form && !options.pieces) {
        leave_out(others, model, binding.ledger);
    }
    add_as_stored(std::move(others), presumed, model, options, binding);
    spell_targets(binding, options.spelled);
    std::ranges::sort(binding.lacking);
    return binding;
}

}  // namespace shardweld::plan
