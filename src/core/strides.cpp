#include "strides.hpp"

#include <algorithm>

namespace shardweld {

std::vector<Index> dense_strides(std::span<const Index> shape) {
    std::vector<Index> strides(shape.size(), 1);
    for (std::size_t k = shape.size(); k-- > 1;) {
        strides[k - 1] = strides[k] * std::max<Index>(shape[k], 1);
    }
    return strides;
}

}  // namespace shardweld
