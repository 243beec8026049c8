#include "short_list.hpp"

#include "formats/containers/torch_storage.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::fsdp {

std::span<const PickleValue* const> short_list(const PickleValue& value, std::string_view what) {
    const bool is_list = value.kind == PickleKind::tuple || value.kind == PickleKind::list;
    if (!is_list || value.elements().size() > kLongestList) {
        throw Error(ErrorCode::corrupt, std::string(what) + " is " + describe(value) + " of " +
                                            std::to_string(value.elements().size()) +
                                            " elements, expected a short tuple or list");
    }
    return value.elements();
}

void read_short_counts(const PickleValue& value, std::string_view what,
                       std::vector<Index>& counts) {
    const auto elements = short_list(value, what);
    counts.clear();
    counts.reserve(elements.size());
    for (const PickleValue* const element : elements) {
        counts.push_back(read_count(*element, what));
    }
}

std::vector<Index> short_counts(const PickleValue& value, std::string_view what) {
    std::vector<Index> counts;
    read_short_counts(value, what, counts);
    return counts;
}

}  // namespace shardweld::formats::fsdp
