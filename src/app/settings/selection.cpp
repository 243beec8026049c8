#include "selection.hpp"

#include <utility>
#include <vector>

#include "core/regex.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

std::optional<Regex> compiled(const std::optional<std::string>& text, const std::string& option) {
    if (!text) {
        return std::nullopt;
    }
    try {
        return Regex(*text);
    } catch (const Error& error) {
        throw Error(ErrorCode::usage,
                    option + " " + printable(*text) +
                        " is not a regular expression that shardweld can use (" +
                        printable(error.what()) + ")",
                    "write it without look-around and back-references, which RE2 does not have");
    }
}

/// Why a name is left out; "" when it is selected.
std::function<std::string(const std::string&)> reasons(const Selection& selection) {
    return [include = compiled(selection.include, "--include"),
            exclude = compiled(selection.exclude, "--exclude")](const std::string& name) {
        if (include && !include->is_found_in(name)) {
            return "not in --include";
        }
        return exclude && exclude->is_found_in(name) ? "in --exclude" : "";
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

void check_expression(const std::string& text, const std::string& option) {
    (void)compiled(text, option);
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
        throw Error(ErrorCode::usage, "--include and --exclude leave no tensor",
                    "they are matched against the names of the output, which plan --json lists");
    }
    binding.targets = std::move(kept);
    std::erase_if(binding.same, [&](plan::SamePair& pair) {
        const auto at = place[pair.target];
        pair.target = at.value_or(0);
        return !at;
    });
}

}  // namespace shardweld::app
