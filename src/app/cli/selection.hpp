// --include and --exclude: which tensors of a model are written.
// Pure; knows names and ledgers.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "shardweld/plan/binding.hpp"

namespace shardweld::app {

/// Regular expressions (RE2's syntax) that are searched for in names as they are written.
struct Selection {
    std::optional<std::string> include;  ///< only names that hold it
    std::optional<std::string> exclude;  ///< but not those that hold this
};

/// Error(usage) when an expression is none.
void check_selection(const Selection& selection);

/// Whether a name is selected; for many names.
std::function<bool(const std::string&)> selects(const Selection& selection);

/// Takes what is not selected out of a binding; the ledger counts it as ignored. Error(usage) when
/// nothing is left.
void select(plan::Binding& binding, const Selection& selection);

}  // namespace shardweld::app
