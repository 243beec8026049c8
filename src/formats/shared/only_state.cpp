#include "only_state.hpp"

#include <algorithm>
#include <vector>

#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

namespace {

constexpr const char* kWeights =
    "give the directory of the weights: it usually lies beside this one, as pytorch_model_fsdp_0, "
    "model or weights";
constexpr std::size_t kMostRows = 3;

bool is_of_optimizer(const catalogue::Ignored& row) {
    return row.pattern.find("optim") != std::string::npos;
}

/// The largest rows: "optimizer* (24 entries, 172.1 kB)".
std::string text_of(std::vector<catalogue::Ignored> rows) {
    std::ranges::stable_sort(rows, std::ranges::greater{}, &catalogue::Ignored::bytes);
    rows.resize(std::min(rows.size(), kMostRows));
    return joined(rows, ", ", [](const catalogue::Ignored& row) {
        return row.pattern + " (" + std::to_string(row.count) + " entries, " +
               human_bytes(row.bytes) + ")";
    });
}

}  // namespace

void refuse_only_state(const std::string& where, const catalogue::Catalogue& catalogue,
                       const std::string& hint) {
    const auto& rows = catalogue.ignored;
    const bool is_optimizer = std::ranges::any_of(rows, is_of_optimizer);
    throw Error(ErrorCode::not_found,
                where + " holds only " + (is_optimizer ? "optimizer" : "training") +
                    " state and no weights: " + (rows.empty() ? "nothing" : text_of(rows)),
                hint.empty() ? kWeights : hint);
}

}  // namespace shardweld::formats
