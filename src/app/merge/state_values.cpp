#include "state_values.hpp"

#include <cstddef>
#include <initializer_list>
#include <string_view>

#include "catalogue/optimizer.hpp"
#include "core/text.hpp"
#include "formats/shared/hints.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

using catalogue::kMoment;
using catalogue::kSquaredMoment;
using plan::Target;

/// Fewer elements may have one sign by chance.
constexpr Index kFewSigns = 64;

bool is_moment(const Target& target) {
    return target.state.text() == kMoment || target.state.text() == kSquaredMoment;
}

/// The text behind the first of the beginnings that it has.
std::string without_beginning(std::string_view text,
                              std::initializer_list<std::string_view> beginnings) {
    for (const std::string_view one : beginnings) {
        if (text.starts_with(one)) {
            text.remove_prefix(one.size());
            break;
        }
    }
    return std::string(text);
}

/// The parameter in the name of a piece of a state, as each form makes such names (reshape's
/// in_state and plan::piece_name): "optimizer.state.exp_avg.W[0]", "optim.state.W.exp_avg[0]",
/// "FILE:state.W.exp_avg", "zero/W/exp_avg.pt:param".
std::string parameter_of(const Target& target) {
    const std::string text = target.name;
    std::string_view name = text;
    if (!target.file.empty()) {
        return text;  // a model's directory has the model's names
    }
    if (name.ends_with(']')) {
        name = name.substr(0, name.rfind('['));
    }
    const std::size_t colon = name.find(':');
    if (name.ends_with(":param") && name.starts_with("zero/")) {
        name = name.substr(0, name.rfind('/'));
        return without_beginning(name, {"zero/"});
    }
    name = colon == std::string_view::npos ? name : name.substr(colon + 1);
    const std::string end = "." + target.state.text();
    if (name.ends_with(end)) {
        return without_beginning(name.substr(0, name.size() - end.size()),
                                 {"optim.state.", "state."});
    }
    return without_beginning(name, {"optimizer.state." + target.state.text() + "."});
}

/// By parameter, whether its moments of one kind hold nothing but zeros.
std::map<std::string, bool> zeros_of(std::string_view state, const plan::Plan& plan,
                                     const CensusByTensor& census) {
    std::map<std::string, bool> zeros;
    for (std::uint32_t at = 0; at < plan.tensors.size(); ++at) {
        const Target& target = plan.target_of(at);
        if (target.state.text() != state || target.n_zeros() >= target.volume()) {
            continue;
        }
        auto* const found = find_value(census, at);
        const bool is_zero = found != nullptr && !found->has_nonzero;
        const auto [known, is_new] = zeros.emplace(parameter_of(target), is_zero);
        known->second = known->second && is_zero;
    }
    return zeros;
}

std::string at_step(double step) {
    return "beside step " + std::to_string(static_cast<Index>(step));
}

void require_squares(const plan::Plan& plan, const std::map<std::uint32_t, Index>& below_zero) {
    if (below_zero.empty()) {
        return;
    }
    const Index n_elements = add_up(below_zero, [](const auto& one) { return one.second; });
    const auto& [first, n_of_first] = *below_zero.begin();
    throw Error(
        ErrorCode::mismatch,
        printable(state_text(plan.target_of(first))) + " has " + counted(n_of_first, "element") +
            " below zero, and a mean of squares has none (" + counted(n_elements, "element") +
            " in " + counted(below_zero.size(), "tensor") + ")",
        "see whether exp_avg and exp_avg_sq have changed places in the save, or " +
            std::string(formats::kWeightsOnly));
}

}  // namespace

std::string state_text(const Target& state) {
    return state.state.text() + " of " + parameter_of(state);
}

std::vector<OddTensor> judge_states(const plan::Plan& plan, CensusByTensor& census) {
    std::vector<Target> states;
    CensusByTensor of_states;
    for (const auto& [at, found] : census) {
        const Target& target = plan.target_of(at);
        if (target.state.text().empty() || (is_moment(target) && !found.has_nonzero)) {
            continue;
        }
        Target& shown = states.emplace_back();
        shown.name = state_text(target);
        shown.dtype = target.dtype;
        shown.shape = target.shape;
        of_states.emplace(static_cast<std::uint32_t>(states.size() - 1), found);
    }
    std::erase_if(census,
                  [&](const auto& one) { return !plan.target_of(one.first).state.empty(); });
    return judge_census(states, of_states);
}

Warnings moments_at(double step, const plan::Plan& plan, const CensusByTensor& census,
                    const execute::MomentSigns::Found& signs) {
    require_squares(plan, signs.below_zero);
    Warnings warnings;
    if (step <= 0) {
        return warnings;  // nothing was trained
    }
    for (const std::string_view state : {kMoment, kSquaredMoment}) {
        const auto zeros = zeros_of(state, plan, census);
        const auto names = collect_list(
            zeros, [](const auto& one) { return std::string(one.first); },
            [](const auto& one) { return one.second; });
        if (names.empty()) {
            continue;
        }
        const std::string moment(state);
        if (names.size() == zeros.size()) {
            throw Error(ErrorCode::mismatch,
                        moment + " is zero for all " + counted(names.size(), "parameter") + " " +
                            at_step(step) + ": these are not the states of a run that got there",
                        "give the save with the optimizer's own files, or " +
                            std::string(formats::kWeightsOnly));
        }
        warnings.push_back(
            {"moments_zero", names.front(),
             moment + " is zero for " + std::to_string(names.size()) + " of " +
                 counted(zeros.size(), "parameter") + " " + at_step(step) +
                 ", as of frozen weights and of experts without a token: " + listed(names)});
    }
    const execute::MomentSigns::Count& moments = signs.moments;
    if (moments.negative == 0 && moments.positive >= kFewSigns) {
        warnings.push_back({"moments_one_sign", "",
                            "no element of exp_avg is below zero, " +
                                std::to_string(moments.positive) +
                                " are above it: is it the exp_avg_sq of the save?"});
    }
    return warnings;
}

}  // namespace shardweld::app
