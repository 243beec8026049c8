#include "logical_segments.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "catalogue/tensor.hpp"
#include "plan/plan.hpp"

namespace shardweld::plan {

namespace {

using layout::Axis;
using layout::Patch;

void collect_axes(const std::vector<layout::LayoutItem>& items, std::vector<std::string>& names) {
    for (const layout::LayoutItem& item : items) {
        if (item.segments.empty()) {
            names.push_back(item.name);
        }
        for (const layout::Segment& segment : item.segments) {
            collect_axes(segment.items, names);
        }
    }
}

/// An axis that counts equal copies, and is still there after fuse, is no part of the key.
void count_copies(const models::Line& line, SegmentPlan& plan) {
    const auto repeated = std::ranges::find(plan.axes, line.repeat);
    if (repeated == plan.axes.end()) {
        return;
    }
    int& slot = plan.key_slot[static_cast<std::size_t>(repeated - plan.axes.begin())];
    slot = slot == kGone ? kGone : kCopy;
}

/// All values of the key axes of `patch`, one filed patch each.
void split_keys(const SegmentPlan& plan, const Patch& patch, const Filed& filed,
                std::vector<Filed>& out) {
    InlineVector<std::size_t, layout::kMaxAxes> keyed;
    Index n_parts = 1;
    for (const std::size_t i : indices(plan.key_slot)) {
        if (plan.key_slot[i] >= 0 || plan.key_slot[i] == kCopy) {
            keyed.push_back(i);
            n_parts = checked_mul(n_parts, patch.axes[i].extent, "a stack");
        }
    }
    require_few_parts(n_parts);
    for (Index part = 0; part < n_parts; ++part) {
        Filed one = filed;
        one.patch.offset = patch.offset;
        one.patch.axes.clear();
        Index rest = part;
        for (const std::size_t i : keyed) {
            const Axis& axis = patch.axes[i];
            const Index at = rest % axis.extent;
            rest /= axis.extent;
            one.patch.offset += at * axis.stride;
            if (plan.key_slot[i] == kCopy) {
                one.copy = static_cast<std::uint32_t>(axis.lo + at);
            } else {
                one.key.index[static_cast<std::size_t>(plan.key_slot[i])] = axis.lo + at;
            }
        }
        for (const std::size_t i : indices(plan.key_slot)) {
            if (plan.key_slot[i] == kStays) {
                one.patch.axes.push_back(patch.axes[i]);
            }
        }
        out.push_back(one);
    }
}

}  // namespace

std::vector<Index> extents_of(const layout::Layout& layout, const models::Symbols& symbols,
                              const models::Captures& captures) {
    std::vector<std::string> names;
    for (const layout::Dim& dim : layout.dims) {
        collect_axes(dim, names);
    }
    return collect_list(names, [&](const std::string& name) {
        return name == "*" ? 0 : symbols.value(name, captures);
    });
}

std::size_t SegmentKeyHash::operator()(const SegmentKey& key) const {
    std::size_t hash = key.segment;
    for (const Index value : key.index) {
        hash = hash * 0x9E3779B97F4A7C15ULL + static_cast<std::size_t>(value) + 1;
    }
    return hash ^ (hash >> 29U);
}

LogicalSegments::LogicalSegments(const Model& model) : model_(model) {
    for (const auto* lines : {&model.dialect->store, &model.recipe->hub}) {
        for (const models::Line& line : *lines) {
            std::vector<std::string>& all = captures_of_logical_[line.logical];
            append_all(all, line.name.captures);
        }
    }
    for (auto& [logical, captures] : captures_of_logical_) {
        std::ranges::sort(captures);
        captures.erase(std::unique(captures.begin(), captures.end()), captures.end());
    }
}

std::uint32_t LogicalSegments::segment_id(const std::string& logical, const std::string& segment) {
    const auto [at, is_new] =
        ids_.try_emplace({logical, segment}, static_cast<std::uint32_t>(logicals_.size()));
    if (is_new) {
        logicals_.emplace_back(logical, segment);
        axes_.emplace_back();
    }
    return at->second;
}

std::string LogicalSegments::segment_text(std::uint32_t id) const {
    const auto& [logical, segment] = logicals_[id];
    return segment.empty() ? logical : logical + "[" + segment + "]";
}

const std::vector<SegmentPlan>& LogicalSegments::plans_of(const models::Line& line) {
    const auto [at, is_new] = plans_.try_emplace(&line);
    if (!is_new) {
        return at->second;
    }
    const std::vector<std::string>& keys = captures_of_logical_.at(line.logical);
    for (const layout::SegmentAxes& segment : layout::segments_of(line.layout)) {
        SegmentPlan plan;
        plan.id = segment_id(line.logical, segment.label);
        plan.axes = segment.axes;
        plan.is_dropped = contains(line.drop, segment.label);
        plan.n_keys = keys.size();
        plan.key_slot.assign(plan.axes.size(), kStays);
        for (const std::size_t slot : indices(keys)) {
            const auto axis = std::ranges::find(plan.axes, keys[slot]);
            if (axis != plan.axes.end()) {
                plan.key_slot[static_cast<std::size_t>(axis - plan.axes.begin())] =
                    static_cast<int>(slot);
            } else {
                plan.captured.emplace_back(static_cast<int>(slot), keys[slot]);
            }
        }
        fuse_axes(model_.dialect->fuse, plan);
        count_copies(line, plan);
        note_axes(plan);
        at->second.push_back(std::move(plan));
    }
    return at->second;
}

void LogicalSegments::file(const models::Line& line, const layout::BoundLayout& bound,
                           const layout::SegmentPatch& lowered, const models::Captures& captures,
                           std::vector<Filed>& out) {
    const SegmentPlan& plan = plans_of(line)[static_cast<std::size_t>(lowered.segment)];
    Filed filed;
    filed.key.segment = plan.id;
    filed.key.index.resize(plan.n_keys);
    for (const auto& [slot, name] : plan.captured) {
        filed.key.index[static_cast<std::size_t>(slot)] = captures.at(name);
    }
    if (plan.pairs.empty()) {
        split_keys(plan, lowered.patch, filed, out);
        return;
    }
    for (const Patch& patch : fused(plan.pairs, bound.extents(lowered.segment), lowered.patch)) {
        split_keys(plan, patch, filed, out);
    }
}

/// Notes the axes that patches of a segment have; they are the same whatever the line.
void LogicalSegments::note_axes(const SegmentPlan& plan) {
    std::vector<std::string>& axes = axes_[plan.id];
    if (!axes.empty()) {
        return;
    }
    for (const std::size_t i : indices(plan.axes)) {
        if (plan.key_slot[i] == kStays) {
            axes.push_back(plan.axes[i]);
        }
    }
}

LogicalPatch LogicalSegments::logical_patch_of(const Filed& filed) const {
    const auto& [logical, segment] = logicals_[filed.key.segment];
    LogicalPatch found{logical, {}};
    std::map<std::string, Axis> axes;
    const std::vector<std::string>& keys = captures_of_logical_.at(logical);
    for (const std::size_t slot : indices(keys)) {
        const Index value = filed.key.index[slot];
        const std::string place = "{" + keys[slot] + "}";
        if (const auto at = found.segment.find(place); at != std::string::npos) {
            found.segment.replace(at, place.size(), std::to_string(value));
        } else {
            axes[keys[slot]] = {value, 1, 0};
        }
    }
    for (const std::size_t i : indices(filed.patch.axes)) {
        axes[axes_[filed.key.segment][i]] = filed.patch.axes[i];
    }
    found.segment += "[" + segment + "]";
    found.patch.offset = filed.patch.offset;
    for (const auto& [name, axis] : axes) {
        found.segment += " " + name;
        found.patch.axes.push_back(axis);
    }
    return found;
}

const layout::BoundLayout& LogicalSegments::bound_for(const models::Line& line,
                                                      const std::vector<Index>& shape,
                                                      const models::Captures& captures) {
    std::vector<Index> key = extents_of(line.layout, *model_.symbols, captures);
    append_all(key, shape);
    auto* const found = find_value(bound_, {&line, key});
    if (found != nullptr) {
        return *found;
    }
    auto bound = layout::BoundLayout::bind(
        line.layout, [&](const std::string& axis) { return model_.symbols->value(axis, captures); },
        shape);
    return bound_.emplace(std::pair{&line, std::move(key)}, std::move(bound)).first->second;
}

/// The logical segment under a key, made by the first tensor that has elements of it; all must
/// have its dtype.
LogicalSegment& LogicalSegments::segment_at(const SegmentKey& key, const catalogue::Tensor& tensor,
                                            std::uint32_t name) {
    const auto [at, is_new] = segments_.try_emplace(key);
    LogicalSegment& segment = at->second;
    if (is_new) {
        segment.dtype = tensor.dtype;
        segment.written_as = tensor.written_as.value_or(tensor.dtype);
        segment.name = name;
    } else if (segment.dtype != tensor.dtype) {
        throw Error(ErrorCode::mismatch, tensor.name + " is " + safetensors_name(tensor.dtype) +
                                             " but " + names_[segment.name] +
                                             ", part of the same tensor, is " +
                                             safetensors_name(segment.dtype));
    }
    return segment;
}

void LogicalSegments::add(const catalogue::Tensor& tensor, const models::Line& line,
                          const models::Captures& captures) {
    const layout::BoundLayout& bound = bound_for(line, tensor.shape, captures);
    const auto name = static_cast<std::uint32_t>(names_.size());
    names_.push_back(tensor.name);
    const std::vector<SegmentPlan>& plans = plans_of(line);
    std::vector<layout::SegmentPatch> lowered;
    std::vector<Filed> filed;
    for (const catalogue::Piece& piece : tensor.pieces) {
        lowered.clear();
        bound.lower(piece.patch, lowered);
        for (const layout::SegmentPatch& part : lowered) {
            filed.clear();
            file(line, bound, part, captures, filed);
            const bool is_dropped = plans[static_cast<std::size_t>(part.segment)].is_dropped;
            for (const Filed& one : filed) {
                LogicalSegment& segment = segment_at(one.key, tensor, name);
                segment.dropped = is_dropped;
                const std::uint32_t replica = piece.replica == 0 ? one.copy : piece.replica;
                segment.sources.push_back({piece.file, replica, piece.base, one.patch});
                segment.primary_volume += replica == 0 ? one.patch.volume() : 0;
            }
        }
    }
}

DType LogicalSegments::usual_type() const {
    std::map<DType, std::size_t> counts;
    for (const auto& [key, segment] : segments_) {
        ++counts[segment.written_as];
    }
    const auto most =
        std::ranges::max_element(counts, {}, &std::map<DType, std::size_t>::value_type::second);
    return most == counts.end() ? DType::f32 : most->first;
}

LogicalSegment* LogicalSegments::find(const SegmentKey& key) {
    return find_value(segments_, key);
}

void LogicalSegments::require_apart(const models::SameRule& rule) const {
    // Where elements begin with the file (raw chunks) it holds nothing else.
    const auto place_of = [](const SegmentSource& source) {
        return std::tuple(source.file, source.base, source.patch.offset);
    };
    for (const auto& [key, copy] : segments_) {
        auto* const other = find_value(ids_, {rule.b, logicals_[key.segment].second});
        if (logicals_[key.segment].first != rule.a || other == nullptr) {
            continue;
        }
        SegmentKey wanted = key;
        wanted.segment = *other;
        const auto original = segments_.find(wanted);
        if (original == segments_.end() || copy.sources.empty() ||
            original->second.sources.empty() || copy.sources.front().base == 0 ||
            place_of(copy.sources.front()) != place_of(original->second.sources.front())) {
            continue;
        }
        throw Error(ErrorCode::mismatch,
                    names_[copy.name] + " and " + names_[original->second.name] +
                        " are one storage in the checkpoint: the model ties them, but config.json "
                        "does not (tie_word_embeddings)",
                    "correct it, or give --tie-word-embedding");
    }
}

void LogicalSegments::tie(const models::SameRule& rule) {
    std::vector<std::pair<SegmentKey, LogicalSegment*>> copies;
    for (auto& [key, segment] : segments_) {
        if (logicals_[key.segment].first == rule.a && !segment.dropped) {
            copies.emplace_back(key, &segment);
        }
    }
    for (auto& [key, copy] : copies) {
        SegmentKey other = key;
        other.segment = segment_id(rule.b, logicals_[key.segment].second);
        LogicalSegment* const original = find(other);
        if (original == nullptr) {  // saved once, under the copy's name
            segments_.emplace(other, std::move(*copy));
            segments_.erase(key);
            continue;
        }
        if (original->dtype != copy->dtype) {
            throw Error(ErrorCode::mismatch, names_[copy->name] + " must equal " +
                                                 names_[original->name] + " but is " +
                                                 safetensors_name(copy->dtype) + ", not " +
                                                 safetensors_name(original->dtype))
                .set_detail(rule.origin);
        }
        original->same_name = copy->name;
        original->same = std::move(copy->sources);
        copy->taken = copy->primary_volume;
    }
}

}  // namespace shardweld::plan
