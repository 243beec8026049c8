// What a run of elements looks like: NaNs, infinities, whether all are zero or all alike.
#pragma once

#include <cstdint>

#include "core/dtype.hpp"
#include "core/index.hpp"

namespace shardweld::numeric {

/// What was found in the elements so far. Adding parts gives the same in any order.
struct Census {
    Index n_elements = 0;
    Index n_nan = 0;
    Index n_inf = 0;
    Index n_zero = 0;          ///< 0 and -0
    std::uint64_t bits = 0;    ///< of one of the elements
    bool is_constant = true;   ///< all have these bits
    bool has_nonzero = false;  ///< some element is neither 0 nor -0

    void add(const Census& other);
    [[nodiscard]] bool is_mostly_zero() const { return 2 * n_zero > n_elements; }
    friend bool operator==(const Census&, const Census&) = default;
};

/// Whether take_census knows elements of this type: all floats. Integers, booleans and complex
/// numbers are not looked at.
bool is_counted(DType dtype);

/// Looks at all elements, at about the speed of memory. Requires is_counted(dtype).
/// Error(internal) when `bytes` holds a fraction of an element.
Census take_census(DType dtype, ByteView bytes);

}  // namespace shardweld::numeric
