#include "expert_numbers.hpp"

#include <algorithm>
#include <string_view>

#include "core/text.hpp"

namespace shardweld::formats::deepspeed {

namespace {

constexpr std::string_view kExperts = ".deepspeed_experts.";
constexpr Index kMostExperts = 1 << 20;

/// "moe.deepspeed_moe.experts.deepspeed_experts.", 3, ".0.weight"
struct ExpertName {
    std::string layer;
    Index number = 0;
    std::string rest;
};

std::optional<ExpertName> parse_expert_name(const std::string& name) {
    const auto at = name.find(kExperts);
    if (at == std::string::npos) {
        return std::nullopt;
    }
    const auto begin = at + kExperts.size();
    const auto end = std::min(name.find('.', begin), name.size());
    const auto number = parse_index(std::string_view(name).substr(begin, end - begin));
    if (!number || *number > kMostExperts) {
        return std::nullopt;
    }
    return ExpertName{name.substr(0, begin), *number, name.substr(end)};
}

}  // namespace

void ExpertNumbers::note(const std::string& name) {
    if (const auto expert = parse_expert_name(name)) {
        Index& n_local = n_local_[expert->layer];
        n_local = std::max(n_local, expert->number + 1);
    }
}

std::optional<std::string> ExpertNumbers::name_on(Index rank, const std::string& name) const {
    const auto expert = parse_expert_name(name);
    if (!expert) {
        return std::nullopt;
    }
    const Index number = checked_mul(rank, n_local_.at(expert->layer), "experts") + expert->number;
    return expert->layer + std::to_string(number) + expert->rest;
}

}  // namespace shardweld::formats::deepspeed
