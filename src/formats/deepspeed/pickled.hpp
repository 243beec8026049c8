// Numbers, names and shapes in the dictionaries of DeepSpeed's files, which anybody may have
// written. Knows pickled values only.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/index.hpp"
#include "formats/containers/pickle.hpp"
#include "formats/shared/scalar_value.hpp"

namespace shardweld::formats::deepspeed {

/// The value under `name` where it is neither absent nor None.
const PickleValue* present(const PickleValue& mapping, std::string_view name);

/// nullopt unless it is an integer, whatever class keeps it, or an enum made of one
/// (ZeroStageEnum(2)).
std::optional<Index> integer_of(const PickleValue* value);

/// A number that layouts depend on, also of a tensor of one element; nullopt where it is absent.
/// Error(corrupt), naming `what`, where it is no whole number.
std::optional<Index> stated_integer(const PickleValue* value, const ScalarReader& scalars,
                                    const std::string& what);

/// Error(corrupt) unless a tuple or list of few numbers, none negative.
std::vector<Index> shape_of(const PickleValue& value);

/// Row-major strides of a shape whose volume is known to fit.
std::vector<Index> dense_strides(const std::vector<Index>& shape);

}  // namespace shardweld::formats::deepspeed
