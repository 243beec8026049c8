#include "index.hpp"

#include <limits>
#include <string>

#include "shardweld/error.hpp"

namespace shardweld {

namespace {

[[noreturn]] void throw_overflow(std::string_view what) {
    throw Error(ErrorCode::corrupt, std::string(what) + " is larger than 64-bit arithmetic holds");
}

template <typename T>
T product_of(T a, T b, std::string_view what) {
    T result = 0;
    if (__builtin_mul_overflow(a, b, &result)) {
        throw_overflow(what);
    }
    return result;
}

template <typename T>
T sum_of(T a, T b, std::string_view what) {
    T result = 0;
    if (__builtin_add_overflow(a, b, &result)) {
        throw_overflow(what);
    }
    return result;
}

}  // namespace

Index checked_mul(Index a, Index b, std::string_view what) {
    return product_of(a, b, what);
}

Index checked_add(Index a, Index b, std::string_view what) {
    return sum_of(a, b, what);
}

Bytes checked_mul_bytes(Bytes a, Bytes b, std::string_view what) {
    return product_of(a, b, what);
}

Bytes checked_add_bytes(Bytes a, Bytes b, std::string_view what) {
    return sum_of(a, b, what);
}

Index volume_of(std::span<const Index> shape, std::string_view what) {
    Index volume = 1;
    for (const Index extent : shape) {
        if (extent < 0) {
            throw Error(ErrorCode::corrupt,
                        std::string(what) + " has the negative extent " + std::to_string(extent));
        }
        volume = checked_mul(volume, extent, what);
    }
    return volume;
}

bool lies_inside(std::span<const Index> offsets, std::span<const Index> sizes,
                 std::span<const Index> shape) {
    bool is_inside = offsets.size() == shape.size() && sizes.size() == shape.size();
    for (std::size_t k = 0; is_inside && k < shape.size(); ++k) {
        is_inside = offsets[k] >= 0 && offsets[k] <= shape[k] && sizes[k] <= shape[k] - offsets[k];
    }
    return is_inside;
}

Index to_index(Bytes value, std::string_view what) {
    if (value > static_cast<Bytes>(std::numeric_limits<Index>::max())) {
        throw_overflow(what);
    }
    return static_cast<Index>(value);
}

Bytes to_bytes(Index value, std::string_view what) {
    if (value < 0) {
        throw Error(ErrorCode::corrupt,
                    std::string(what) + " is negative: " + std::to_string(value));
    }
    return static_cast<Bytes>(value);
}

int to_int(Index value, std::string_view what) {
    if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max()) {
        throw_overflow(what);
    }
    return static_cast<int>(value);
}

std::size_t to_size(Bytes value, std::string_view what) {
    if (value > std::numeric_limits<std::size_t>::max()) {
        throw_overflow(what);
    }
    return static_cast<std::size_t>(value);
}

}  // namespace shardweld
