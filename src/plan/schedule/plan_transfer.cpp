#include "plan_transfer.hpp"

#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace shardweld::plan {

namespace {

/// All but the targets and the digest.
auto parts_of(auto& plan) {
    return std::tie(plan.tensors, plan.placement, plan.space, plan.cuts, plan.readers,
                    plan.read_cuts, plan.strategy, plan.why, plan.is_lockstep, plan.replica_bytes,
                    plan.equal_bytes, plan.compared_bytes, plan.sample_every, plan.visibility,
                    plan.needs, plan.limits, plan.scattered, plan.n_terms);
}

}  // namespace

void put_plan(const Plan& plan, ByteWriter& out) {
    std::apply([&](const auto&... part) { (out.put(part), ...); }, parts_of(plan));
    out.put(plan.hash());
    out.put<std::uint64_t>(plan.targets.size());
    for (const Target& target : plan.targets) {
        out.put(target);
        out.put(target.operands);
        out.put(target.replicas);
    }
}

Plan get_plan(ByteReader& in) {
    Plan plan;
    std::apply(
        [&](auto&... part) { ((part = in.get<std::remove_reference_t<decltype(part)>>()), ...); },
        parts_of(plan));
    plan.known_hash = in.get<std::string>();
    const auto n_targets = in.get<std::uint64_t>();
    plan.targets.reserve(n_targets);
    for (std::uint64_t at = 0; at < n_targets; ++at) {
        Target& target = plan.targets.emplace_back(in.get<Target>());
        target.operands = in.get<std::vector<Operand>>();
        target.replicas = in.get<std::vector<Operand>>();
    }
    return plan;
}

}  // namespace shardweld::plan
