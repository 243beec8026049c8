// Several checkpoints that become one model, as the command line has them.
// Knows how many there are and their weights; nothing of what they hold.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/path.hpp"

namespace shardweld::app {

struct Averaging {
    bool is_average = false;      ///< --average
    std::vector<double> weights;  ///< --average_weights, by checkpoint; empty: not given
    std::optional<double> decay;  ///< --average_decay
    std::optional<fs::path>
        base;                    ///< --delta: the model that the checkpoints' differences are from
    std::vector<double> scales;  ///< --scale: of each checkpoint, or one of all
    std::vector<fs::path> others;  ///< the checkpoints behind the first

    [[nodiscard]] bool is_asked() const { return is_average || base.has_value(); }
    /// By checkpoint, as they are multiplied. Requires is_asked().
    [[nodiscard]] std::vector<float> factors() const;

    friend bool operator==(const Averaging&, const Averaging&) = default;
};

/// Error(usage) for options that do not go together, and for weights that are not as many as
/// checkpoints.
void check_averaging(const Averaging& averaging);

}  // namespace shardweld::app
