// --include and --exclude: which tensors of a model are written.
// Pure; knows names and ledgers.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "plan/binding.hpp"

namespace shardweld::app {

/// Regular expressions (RE2's syntax) that are searched for in names as they are written.
struct Selection {
    std::optional<std::string> include;  ///< only names that hold it
    std::optional<std::string> exclude;  ///< but not those that hold this
    friend bool operator==(const Selection&, const Selection&) = default;
};

/// Error(usage), in the name of `option`, when `text` is no such expression.
void check_expression(const std::string& text, const std::string& option);

/// Whether a name is selected; for many names.
std::function<bool(const std::string&)> selects(const Selection& selection);

/// Takes what is not selected out of a binding; the ledger counts it as ignored. Error(usage) when
/// nothing is left.
void select(plan::Binding& binding, const Selection& selection);

}  // namespace shardweld::app
