// How near quantised values are to what they were made of.
#pragma once

#include <cmath>

#include "core/index.hpp"

namespace shardweld::numeric {

/// Sums over values, in fp64; adding parts in one order gives the same.
struct Quality {
    struct Tile {
        Index row = 0;
        Index column = 0;
        double error = -1;  ///< relative
    };

    double error_squares = 0;
    double value_squares = 0;
    Index n_saturated = 0;  ///< beyond the largest value that the scale allows
    Index n_zeroed = 0;     ///< not zero, but read as zero
    Tile worst;             ///< the first one of equal tiles

    void add(const Quality& other) {
        error_squares += other.error_squares;
        value_squares += other.value_squares;
        n_saturated += other.n_saturated;
        n_zeroed += other.n_zeroed;
        worst = other.worst.error > worst.error ? other.worst : worst;
    }
    /// Adds a tile's squares. Roots and quotients take time: most tiles are well below the worst
    /// one.
    void add_tile(double errors, double values, Index row, Index column) {
        constexpr double kWellBelow = 0.999;
        error_squares += errors;
        value_squares += values;
        const double least = worst.error > 0 ? worst.error * worst.error * kWellBelow : 0;
        if (errors < least * values) {
            return;
        }
        const double error = error_of(errors, values);
        worst = error > worst.error ? Tile{row, column, error} : worst;
    }
    [[nodiscard]] double relative_error() const { return error_of(error_squares, value_squares); }

    /// Root of the squared errors over that of the squared values; 0 where there are only zeros.
    static double error_of(double errors, double values) {
        return values > 0 ? std::sqrt(errors / values) : 0;
    }
};

}  // namespace shardweld::numeric
