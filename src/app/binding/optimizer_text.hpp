// What is known of an optimizer beside its tensors, as text: optimizer.json.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "app/messages/warnings.hpp"
#include "catalogue/optimizer.hpp"
#include "core/dtype.hpp"
#include "numeric/census.hpp"
#include "plan/plan.hpp"

namespace shardweld::app {

/// Where a training checkpoint, or a model's directory, has that file.
inline std::string optimizer_file(bool is_training) {
    return std::string(is_training ? "" : "optimizer/") + "optimizer.json";
}

/// JSON with the step, the parameter groups and their settings, the scheduler, the type of the
/// weights beside the states, and the weights that have none.
std::string optimizer_text(const catalogue::Optimizer& optimizer, DType weights,
                           const std::vector<std::string>& without);

/// Where states have no names and are proved by their masters: weights of one value, which prove
/// nothing, for many masters round to them. `census`: by tensor of the plan.
Warnings resting_on_order(const plan::Plan& plan,
                          const std::map<std::uint32_t, numeric::Census>& census);

}  // namespace shardweld::app
