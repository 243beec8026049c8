#include "paired_factors.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "stored_factors.hpp"

namespace shardweld::app {

namespace {

constexpr std::string_view kWeightEnd = ".weight";

/// "X.weight" for "X.adapter.linear_in.weight"; for one of a segment the name of its A.
std::optional<std::string> product_name(const std::string& factor, const std::string& end,
                                        const std::string& part_end,
                                        const models::LoraNames& names) {
    if (glob_matches("*" + part_end, factor)) {
        // All up to the label and the label itself are the same in both names.
        const std::string up = part_end.substr(part_end.find('*') + 1);
        const std::string down = names.part_down.substr(names.part_down.find('*') + 1);
        return factor.substr(0, factor.size() - up.size()) + down;
    }
    return factor.ends_with(end) ? std::optional(factor.substr(0, factor.size() - end.size()) +
                                                 std::string(kWeightEnd))
                                 : std::nullopt;
}

}  // namespace

std::vector<FactorPair> pairs_of(const plan::Targets& whole, const models::LoraNames& names) {
    std::map<std::string, std::uint32_t> downs;
    std::map<std::string, std::uint32_t> ups;
    for (std::uint32_t i = 0; i < whole.size(); ++i) {
        const std::string& name = whole[i].name;
        if (const auto down = product_name(name, names.down, names.part_down, names)) {
            downs.emplace(*down, i);
        } else if (const auto up = product_name(name, names.up, names.part_up, names)) {
            ups.emplace(*up, i);
        }
    }
    std::vector<FactorPair> pairs;
    for (const auto& [name, up] : ups) {
        if (!downs.contains(name)) {
            refuse_half(whole[up].name);
        }
    }
    for (const auto& [name, down] : downs) {
        const auto up = ups.find(name);
        if (up == ups.end()) {
            refuse_half(whole[down].name);
        }
        const auto& a = whole[down].shape;
        const auto& b = whole[up->second].shape;
        if (a.size() < 2 || a.size() != b.size() || a[a.size() - 2] != b.back() ||
            !std::equal(a.begin(), a.end() - 2, b.begin())) {
            throw Error(ErrorCode::mismatch, printable(whole[down].name.text()) + " " +
                                                 shape_text(a) + " and " +
                                                 printable(whole[up->second].name.text()) + " " +
                                                 shape_text(b) + " are no two factors of a matrix");
        }
        pairs.push_back({name, down, up->second, b.back(), a.back(), b[b.size() - 2]});
    }
    return pairs;
}

catalogue::Tensor product_of(const FactorPair& pair, const plan::Targets& whole) {
    catalogue::Tensor tensor;
    tensor.name = pair.name;
    tensor.shape = whole[pair.up].shape;
    tensor.shape.back() = pair.n_in;
    return tensor;
}

}  // namespace shardweld::app
