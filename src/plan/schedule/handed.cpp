#include "handed.hpp"

#include <utility>

#include "core/codec.hpp"

namespace shardweld::plan {

namespace {

/// All but the targets and the digest.
auto parts_of(auto& plan) {
    return std::tie(plan.tensors, plan.placement, plan.space, plan.cuts, plan.readers,
                    plan.read_cuts, plan.strategy, plan.why, plan.is_lockstep, plan.replica_bytes,
                    plan.equal_bytes, plan.compared_bytes, plan.sample_every, plan.visibility,
                    plan.limits, plan.scattered, plan.n_terms);
}

/// By target: whether a rank makes some of its outputs.
std::vector<bool> owned_by(const Plan& plan, std::size_t n_targets, int rank) {
    const Bytes begin = plan.cuts[static_cast<std::size_t>(rank)];
    const Bytes end = plan.cuts[static_cast<std::size_t>(rank) + 1];
    std::vector<bool> owned(n_targets, false);
    for (std::size_t i = 0; i < plan.space.order.size(); ++i) {
        const OutputOfTarget made = plan.tensors[plan.space.order[i]];
        if (made.output == 0 && plan.space.begins[i] < end && plan.space.begins[i + 1] > begin) {
            owned[made.target] = true;
        }
    }
    return owned;
}

/// Operands and replicas, which most ranks pass over.
std::string text_of(const Target& target) {
    ByteWriter out;
    out.put(target.operands);
    out.put(target.replicas);
    const std::vector<std::byte> bytes = out.take();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::vector<std::byte> as_bytes(const Plan& plan) {
    ByteWriter out;
    std::apply([&](const auto&... part) { (out.put(part), ...); }, parts_of(plan));
    out.put(plan.hash());
    out.put<std::uint64_t>(plan.targets.size());
    for (const Target& target : plan.targets) {
        out.put(target);
        out.put(text_of(target));
    }
    return out.take();
}

Plan plan_from(std::span<const std::byte> bytes, int rank, bool may_be_cut_anew) {
    ByteReader in(bytes);
    Plan plan;
    std::apply(
        [&](auto&... part) { ((part = in.get<std::remove_reference_t<decltype(part)>>()), ...); },
        parts_of(plan));
    plan.placement.format = &outputs::default_format();
    plan.known_hash = in.get<std::string>();
    const auto n_targets = in.get<std::uint64_t>();
    const bool takes_all = plan.is_lockstep || may_be_cut_anew;
    plan.is_part = !takes_all;
    const std::vector<bool> owned =
        takes_all ? std::vector<bool>(n_targets, true) : owned_by(plan, n_targets, rank);
    plan.targets.reserve(n_targets);
    for (std::size_t at = 0; at < n_targets; ++at) {
        Target& target = plan.targets.emplace_back(in.get<Target>());
        const auto text = in.get<std::string>();
        if (owned[at]) {
            ByteReader sources(std::as_bytes(std::span(text)));
            target.operands = sources.get<std::vector<Operand>>();
            target.replicas = sources.get<std::vector<Operand>>();
        }
    }
    return plan;
}

}  // namespace shardweld::plan
