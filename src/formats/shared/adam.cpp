#include "adam.hpp"

#include <algorithm>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "hints.hpp"

namespace shardweld::formats {

bool is_moment(std::string_view name) {
    return name == kMoment || name == kSquaredMoment;
}

bool is_taken(std::string_view state, TakenState taken) {
    return taken == TakenState::all || (taken == TakenState::master && state == kMaster);
}

std::string_view adam_state(std::string_view name, std::string_view key) {
    if (is_moment(name)) {
        return name == kMoment ? kMoment : kSquaredMoment;
    }
    throw Error(ErrorCode::unsupported,
                "the optimizer keeps " + printable(name) + " (" + printable(key) +
                    "), which is none of Adam's moments exp_avg and exp_avg_sq",
                kMastersOrWeights);
}

void refuse_state(const std::string& what, const PickleValue& value) {
    throw Error(ErrorCode::unsupported,
                "the optimizer keeps " + what + " as " + in_words(value.kind) +
                    ", where a tensor is expected",
                kMastersOrWeights);
}

State& state_called(std::string_view name, Optimizer& optimizer) {
    if (auto* const known = find_item(optimizer.states, name, &State::name)) {
        return *known;
    }
    return optimizer.states.emplace_back(State{std::string(name), {}, {}, {}});
}

void require_both_moments(const Optimizer& optimizer) {
    const auto has = [&](std::string_view name) {
        return find_item(optimizer.states, name, &State::name) != nullptr;
    };
    if (has(kMoment) != has(kSquaredMoment)) {
        const bool is_first = has(kMoment);
        throw Error(ErrorCode::unsupported,
                    std::string("the optimizer keeps ") + (is_first ? "exp_avg" : "exp_avg_sq") +
                        " without " + (is_first ? "exp_avg_sq" : "exp_avg") +
                        ": it is not Adam, whose states alone are carried over",
                    kMastersOrWeights);
    }
}

}  // namespace shardweld::formats
