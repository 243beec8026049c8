#include "selection.hpp"

#include <regex>
#include <utility>
#include <vector>

#include "shardweld/core/error.hpp"
#include "shardweld/core/regex_limits.hpp"
#include "shardweld/core/text.hpp"

namespace shardweld::app {

namespace {

// std::regex reads and matches by recursion: longer ones would end the stack.
constexpr std::size_t kLongestPattern = 10'000;
constexpr std::size_t kLongestName = 2000;

std::optional<std::regex> compiled(const std::optional<std::string>& text, const char* option) {
    if (!text) {
        return std::nullopt;
    }
    if (text->size() > kLongestPattern) {
        throw Error(ErrorCode::usage, std::string(option) + " " + printable(*text) +
                                          " is longer than " + std::to_string(kLongestPattern) +
                                          " characters: select with a shorter expression");
    }
    if (has_long_number(*text)) {
        throw Error(ErrorCode::usage, std::string(option) + " " + printable(*text) +
                                          " holds a number of " + std::to_string(kTooManyDigits) +
                                          " digits or more, which no name has");
    }
    try {
        return std::regex(*text);
    } catch (const std::regex_error& error) {
        throw Error(ErrorCode::usage, std::string(option) + " " + printable(*text) +
                                          " is no regular expression: " + error.what());
    }
}

bool is_found(const std::regex& expression, const std::string& name) {
    if (name.size() > kLongestName) {
        throw Error(ErrorCode::unsupported, "the tensor name " + printable(name) + " has " +
                                                std::to_string(name.size()) +
                                                " characters, too many for --include and "
                                                "--exclude: leave these options out");
    }
    return std::regex_search(name, expression);
}

/// Why a name is left out; "" when it is selected.
std::function<std::string(const std::string&)> reasons(const Selection& selection) {
    return [include = compiled(selection.include, "--include"),
            exclude = compiled(selection.exclude, "--exclude")](const std::string& name) {
        if (include && !is_found(*include, name)) {
            return "not in --include";
        }
        return exclude && is_found(*exclude, name) ? "in --exclude" : "";
    };
}

Bytes bytes_of(const plan::Target& target, const std::vector<plan::Operand>& operands) {
    Bytes bytes = 0;
    for (const plan::Operand& operand : operands) {
        bytes += static_cast<Bytes>(operand.copy.volume()) * size_of(target.stored);
    }
    return bytes;
}

void leave_out(const plan::Target& target, const std::string& reason, plan::Ledger& ledger) {
    const Bytes consumed = bytes_of(target, target.operands);
    const Bytes replica = bytes_of(target, target.replicas);
    ledger.consumed -= consumed;
    ledger.replica -= replica;
    ledger.ignore(target.name, reason, consumed + replica);
}

}  // namespace

void check_selection(const Selection& selection) {
    (void)compiled(selection.include, "--include");
    (void)compiled(selection.exclude, "--exclude");
}

std::function<bool(const std::string&)> selects(const Selection& selection) {
    return
        [why_out = reasons(selection)](const std::string& name) { return why_out(name).empty(); };
}

void select(plan::Binding& binding, const Selection& selection) {
    const auto why_out = reasons(selection);
    std::vector<plan::Target> kept;
    std::vector<std::optional<std::size_t>> place;
    for (plan::Target& target : binding.targets) {
        if (const std::string reason = why_out(target.name); !reason.empty()) {
            leave_out(target, reason, binding.ledger);
            place.emplace_back(std::nullopt);
        } else {
            place.emplace_back(kept.size());
            kept.push_back(std::move(target));
        }
    }
    if (kept.empty()) {
        throw Error(ErrorCode::usage,
                    "--include and --exclude leave no tensor: they are searched for in names as "
                    "they are written, such as those that plan --json lists");
    }
    binding.targets = std::move(kept);
    std::erase_if(binding.same, [&](plan::SamePair& pair) {
        const auto at = place[pair.target];
        pair.target = at.value_or(0);
        return !at;
    });
}

}  // namespace shardweld::app
