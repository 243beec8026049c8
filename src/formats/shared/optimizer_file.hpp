// optimizer.json, which `reshape --state` writes beside states: what their form has no place for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "core/path.hpp"
#include "formats/format.hpp"

namespace shardweld::formats {

inline constexpr const char* kOptimizerFile = "optimizer.json";

/// The optimizer.json beside a model that was merged with its states.
struct OptimizerFile {
    Optimizer said;                    ///< groups, step and scheduler
    std::optional<DType> weights;      ///< the type that the weights had beside their masters
    std::vector<std::string> without;  ///< weights that the optimizer has not, sorted
};

/// nullopt where there is no such file. Error(corrupt) for one that is not of this kind.
std::optional<OptimizerFile> read_optimizer_file(const fs::path& path);

/// Adds what the save itself does not say. Error(mismatch) where both say something else.
void add_said(const OptimizerFile& file, Optimizer& optimizer);

/// For readers of forms that `reshape` writes no such file beside, but people may, where a save has
/// lost its groups: its text, "" where there is none or no state is asked for.
std::string given_optimizer(const Location& location);
/// Adds what such a text says, as add_said; nothing where it is "". Error(corrupt) likewise.
void add_given(const std::string& text, Optimizer& optimizer);

/// Adds to the scan of one rank's file what the file beside it says, which all ranks' are held
/// against. In the first one's (`is_first`) masters that stand for their weights (fp32 tensors, but
/// for those without states) are to be written in the type that the file says; behind kKeySeparator
/// their names are the model's.
void add_optimizer_file(const Location& location, bool is_first, Optimizer& optimizer,
                        std::vector<Tensor>& tensors);

}  // namespace shardweld::formats
