#include "rounded_sums.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/report/run.hpp"
#include "app/survey/input.hpp"
#include "core/text.hpp"
#include "execute/reader.hpp"
#include "mpi/share.hpp"
#include "numeric/convert.hpp"
#include "plan/plan.hpp"

#include "state.hpp"

namespace shardweld::app {

namespace {

bool is_sum(const plan::Target& target) {
    return target.add != 0 && !target.is_copy && !target.mix;
}

/// Values of which the written ones do not give the stored ones.
Index count_changed(const plan::Target& target, std::span<const std::byte> stored) {
    const auto number = static_cast<float>(target.add);
    std::vector<std::byte> written(static_cast<std::size_t>(target.volume()) *
                                   size_of(target.cast()));
    std::vector<std::byte> back(stored.size());
    numeric::add_and_convert(target.stored, stored, number, target.cast(), written);
    numeric::add_and_convert(target.cast(), written, -number, target.stored, back);
    const std::size_t size = size_of(target.stored);
    Index n = 0;
    for (std::size_t at = 0; at < back.size(); at += size) {
        n += std::memcmp(&back[at], &stored[at], size) == 0 ? 0 : 1;
    }
    return n;
}

/// Of the targets that this rank sees whole.
std::vector<std::pair<std::uint32_t, Index>> count_seen(const Run& run, const Output& output,
                                                        const Input& input) {
    execute::SourceFiles source = source_of(run, input);
    source.sums = nullptr;  // counted when they were read for the output
    execute::Reader reader(source, output.plan.limits.scratch);
    std::vector<std::pair<std::uint32_t, Index>> found;
    for (std::uint32_t at = 0; at < output.plan.targets.size(); ++at) {
        const plan::Target& target = output.plan.targets[at];
        const bool is_seen = std::ranges::all_of(target.operands, [&](const auto& operand) {
            return input.visibility.sees(run.comm.rank(), operand.file);
        });
        if (!is_sum(target) || !is_seen) {
            continue;
        }
        std::vector<std::byte> stored(static_cast<std::size_t>(target.volume()) *
                                      size_of(target.stored));
        const std::array<layout::Range, 1> all{{{0, target.volume()}}};
        if (reader.gather(target.operands, all, static_cast<std::uint32_t>(size_of(target.stored)),
                          stored) == target.volume()) {
            found.emplace_back(at, count_changed(target, stored));
        }
    }
    return found;
}

}  // namespace

std::vector<Warning> rounded_sums(const Run& run, const Output& output, const Input& input) {
    const auto& targets = output.plan.targets;
    if (!output.asked().is_training() || std::ranges::none_of(targets, is_sum)) {
        return {};
    }
    auto own = mpi::collectively_get(run.comm, [&] { return count_seen(run, output, input); });
    std::map<std::uint32_t, Index> changed;  // by target, as far as any rank sees them
    for (const auto& [target, n] : mpi::gather_all(run.comm, std::move(own))) {
        changed[target] = n;
    }
    std::vector<std::string> told;
    for (std::uint32_t at = 0; at < targets.size(); ++at) {
        const auto found = changed.find(at);
        if (!is_sum(targets[at]) || (found != changed.end() && found->second == 0)) {
            continue;
        }
        told.push_back(printable(targets[at].name) + " (" +
                       (found == changed.end()
                            ? "not looked at: no rank sees all of it"
                            : std::to_string(found->second) + " of " +
                                  std::to_string(targets[at].volume()) + " values, as " +
                                  std::string(torch_name(targets[at].cast()))) +
                       ")");
    }
    if (told.empty()) {
        return {};
    }
    return {{"sums_rounded", "",
             counted(told.size(), "tensor") + " " + verb_of(told.size(), "is", "are") +
                 " kept as the weight and a number more or less, which is rounded: the way back "
                 "gives other values of " +
                 joined(told, ", ")}};
}

}  // namespace shardweld::app
