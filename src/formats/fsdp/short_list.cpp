#include "short_list.hpp"

#include "shardweld/core/error.hpp"

#include "../shared/torch_storage.hpp"

namespace shardweld::formats::fsdp {

std::span<const PickleValue* const> short_list(const PickleValue& value, const std::string& what) {
    const bool is_list = value.kind == PickleKind::tuple || value.kind == PickleKind::list;
    if (!is_list || value.elements().size() > kLongestList) {
        throw Error(ErrorCode::corrupt, what + " is " + describe(value) + " of " +
                                            std::to_string(value.elements().size()) +
                                            " elements, expected a short tuple or list");
    }
    return value.elements();
}

std::vector<Index> short_counts(const PickleValue& value, const std::string& what) {
    std::vector<Index> counts;
    for (const PickleValue* const element : short_list(value, what)) {
        counts.push_back(read_count(*element, what));
    }
    return counts;
}

}  // namespace shardweld::formats::fsdp
