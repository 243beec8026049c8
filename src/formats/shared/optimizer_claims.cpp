#include "optimizer_claims.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "hints.hpp"
#include "settings.hpp"

namespace shardweld::formats {

namespace {

using nlohmann::json;

constexpr std::int64_t kLargestStep = std::int64_t{1} << 53U;
constexpr const char* kGiveThem =
    "give the files that state them, all of one save, or an optimizer.json beside them that does; "
    "or take the fp32 masters alone with --state master";

[[noreturn]] void refuse_step(const std::string& stated, const std::string& place) {
    refuse_said("the optimizer's step is " + printable(stated) + " in " + place +
                ", which is no whole number from 0 on");
}

}  // namespace

std::optional<double> whole_number(const std::string& text) {
    const json value = json::parse(text, nullptr, false);
    if (value.is_number_integer()) {
        const bool fits = value.is_number_unsigned()
                              ? value.get<std::uint64_t>() <= std::uint64_t{kLargestStep}
                              : value.get<std::int64_t>() >= 0;
        return fits ? std::optional(value.get<double>()) : std::nullopt;
    }
    const double number = value.is_number() ? value.get<double>() : -1;
    const bool is_whole =
        number >= 0 && number <= static_cast<double>(kLargestStep) && std::floor(number) == number;
    return is_whole ? std::optional(number + 0.0) : std::nullopt;
}

void require_step(const std::string& place, bool has_one) {
    if (!has_one) {
        throw Error(ErrorCode::not_found,
                    place +
                        " has moments of an optimizer, but no step: Adam would take them for "
                        "those of a first one",
                    kGiveThem);
    }
}

void StepClaims::add(const std::string& text, const std::string& place) {
    const auto stated = whole_number(text);
    if (!stated) {
        refuse_step(text, place);
    }
    steps_.agree("the optimizer's step", std::to_string(static_cast<std::int64_t>(*stated)), place,
                 kOneSaveOrWeights);
    step_ = stated;
}

bool StepClaims::add(const PickleValue* value, const ScalarReader& scalars,
                     const std::string& place) {
    if (value == nullptr || value->kind == PickleKind::none) {
        return false;
    }
    const auto text = json_text(*value, scalars);
    if (!text) {
        const std::string found = scalars.text_of(*value).value_or("no single number");
        refuse_step(is_text(*value) ? "\"" + found + "\"" : found, place);
    }
    add(*text, place);
    return true;
}

bool StepClaims::add(const std::vector<ParameterGroup>& groups, const std::string& place) {
    bool has_one = false;
    for (const std::size_t i : indices(groups)) {
        auto* const step = find_value(groups[i].settings, "step");
        if (step != nullptr && *step != "null") {
            add(*step, place + ", group " + std::to_string(i));
            has_one = true;
        }
    }
    return has_one;
}

bool is_same_value(const std::string& a, const std::string& b) {
    return a == b || json::parse(a, nullptr, false) == json::parse(b, nullptr, false);
}

std::string difference(const Settings& a, const std::string& place_a, const Settings& b,
                       const std::string& place_b) {
    const auto text_in = [](const Settings& settings, const std::string& name) {
        return copy_or(find_value(settings, name), std::string("absent"));
    };
    for (const Settings* const settings : {&a, &b}) {
        for (const auto& [name, text] : *settings) {
            if (!is_same_value(text_in(a, name), text_in(b, name))) {
                return catalogue::contradiction(name, text_in(a, name), place_a, text_in(b, name),
                                                place_b);
            }
        }
    }
    return "";
}

namespace {

std::string difference_of_groups(const std::vector<ParameterGroup>& a, const std::string& place_a,
                                 const std::vector<ParameterGroup>& b, const std::string& place_b) {
    if (a.size() != b.size()) {
        return place_a + " has " + counted(a.size(), "group") + ", " + place_b + " has " +
               std::to_string(b.size());
    }
    std::string found;
    for (std::size_t i = 0; found.empty() && i < a.size(); ++i) {
        found = difference(a[i].settings, place_a, b[i].settings, place_b);
        if (found.empty() && a[i].parameters != b[i].parameters) {
            found = "group " + std::to_string(i) + " has other parameters in " + place_a +
                    " than in " + place_b;
        }
    }
    return found;
}

}  // namespace

void GroupClaims::add(const std::string& optimizer, std::vector<ParameterGroup> groups,
                      const std::string& place) {
    auto* const known = find_value(stated_, optimizer);
    if (known == nullptr) {
        stated_.emplace(optimizer, Stated{std::move(groups), place});
        return;
    }
    const std::string fault = difference_of_groups(known->groups, known->place, groups, place);
    if (!fault.empty()) {
        throw Error(ErrorCode::mismatch,
                    "the optimizer's parameter groups are not those of one run: " + fault,
                    kOneSaveOrWeights);
    }
}

void GroupClaims::finish(Optimizer& out) {
    for (auto& [optimizer, stated] : stated_) {
        append_all(out.groups, std::move(stated.groups));
    }
}

std::string member_text(const PickleValue& key) {
    return key.kind == PickleKind::integer ? std::to_string(key.integer) : std::string(key.text());
}

namespace {}  // namespace

Members members_in(const PickleValue& groups) {
    Members all;
    std::set<std::string> known;
    std::int64_t behind = 0;  // the highest number
    std::size_t n_numbers = 0;
    for (const PickleValue* const group : groups.elements()) {
        auto& members = all.emplace_back();
        const PickleValue* const keys = group->find("params");
        if (keys == nullptr || !keys->is_list()) {
            refuse_said("is no state dict of an optimizer: group " +
                        std::to_string(all.size() - 1) + " has no params");
        }
        std::int64_t next = 0;
        for (const PickleValue* const key : keys->elements()) {
            members.push_back(member_text(*key));
            const std::string name = printable(members.back());
            if (!known.insert(members.back()).second) {
                refuse_said("the optimizer's groups have " + name +
                            " twice: one number names one parameter");
            }
            if (key->kind == PickleKind::text) {
                continue;
            }
            if (key->kind != PickleKind::integer || key->integer < next) {
                refuse_said("the optimizer's group " + std::to_string(all.size() - 1) + " has " +
                            (key->kind == PickleKind::integer ? name : in_words(key->kind)) +
                            " where a number from " + std::to_string(next) + " on belongs");
            }
            next = key->integer + 1;
            behind = std::max(behind, next);
            ++n_numbers;
        }
    }
    if (n_numbers != static_cast<std::size_t>(behind)) {
        refuse_said("the optimizer's groups have " + std::to_string(n_numbers) +
                    " numbers, the highest of which is " + std::to_string(behind - 1));
    }
    return all;
}

void require_members(const PickleValue& state, const Members& members) {
    std::set<std::string> known;
    for (const auto& group : members) {
        known.insert(group.begin(), group.end());
    }
    for (const auto& [key, value] : state.pairs()) {
        const std::string name = member_text(key);
        if (known.extract(name).empty()) {
            refuse_said("the optimizer has states of number " + printable(name) +
                        (std::ranges::any_of(
                             members, [&](const auto& group) { return contains(group, name); })
                             ? " twice"
                             : ", which none of its groups has"));
        }
    }
}

namespace {

using Check = bool (*)(const json&);

bool is_amount(const json& value) {
    return value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() >= 0;
}
bool is_amount_or_none(const json& value) {
    return value.is_null() || is_amount(value);
}
bool are_betas(const json& value) {
    return value.is_array() && value.size() == 2 && std::ranges::all_of(value, [](const json& one) {
               return is_amount(one) && one.get<double>() < 1;
           });
}
bool is_flag(const json& value) {
    return value.is_boolean();
}

struct Known {
    const char* name;
    Check is_one;
    bool is_needed;
};

/// What Adam computes with, and what Megatron tells its groups by.
constexpr std::array<Known, 12> kKnown = {{
    {"lr", is_amount, true},
    {"betas", are_betas, true},
    {"eps", is_amount, true},
    {"weight_decay", is_amount, true},
    {"initial_lr", is_amount, false},
    {"max_lr", is_amount_or_none, false},
    {"min_lr", is_amount_or_none, false},
    {"wd_mult", is_amount, false},
    {"lr_mult", is_amount, false},
    {"is_expert_parallel", is_flag, false},
    {"is_decoupled_lr", is_flag, false},
    {"bias_correction", is_flag, false},
}};

void require_settings(const Settings& settings, std::size_t group, bool are_needed) {
    for (const Known& known : kKnown) {
        auto* const stated = find_value(settings, known.name);
        const std::string what =
            std::string(known.name) + " of the optimizer's group " + std::to_string(group);
        if (stated == nullptr) {
            if (known.is_needed && are_needed) {
                throw Error(ErrorCode::not_found, what + " is not told", kGiveThem);
            }
        } else if (!known.is_one(json::parse(*stated, nullptr, false))) {
            refuse_said(what + " is " + printable(*stated) +
                        ", which is no such setting of Adam's");
        }
    }
}

/// Megatron tells all its groups apart by the same settings.
void require_same_traits(const std::vector<ParameterGroup>& groups) {
    for (const char* const trait :
         {"wd_mult", "lr_mult", "is_expert_parallel", "is_decoupled_lr"}) {
        const auto has = [&](const ParameterGroup& group) {
            return group.settings.contains(trait);
        };
        const auto without = std::ranges::find_if_not(groups, has);
        if (without != groups.end() && std::ranges::any_of(groups, has)) {
            throw Error(ErrorCode::not_found,
                        std::string(trait) + " of the optimizer's group " +
                            std::to_string(without - groups.begin()) +
                            " is not told, and by it groups are told apart",
                        kGiveThem);
        }
    }
}

/// Where groups have names: each parameter is in one.
void require_one_group(const Optimizer& optimizer) {
    std::set<std::string> named;
    for (const ParameterGroup& group : optimizer.groups) {
        for (const std::string& name : group.parameters) {
            if (!named.insert(name).second) {
                refuse_said("the optimizer's groups have " + printable(name) + " twice");
            }
        }
    }
    const auto require = [&](const std::string& name) {
        if (!named.contains(name)) {
            refuse_said("the optimizer has states of " + printable(name) +
                        ", which is in none of its groups");
        }
    };
    for (const State& state : optimizer.states) {
        if (named.empty() || state.name == kMaster) {
            continue;
        }
        for (const Tensor& tensor : state.tensors) {
            require(tensor.name);
        }
        for (const Shard& shard : state.shards) {
            require(shard.name.text());
        }
    }
}

}  // namespace

void require_claims(const Optimizer& optimizer) {
    const bool has_moments = std::ranges::any_of(
        optimizer.states, [](const State& state) { return state.name != kMaster; });
    require_step("the save", !has_moments || optimizer.step.has_value());
    if (has_moments && optimizer.groups.empty()) {
        throw Error(ErrorCode::not_found,
                    "the save has moments of an optimizer, but not its parameter groups, as with "
                    "DeepSpeed's elastic_checkpoint: rate, betas, epsilon and decay are not told",
                    kGiveThem);
    }
    for (const std::size_t i : indices(optimizer.groups)) {
        require_settings(optimizer.groups[i].settings, i, has_moments);
    }
    require_same_traits(optimizer.groups);
    require_one_group(optimizer);
}

}  // namespace shardweld::formats
