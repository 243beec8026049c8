// What the values of an optimizer's states say: whether a run can go on with them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "app/report/report.hpp"
#include "execute/listeners/moment_signs.hpp"
#include "numeric/census.hpp"
#include "plan/plan.hpp"

namespace shardweld::app {

/// A census by tensor of a plan.
using CensusByTensor = std::map<std::uint32_t, numeric::Census>;

/// "exp_avg_sq of model.norm.weight": a state that is written, of the parameter as the written form
/// calls it.
std::string state_text(const plan::Target& state);

/// The states among the tensors of `census`, which are taken out, as judge_census has them: names
/// are state_text's, and zeros are left to moments_at.
std::vector<OddTensor> judge_states(const plan::Plan& plan, CensusByTensor& census);

/// What moments at a step above zero cannot be. Error(mismatch) for exp_avg_sq below zero, and for
/// a moment that is zero for every parameter. Warnings where it is for some, and where no exp_avg
/// is below zero.
Warnings moments_at(double step, const plan::Plan& plan, const CensusByTensor& census,
                    const execute::MomentSigns::Found& signs);

}  // namespace shardweld::app
