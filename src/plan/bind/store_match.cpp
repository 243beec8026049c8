#include "store_match.hpp"

#include "core/text.hpp"
#include "models/pattern.hpp"
#include "shardweld/error.hpp"

namespace shardweld::plan {

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
    const auto candidates = by_shape_.find(models::digits_hidden(name));
    if (candidates == by_shape_.end()) {
        return matches;
    }
    for (const models::Line* line : candidates->second) {
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
    if (std::any_of(hits.begin(), hits.end(), [&](const StoreMatch& hit) { return counts(hit); })) {
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
    return std::all_of(hit.captures.begin(), hit.captures.end(), [&](const auto& capture) {
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
            for (const std::string& glob : rule.globs) {
                if (glob_matches(glob, name)) {
                    return &rule;
                }
            }
        }
    }
    return nullptr;
}

std::string StoreMatcher::names_of(const std::string& logical) const {
    std::string names;
    for (const models::Line& line : dialect_.store) {
        if (line.logical == logical && names.size() < 300 &&
            names.find(line.name.text) == std::string::npos) {
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
