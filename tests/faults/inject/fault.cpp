#include "fault.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>

namespace shardweld::faults {

namespace {

constexpr std::array<std::string_view, 11> kKinds = {"error",    "short", "slow",    "signal",
                                                     "scribble", "grow",  "shorten", "replace",
                                                     "vanish",   "link",  "script"};

[[noreturn]] void refuse(std::string_view what) {
    std::fprintf(stderr, "faults: cannot understand '%s'\n", std::string(what).c_str());
    std::_Exit(99);
}

std::uint64_t number(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed != std::errc() || end != text.data() + text.size()) {
        refuse(text);
    }
    return value;
}

/// What a text in milliseconds says, "0.5".
int microseconds(std::string_view text) {
    double value = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed != std::errc() || end != text.data() + text.size() || value < 0 || value > 1e6) {
        refuse(text);
    }
    return static_cast<int>(value * 1000);
}

template <typename E, std::size_t N>
std::optional<E> one_of(const std::array<std::string_view, N>& names, std::string_view text) {
    if (text == "any") {
        return std::nullopt;
    }
    const auto* const found = std::find(names.begin(), names.end(), text);
    if (found == names.end()) {
        refuse(text);
    }
    return static_cast<E>(found - names.begin());
}

Action action_of(std::string_view text) {
    const auto colon = text.find(':');
    const std::string_view name = text.substr(0, colon);
    const auto kind = one_of<Kind>(kKinds, name);
    const bool has_number = colon != std::string_view::npos;
    if (!kind ||
        has_number != (kind == Kind::error || kind == Kind::slow || kind == Kind::signal)) {
        refuse(text);
    }
    if (*kind == Kind::slow) {
        return {*kind, microseconds(text.substr(colon + 1))};
    }
    return {*kind, has_number ? static_cast<int>(number(text.substr(colon + 1))) : 0};
}

void set(Fault& fault, std::string_view key, std::string_view value) {
    if (key == "call") {
        fault.call = one_of<Call>(kCalls, value);
    } else if (key == "side") {
        fault.side = one_of<Side>(kSides, value);
    } else if (key == "phase") {
        fault.phase = one_of<Phase>(kPhases, value);
    } else if (key == "rank") {
        fault.rank = value == "any" ? std::nullopt : std::optional(static_cast<int>(number(value)));
    } else if (key == "path") {
        fault.path = value;
    } else if (key == "nth") {
        fault.nth = number(value);
    } else if (key == "times") {
        fault.times = number(value);
    } else if (key == "do") {
        fault.action = action_of(value);
    } else {
        refuse(key);
    }
}

/// Calls `take` with each part between separators.
template <typename F>
void each_part(std::string_view text, char separator, F take) {
    while (!text.empty()) {
        const auto end = std::min(text.find(separator), text.size());
        take(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

}  // namespace

bool Fault::strikes(const Site& site, int own_rank) {
    const bool is_meant = (!call || *call == site.call) && (!side || *side == site.side) &&
                          (!phase || *phase == site.phase) && (!rank || *rank == own_rank) &&
                          site.path.find(path) != std::string::npos;
    if (!is_meant) {
        return false;
    }
    const std::uint64_t n = ++n_seen;
    return n >= nth && (times == 0 || n - nth < times);
}

std::deque<Fault> parse_faults(std::string_view text) {
    std::deque<Fault> faults;
    each_part(text, ';', [&](std::string_view one) {
        Fault& fault = faults.emplace_back();
        each_part(one, ',', [&](std::string_view pair) {
            const auto equals = pair.find('=');
            if (equals == std::string_view::npos) {
                refuse(pair);
            }
            set(fault, pair.substr(0, equals), pair.substr(equals + 1));
        });
    });
    return faults;
}

}  // namespace shardweld::faults
