// Folding an adapter that is bound into the base that is bound.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "adapters/peft_names.hpp"
#include "adapters/settings.hpp"
#include "app/family/model.hpp"
#include "plan/binding.hpp"

#include "factor_pairs.hpp"

namespace shardweld::app {

/// What weights cannot be folded into is made values first.
inline constexpr const char* kInTwoSteps =
    "write the base in bf16 first (shardweld merge BASE OUT --dtype bf16), then give that with "
    "--base";

/// Whether the module tree has a tensor of that name where the base's files may have it otherwise.
bool is_of_tree(const HeldModel& prepared, const std::string& name);

/// What a fold needs to know beside the targets.
struct FoldedBase {
    const adapters::SettingsSources& sources;
    const std::map<std::string, FactorUse>& uses;  ///< of a framework's factors
    const std::set<std::string>& names;            ///< of the base's tensors, as adapters know them
    /// Ranks, alpha and scales of modules; warns.
    std::function<adapters::Settings(const std::vector<adapters::Module>&)> resolve_modules;
};

/// Gives the targets of `model` that the modules change their folds, and `model` the factors that
/// these read. Error as adapters::attach and adapters::resolve_parameters.
void fold_adapter(const FoldedBase& base, plan::Targets factors,
                  std::vector<adapters::Module> modules,
                  const std::vector<adapters::TokenRows>& rows, HeldModel& model);

}  // namespace shardweld::app
