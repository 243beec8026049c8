// Stored names as a dialect's lines know them: its `alias` rules, stacks of some layers taken
// apart, and the line of a name, found in constant time.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "models/recipe.hpp"
#include "models/symbols.hpp"
#include "plan/binding.hpp"

namespace shardweld::plan {

/// Gives tensors the names that they stand for. A stacked one [L', ...] becomes L' tensors [...]:
/// the i-th holds what is stored at index i of the first axis, and has the i-th value of the rule's
/// capture for which its condition holds. Error(mismatch) when L' is another number, or a name
/// comes up twice.
void apply_aliases(catalogue::Catalogue& catalogue, const Model& model);

/// A line that a stored name matches, and the values of the name's captures.
struct StoreMatch {
    const models::Line* line = nullptr;
    models::Captures captures;
};

/// Finds the line that a stored name belongs to.
class StoreMatcher {
  public:
    StoreMatcher(const models::Dialect& dialect, const models::Recipe& recipe,
                 const models::Symbols& symbols);

    /// A line for shards of this name and number of dims whose condition holds; nullopt when no
    /// pattern matches or all are switched off. Where several stored forms differ in extents only,
    /// any of them. Error(mismatch) when they are not joined alike ("ambiguous").
    [[nodiscard]] std::optional<StoreMatch> find(const std::string& name, std::size_t n_dims) const;

    /// The one line for a whole tensor; of several the one that its shape fits.
    /// Error(mismatch) when two fit ("ambiguous").
    [[nodiscard]] std::optional<StoreMatch> find(const std::string& name,
                                                 const std::vector<Index>& shape) const;

    /// What the match's name stands for under another flag, as output_layer.weight does in value
    /// models; nullopt: nothing else.
    [[nodiscard]] std::optional<StoreMatch> other_meaning(const std::string& name,
                                                          const StoreMatch& match) const;

    /// Whether a whole tensor has the extents of its line.
    [[nodiscard]] bool fits(const StoreMatch& hit, const std::vector<Index>& shape) const;

    /// A line that would take the name if config.json did not switch it off, or nullptr.
    [[nodiscard]] const models::Line* switched_off(const std::string& name) const;

    /// The ignore rule that covers the name, or nullptr.
    [[nodiscard]] const models::IgnoreRule* ignored(const std::string& name) const;

    /// Stored names (patterns) of a logical tensor, for messages.
    [[nodiscard]] std::string names_of(const std::string& logical) const;
    /// Adds the names with '#' for numbers, each on its own.
    void add_shapes(const std::string& logical, std::set<std::string>& shapes) const;

  private:
    /// Lines whose pattern the name matches, whatever their conditions.
    [[nodiscard]] std::vector<StoreMatch> named_alike(const std::string& name) const;
    [[nodiscard]] std::vector<StoreMatch> hits(const std::string& name, std::size_t n_dims) const;
    /// Whether all captures are in the range of their indices.
    [[nodiscard]] bool counts(const StoreMatch& hit) const;

    const models::Dialect& dialect_;
    const models::Recipe& recipe_;
    const models::Symbols& symbols_;
    std::unordered_map<std::string, std::vector<const models::Line*>>
        by_shape_;  // digits replaced by '#'
};

}  // namespace shardweld::plan
