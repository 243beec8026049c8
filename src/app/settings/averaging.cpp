#include "averaging.hpp"

#include <cmath>

#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

[[noreturn]] void refuse_averaging(const std::string& message, const std::string& hint) {
    throw Error(ErrorCode::usage, message, hint);
}

std::size_t count(const Averaging& averaging) {
    return averaging.others.size() + 1;
}

void require_as_many(const std::string& option, std::size_t n_given, std::size_t n_checkpoints) {
    if (n_given != n_checkpoints) {
        refuse_averaging("--" + option + " has " + std::to_string(n_given) + " numbers for " +
                             counted(n_checkpoints, "checkpoint"),
                         "give one number for each, in the order of the checkpoints");
    }
}

/// The last weighs most, and the sum is 1 before it is rounded.
std::vector<float> decayed(double decay, std::size_t n) {
    std::vector<double> powers;
    double sum = 0;
    for (std::size_t k = 0; k < n; ++k) {
        powers.push_back(std::pow(decay, static_cast<double>(n - 1 - k)));
        sum += powers.back();
    }
    std::vector<float> factors;
    for (const double power : powers) {
        factors.push_back(static_cast<float>(power / sum));
    }
    return factors;
}

}  // namespace

std::vector<float> Averaging::factors() const {
    const std::size_t n = count(*this);
    if (decay) {
        return decayed(*decay, n);
    }
    const std::vector<double>& given = base ? scales : weights;
    std::vector<float> factors;
    for (std::size_t k = 0; k < n; ++k) {
        const double factor =
            given.empty() ? 1.0 / static_cast<double>(n) : given[given.size() == 1 ? 0 : k];
        factors.push_back(static_cast<float>(factor));
    }
    return factors;
}

void check_averaging(const Averaging& averaging) {
    if (!averaging.is_average && (!averaging.weights.empty() || averaging.decay)) {
        refuse_averaging(
            "--average_weights and --average_decay weigh the checkpoints of an average",
            "add --average");
    }
    if (averaging.base.has_value() == averaging.scales.empty()) {
        refuse_averaging("--delta and --scale belong together",
                         "give both: --delta BASE --scale 0.5");
    }
    if (averaging.is_average && averaging.base) {
        refuse_averaging("--average and --delta exclude each other", "give one of them");
    }
    if (!averaging.weights.empty() && averaging.decay) {
        refuse_averaging("--average_weights and --average_decay exclude each other",
                         "give one of them");
    }
    if (averaging.is_average && averaging.others.empty()) {
        refuse_averaging("an average needs two checkpoints or more",
                         "list them all, and the target behind them: --average DIR DIR OUT");
    }
    if (!averaging.weights.empty()) {
        require_as_many("average_weights", averaging.weights.size(), count(averaging));
    }
    if (averaging.scales.size() > 1) {
        require_as_many("scale", averaging.scales.size(), count(averaging));
    }
}

}  // namespace shardweld::app
