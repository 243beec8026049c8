// The files of one parameter in a universal checkpoint: its weight, its states, its step.
#pragma once

#include <string>
#include <string_view>

#include "formats/format.hpp"

#include "scan.hpp"

namespace shardweld::formats::deepspeed {

inline constexpr std::string_view kParameters = "zero/";
inline constexpr std::string_view kWeights = "/fp32.pt";

/// The parameter of "zero/NAME/fp32.pt"; "" of another file.
std::string_view parameter_of(std::string_view file);

/// The scan of the file of a weight, with the parameter's states where they are asked for.
FileScan scan_parameter(const Location& location, const std::string& file);

}  // namespace shardweld::formats::deepspeed
