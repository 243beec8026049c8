// What a comparison of the result with the base tells.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/report/report.hpp"

#include "comparison.hpp"

namespace shardweld::app {

/// Names for which `is_aside` holds are not told of where one side lacks them.
BaseSummary summary_of(std::string directory, const ComparedModels& models,
                       const std::function<bool(const std::string&)>& is_aside);

/// One line for people.
std::string text_of(const BaseSummary& summary);

/// `equals_base`: nothing that was compared differs; `base_differs_shape`, `base_missing`,
/// `base_extra`: the base is another model, or a part of it was lost.
Warnings base_warnings(const BaseSummary& summary);

}  // namespace shardweld::app
