#include "store_match.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/by_name.hpp"
#include "core/text.hpp"
#include "layout/patch.hpp"
#include "models/pattern.hpp"
#include "models/symbols.hpp"
#include "shardweld/error.hpp"

#include "fuse.hpp"
#include "mismatches.hpp"

namespace shardweld::plan {

namespace {

using catalogue::Piece;
using catalogue::Tensor;
using models::AliasRule;
using models::Captures;

/// The numbers that a stack counts, given the other captures: those for which the condition holds.
std::vector<Index> stacked_values(const AliasRule& rule, Captures captures, const Model& model) {
    const Index extent = model.symbols->try_value(rule.stacked).value_or(0);
    require_few_parts(extent);
    std::vector<Index> numbers;
    for (Index at = 0; at < extent; ++at) {
        captures[rule.stacked] = at;
        if (model.symbols->holds(rule.condition, captures)) {
            numbers.push_back(at);
        }
    }
    return numbers;
}

/// The elements of a patch at one index of its first axis.
layout::Patch at_first(const layout::Patch& patch, Index at) {
    layout::Patch one;
    one.offset = patch.offset + (at - patch.axes[0].lo) * patch.axes[0].stride;
    for (std::size_t k = 1; k < patch.axes.size(); ++k) {
        one.axes.push_back(patch.axes[k]);
    }
    return one;
}

/// What is stored at `at` of the first axis, under another name.
Tensor taken_out(const Tensor& stack, std::string name) {
    Tensor one = stack;
    one.name = std::move(name);
    one.shape.erase(one.shape.begin());
    one.stored_as = stack.stored_as.empty() ? stack.name : stack.stored_as;
    one.pieces.clear();
    return one;
}

std::vector<Tensor> taken_apart(const Tensor& stack, std::vector<std::string> names) {
    std::vector<Tensor> parts;
    parts.reserve(names.size());
    for (std::string& name : names) {
        parts.push_back(taken_out(stack, std::move(name)));
    }
    const auto n_parts = std::ssize(parts);
    for (const Piece& piece : stack.pieces) {
        const layout::Axis& first = piece.patch.axes[0];
        for (Index at = std::max<Index>(first.lo, 0);
             at < std::min(n_parts, first.lo + first.extent); ++at) {
            parts[static_cast<std::size_t>(at)].pieces.push_back(piece);
            parts[static_cast<std::size_t>(at)].pieces.back().patch = at_first(piece.patch, at);
        }
    }
    return parts;
}

std::string name_of(const AliasRule& rule, const Captures& captures, std::string_view rest) {
    return models::format(rule.to, captures, {}) + std::string(rest);
}

/// What a tensor is by a rule; nullopt if the rule does not speak of it.
std::optional<std::vector<Tensor>> read_by(const AliasRule& rule, const Tensor& tensor,
                                           const Model& model) {
    std::string_view rest = tensor.name;
    if (const auto captures = rule.from.match_beginning(rest)) {
        if (!model.symbols->holds(rule.condition, *captures)) {
            return std::nullopt;
        }
        Tensor one = tensor;
        one.name = name_of(rule, *captures, rest);
        one.stored_as = tensor.stored_as.empty() ? tensor.name : tensor.stored_as;
        return std::vector{std::move(one)};
    }
    const auto others = rule.stacked.empty() ? std::nullopt : rule.stack.match_beginning(rest);
    if (!others) {
        return std::nullopt;
    }
    const std::vector<Index> numbers = stacked_values(rule, *others, model);
    if (numbers.empty()) {
        return std::nullopt;
    }
    if (tensor.shape.empty() || tensor.shape[0] != std::ssize(numbers)) {
        throw Error(ErrorCode::mismatch,
                    tensor.name + " " + shape_text(tensor.shape) + " is a stack, and of " +
                        rule.to.text + " config.json describes " + std::to_string(numbers.size()),
                    kConfigHint)
            .set_detail(rule.origin);
    }
    std::vector<std::string> names;
    Captures captures = *others;
    for (const Index number : numbers) {
        captures[rule.stacked] = number;
        names.push_back(name_of(rule, captures, rest));
    }
    return taken_apart(tensor, std::move(names));
}

}  // namespace

void apply_aliases(catalogue::Catalogue& catalogue, const Model& model) {
    if (model.dialect->aliases.empty()) {
        return;
    }
    std::vector<Tensor> known;
    known.reserve(catalogue.tensors.size());
    bool any = false;
    for (Tensor& tensor : catalogue.tensors) {
        std::optional<std::vector<Tensor>> parts;
        for (const AliasRule& rule : model.dialect->aliases) {
            if (parts = read_by(rule, tensor, model); parts) {
                break;
            }
        }
        any = any || parts.has_value();
        if (parts) {
            std::move(parts->begin(), parts->end(), std::back_inserter(known));
        } else {
            known.push_back(std::move(tensor));
        }
    }
    catalogue.tensors = std::move(known);
    const Tensor* const twice = any ? sort_by_name(catalogue.tensors) : nullptr;
    if (twice != nullptr) {
        throw Error(ErrorCode::mismatch,
                    twice->name + " is stored twice, once as " + twice->stored_as);
    }
}

namespace {

Error ambiguous(const std::string& name, const StoreMatch& a, const StoreMatch& b) {
    return {ErrorCode::mismatch,
            "the stored tensor " + name + " is ambiguous: two lines of the recipe match it, " +
                a.line->origin + " and " + b.line->origin,
            "correct the recipe"};
}

}  // namespace

StoreMatcher::StoreMatcher(const models::Dialect& dialect, const models::Recipe& recipe,
                           const models::Symbols& symbols)
    : dialect_(dialect), recipe_(recipe), symbols_(symbols) {
    for (const models::Line& line : dialect.store) {
        by_shape_[models::digits_hidden(line.name)].push_back(&line);
    }
}

std::vector<StoreMatch> StoreMatcher::named_alike(const std::string& name) const {
    std::vector<StoreMatch> matches;
    auto* const candidates = find_value(by_shape_, models::digits_hidden(name));
    if (candidates == nullptr) {
        return matches;
    }
    for (const models::Line* line : *candidates) {
        auto captures = line->name.match(
            name, [&](const std::string& symbol) { return symbols_.value(symbol); });
        if (captures) {
            matches.push_back({line, std::move(*captures)});
        }
    }
    return matches;
}

std::vector<StoreMatch> StoreMatcher::hits(const std::string& name, std::size_t n_dims) const {
    std::vector<StoreMatch> hits = named_alike(name);
    std::erase_if(hits, [&](const StoreMatch& hit) {
        return !symbols_.holds(hit.line->condition, hit.captures);
    });
    // A number may be that of a layer or, counted from the last one, of an MTP layer.
    if (std::ranges::any_of(hits, [&](const StoreMatch& hit) { return counts(hit); })) {
        std::erase_if(hits, [&](const StoreMatch& hit) { return !counts(hit); });
    }
    // Lines may differ in rank only (several stored forms under one name); with a single hit a
    // wrong rank is an error of the tensor, reported with its shape when the layout is bound.
    if (hits.size() > 1) {
        std::erase_if(
            hits, [&](const StoreMatch& hit) { return hit.line->layout.dims.size() != n_dims; });
    }
    return hits;
}

bool StoreMatcher::counts(const StoreMatch& hit) const {
    return std::ranges::all_of(hit.captures, [&](const auto& capture) {
        return !symbols_.is_index(capture.first) ||
               capture.second < symbols_.try_value(capture.first).value_or(0);
    });
}

bool StoreMatcher::fits(const StoreMatch& hit, const std::vector<Index>& shape) const {
    try {
        (void)layout::BoundLayout::bind(
            hit.line->layout,
            [&](const std::string& axis) { return symbols_.value(axis, hit.captures); }, shape);
        return true;
    } catch (const Error&) {
        return false;
    }
}

std::optional<StoreMatch> StoreMatcher::find(const std::string& name, std::size_t n_dims) const {
    const auto found = hits(name, n_dims);
    for (const StoreMatch& hit : found) {
        if (hit.line->join != found.front().line->join) {
            throw ambiguous(name, found.front(), hit);
        }
    }
    return found.empty() ? std::nullopt : std::optional(found.front());
}

std::optional<StoreMatch> StoreMatcher::find(const std::string& name,
                                             const std::vector<Index>& shape) const {
    const auto found = hits(name, shape.size());
    if (found.size() < 2) {
        return found.empty() ? std::nullopt : std::optional(found.front());
    }
    std::optional<StoreMatch> fitting;
    for (const StoreMatch& hit : found) {
        if (fits(hit, shape)) {
            if (fitting) {
                throw ambiguous(name, *fitting, hit);
            }
            fitting = hit;
        }
    }
    // When none fits, binding the first one says which shape was expected.
    return fitting ? fitting : found.front();
}

std::optional<StoreMatch> StoreMatcher::other_meaning(const std::string& name,
                                                      const StoreMatch& match) const {
    for (StoreMatch& other : named_alike(name)) {
        if (other.line->logical != match.line->logical) {
            return std::move(other);
        }
    }
    return std::nullopt;
}

const models::Line* StoreMatcher::switched_off(const std::string& name) const {
    for (const StoreMatch& match : named_alike(name)) {
        if (!symbols_.deciding_fields(match.line->condition).empty() &&
            !symbols_.holds(match.line->condition, match.captures)) {
            return match.line;
        }
    }
    return nullptr;
}

const models::IgnoreRule* StoreMatcher::ignored(const std::string& name) const {
    for (const auto* rules : {&dialect_.ignore, &recipe_.ignore}) {
        for (const models::IgnoreRule& rule : *rules) {
            if (any_glob_matches(rule.globs, name)) {
                return &rule;
            }
        }
    }
    return nullptr;
}

std::string StoreMatcher::names_of(const std::string& logical) const {
    std::string names;
    for (const models::Line& line : dialect_.store) {
        if (line.logical == logical && names.size() < 300 && !has_part(names, line.name.text)) {
            names += (names.empty() ? "" : " or ") + line.name.text;
        }
    }
    return names.empty() ? "nothing" : names;
}

void StoreMatcher::add_shapes(const std::string& logical, std::set<std::string>& shapes) const {
    for (const models::Line& line : dialect_.store) {
        if (line.logical == logical) {
            shapes.insert(models::digits_hidden(line.name));
        }
    }
}

}  // namespace shardweld::plan
