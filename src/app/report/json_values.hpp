// Values in JSON of unknown origin: what is not there, or is something else, counts as not said.
// Knows JSON and limits; nothing of what the values mean.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/index.hpp"

namespace shardweld::app {

/// A member of an object; null where there is none.
const nlohmann::json& member(const nlohmann::json& object, const char* name);

/// Elements of a list, `most` at most.
std::vector<const nlohmann::json*> elements(const nlohmann::json& list, std::size_t most);

/// Text, number or truth value as text, cut at 4,000 bytes.
std::string text_in(const nlohmann::json& value);
Bytes bytes_in(const nlohmann::json& value);
Index index_in(const nlohmann::json& value);
/// From 0 to a year.
double seconds_in(const nlohmann::json& value);

/// A value of any kind on one line: "tp 2, pp 4".
std::string line_of(const nlohmann::json& value);

/// Without overflow.
Bytes saturating_sum(Bytes a, Bytes b);

}  // namespace shardweld::app
