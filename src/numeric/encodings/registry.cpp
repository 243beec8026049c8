#include "registry.hpp"

#include "core/lists.hpp"

namespace shardweld {

const std::vector<EncodingFacts>& all_encodings() {
    static const std::vector<EncodingFacts> all = [] {
        std::vector<EncodingFacts> rows;
#define SHARDWELD_ROWS(file) \
    rows.insert(rows.end(), numeric::encodings::file.begin(), numeric::encodings::file.end());
        SHARDWELD_ENCODINGS(SHARDWELD_ROWS)
#undef SHARDWELD_ROWS
        for (const std::size_t i : indices(rows)) {
            rows[i].encoding = static_cast<Encoding>(i);
        }
        return rows;
    }();
    return all;
}

}  // namespace shardweld
