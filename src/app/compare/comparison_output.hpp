// A comparison for people and for machines.
// Knows the table's and the JSON's form; decides nothing.
#pragma once

#include <string>
#include <vector>

#include "numeric/compare.hpp"

#include "comparison.hpp"

namespace shardweld::app {

/// A field of config.json that the two models state differently; values as JSON, "" if absent.
struct ConfigDifference {
    std::string field;
    std::string tested;
    std::string reference;
};

/// A comparison and what was compared.
struct ComparedModels {
    std::string command;  ///< "test" or "diff"
    std::string tested;   ///< directories
    std::string reference;
    numeric::Tolerance tolerance;
    bool is_strict = false;
    Outcome outcome;
    std::vector<ConfigDifference> config;  ///< for information; never makes models differ
};

/// Top-level fields in which two config.json differ, in the order of their names; `transformers
/// _version` is no part of a model. Empty when a text is "" or no JSON object. Pure.
std::vector<ConfigDifference> config_differences(const std::string& tested,
                                                 const std::string& reference);

std::string comparison_text(const ComparedModels& models);
std::string comparison_json(const ComparedModels& models);

}  // namespace shardweld::app
