#include "optimizer.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/names/parameter_kind.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "common_state.hpp"
#include "module_order.hpp"

namespace shardweld::reshape {

namespace {

using nlohmann::json;
using outputs::PlainKind;
using outputs::PlainValue;

/// What Megatron keeps in a group beside Adam's own settings.
constexpr std::array<std::string_view, 8> kOfMegatron = {
    "wd_mult", "lr_mult", "is_expert_parallel", "is_decoupled_lr",
    "max_lr",  "min_lr",  "default_config",     "step"};
/// How many names a message has.
constexpr std::size_t kNamed = 3;

PlainValue plain(const json& value);

PlainValue list_of(const json& value) {
    auto items = collect_list<PlainValue>(value, plain);
    return list(std::move(items));
}

PlainValue dictionary_of(const json& value) {
    std::vector<PlainValue::Entry> entries;
    for (const auto& [key, one] : value.items()) {
        entries.push_back({key, plain(one)});
    }
    return dictionary(std::move(entries));
}

PlainValue plain(const json& value) {
    switch (value.type()) {
        case json::value_t::boolean:
            return boolean(value.get<bool>());
        case json::value_t::number_integer:
        case json::value_t::number_unsigned:
            return integer(value.get<Index>());
        case json::value_t::number_float:
            return real(value.get<double>());
        case json::value_t::string:
            return text(value.get<std::string>());
        case json::value_t::array:
            return list_of(value);
        case json::value_t::object:
            return dictionary_of(value);
        default:
            return {};
    }
}

std::string setting(const Settings& settings, const std::string& name, const char* otherwise) {
    return copy_or(find_value(settings, name), otherwise);
}

bool is_of_experts(const ParameterGroup& group) {
    return kind_of(group.settings).is_of_experts;
}

Settings settings_for_torch(const ParameterGroup& group) {
    if (!group.settings.contains("wd_mult")) {
        return group.settings;
    }
    Settings kept;
    std::ranges::copy_if(group.settings, std::inserter(kept, kept.end()),
                         [](const auto& one) { return !contains(kOfMegatron, one.first); });
    return kept;
}

/// "lr is 0.1 and 0.2", of the first setting, but for `passed`, that is not the same value in both;
/// "": none.
std::string difference(const Settings& a, const Settings& b, std::string_view passed = {}) {
    for (const Settings* const settings : {&a, &b}) {
        for (const auto& [name, stated] : *settings) {
            const std::string x = setting(a, name, "absent");
            const std::string y = setting(b, name, "absent");
            if (name != passed && x != y &&
                json::parse(x, nullptr, false) != json::parse(y, nullptr, false)) {
                return std::string(name).append(" is ").append(x).append(" and ").append(y);
            }
        }
    }
    return "";
}

std::string some_of(const std::vector<std::string>& names) {
    std::vector<std::string> first(
        names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kNamed)));
    return joined(first, ", ") + (names.size() > kNamed ? ", ..." : "");
}

[[noreturn]] void refuse_groups(const std::string& why) {
    throw Error(ErrorCode::unsupported, why,
                "write --to hf, whose optimizer.json keeps groups as they are, or take the masters "
                "alone with --state master");
}

std::string peak_rate(const Settings& of_torch) {
    const std::string rate = setting(of_torch, "initial_lr", "");
    return rate.empty() ? setting(of_torch, "lr", "0.0") : rate;
}

/// A group as Megatron makes it of settings of torch's.
ParameterGroup megatron_group(const Settings& of_torch, bool decays, bool is_of_experts) {
    Settings settings = of_torch;
    settings.erase("initial_lr");
    settings["max_lr"] = peak_rate(of_torch);
    settings["min_lr"] = "0.0";
    settings["lr_mult"] = "1.0";
    settings["wd_mult"] = decays ? "1.0" : "0.0";
    settings["weight_decay"] = decays ? setting(of_torch, "weight_decay", "0.0") : "0.0";
    settings["is_expert_parallel"] = is_of_experts ? "true" : "false";
    settings["is_decoupled_lr"] = "false";
    settings["default_config"] = "true";
    return {std::move(settings), {}};
}

/// Transformer Engine's Adam stops at a group that does not say whether bias is corrected, and its
/// kernel takes the step as an integer. Torch's own, which Megatron falls back to, saves it as a
/// float.
void settle_for_fused_adam(double step, Settings& settings) {
    settings["step"] = json(static_cast<Index>(step)).dump();
    settings.try_emplace("bias_correction", "true");
}

constexpr ParameterKind kMatrices = {};
constexpr ParameterKind kBiases = {.decays = false};
constexpr ParameterKind kExpertBiases = {.is_of_experts = true, .decays = false};

/// Whether one of Megatron's groups, that of `kind`, has the parameter.
bool is_in_group(const Parameter& one, const ParameterKind& kind) {
    const ParameterKind own = kind_of(one.name, one.n_dims);
    return own.is_of_experts == kind.is_of_experts && own.decays == kind.decays;
}

/// The settings that all parameters of a kind have; nullopt: there are none of it.
std::optional<Settings> settings_of(const ParameterKind& kind, const OptimizerToWrite& optimizer) {
    auto own =
        collect_list<Parameter>(optimizer.parameters, std::identity(),
                                [&](const Parameter& one) { return is_in_group(one, kind); });
    if (own.empty()) {
        return std::nullopt;
    }
    std::string why;
    const auto groups = groups_with(optimizer, own, why);
    if (!groups) {
        refuse_groups(why);
    }
    for (const ParameterGroup& group : *groups) {
        // Those that do not decay have none anyway.
        const std::string fault =
            difference(groups->front().settings, group.settings, kind.decays ? "" : "weight_decay");
        if (!fault.empty()) {
            refuse_groups("Megatron has one group for " + groups->front().parameters.front() +
                          " and " + group.parameters.front() + ", of which " + fault);
        }
    }
    return groups->front().settings;
}

/// As above, or those of the kind that comes closest.
Settings settings_like(const ParameterKind& kind, const OptimizerToWrite& optimizer) {
    for (const ParameterKind& like :
         {kind, kind.decays ? kMatrices : kBiases, kMatrices, kBiases}) {
        if (auto settings = settings_of(like, optimizer)) {
            return *settings;
        }
    }
    return optimizer.groups.empty() ? Settings() : settings_for_torch(optimizer.groups.front());
}

std::vector<ParameterGroup> megatron_groups(const OptimizerToWrite& optimizer, bool has_experts) {
    std::vector<ParameterGroup> groups = optimizer.groups;
    if (!are_of_megatron(groups)) {
        groups.clear();
        for (const ParameterKind& kind :
             {kMatrices, kBiases, ParameterKind{.is_of_experts = true}}) {
            if (has_experts || !kind.is_of_experts) {
                groups.push_back(megatron_group(settings_like(kind, optimizer), kind.decays,
                                                kind.is_of_experts));
            }
        }
        if (const auto biases = settings_of(kExpertBiases, optimizer); biases && has_experts) {
            groups.push_back(megatron_group(*biases, false, true));
        }
    }
    for (ParameterGroup& group : groups) {
        settle_for_fused_adam(optimizer.step, group.settings);
    }
    return groups;
}

/// One of Megatron's optimizers.
PlainValue optimizer_of(const std::vector<ParameterGroup>& groups) {
    std::vector<PlainValue> all = collect_list(
        groups, [&](const ParameterGroup& group) { return plain_dictionary(group.settings); });
    return dictionary({{"optimizer", dictionary({{"param_groups", list(std::move(all))}})},
                       {"param_state_sharding_type", text("fully_reshardable")}});
}

std::vector<std::string> names_of(const std::vector<Parameter>& parameters) {
    return collect_list<std::string>(parameters, &Parameter::name);
}

/// Whether the groups name each of these parameters once, and nothing else.
bool names_all(const std::vector<ParameterGroup>& groups,
               const std::vector<Parameter>& parameters) {
    std::multiset<std::string> named;
    for (const ParameterGroup& group : groups) {
        named.insert(group.parameters.begin(), group.parameters.end());
    }
    const std::vector<std::string> names = names_of(parameters);
    return named == std::multiset<std::string>(names.begin(), names.end());
}

/// The group of which most matrices are.
const ParameterGroup& main_group(const std::vector<ParameterGroup>& groups,
                                 const std::vector<Parameter>& parameters) {
    std::set<std::string> matrices = collect_set(
        parameters, &Parameter::name, [&](const Parameter& one) { return one.n_dims > 1; });
    return *std::ranges::max_element(groups, {}, [&](const ParameterGroup& group) {
        return std::ranges::count_if(
            group.parameters, [&](const std::string& name) { return matrices.contains(name); });
    });
}

std::vector<ParameterGroup> require_groups(const OptimizerToWrite& optimizer,
                                           const std::vector<Parameter>& parameters) {
    std::string why;
    auto groups = groups_with(optimizer, parameters, why);
    if (!groups) {
        refuse_groups(why);
    }
    for (ParameterGroup& group : *groups) {
        group.settings = settings_for_torch(group);
    }
    return std::move(*groups);
}

/// By name, in the save that was read.
std::map<std::string_view, std::size_t> groups_by_name(const OptimizerToWrite& optimizer) {
    std::map<std::string_view, std::size_t> found;
    for (const std::size_t group : indices(optimizer.groups)) {
        for (const std::string& name : optimizer.groups[group].parameters) {
            found.emplace(name, group);
        }
    }
    return found;
}

/// Finds the groups that a parameter may be in.
class GroupFinder {
  public:
    explicit GroupFinder(const OptimizerToWrite& optimizer)
        : groups_(optimizer.groups),
          is_of_megatron_(are_of_megatron(optimizer.groups)),
          by_name_(groups_by_name(optimizer)) {
        for (const Parameter& one : optimizer.parameters) {
            if (auto* const group = find_value(by_name_, one.name)) {
                by_kind_[key_of(one)].insert(*group);
            }
        }
    }

    [[nodiscard]] std::vector<std::size_t> find(const Parameter& parameter) {
        if (is_of_megatron_) {
            const ParameterKind kind = kind_of(parameter.name, parameter.n_dims);
            auto& known = by_rule_[{kind.is_of_experts, kind.is_decoupled, kind.decays}];
            known = known.empty() ? groups_of(kind, groups_) : known;
            return known;
        }
        for (const std::string& name : {parameter.source, parameter.name}) {
            if (auto* const group = find_value(by_name_, name)) {
                return {*group};
            }
        }
        if (auto* const alike = find_value(by_kind_, key_of(parameter))) {
            return {alike->begin(), alike->end()};
        }
        std::vector<std::size_t> all(groups_.size());
        std::iota(all.begin(), all.end(), 0U);
        return all;
    }

  private:
    static std::pair<bool, bool> key_of(const Parameter& one) {
        const ParameterKind kind = kind_of(one.name, one.n_dims);
        return {kind.is_of_experts, kind.decays};
    }

    const std::vector<ParameterGroup>& groups_;
    bool is_of_megatron_;
    std::map<std::array<bool, 3>, std::vector<std::size_t>> by_rule_;
    std::map<std::string_view, std::size_t> by_name_;
    std::map<std::pair<bool, bool>, std::set<std::size_t>> by_kind_;
};

}  // namespace

PlainValue plain_value(const std::string& json_text) {
    return plain(json::parse(json_text));
}

PlainValue plain_dictionary(const Settings& settings) {
    std::vector<PlainValue::Entry> entries;
    for (const auto& [name, json_text] : settings) {
        entries.push_back({name, plain_value(json_text)});
    }
    return dictionary(std::move(entries));
}

std::optional<std::vector<ParameterGroup>> groups_with(const OptimizerToWrite& optimizer,
                                                       const std::vector<Parameter>& parameters,
                                                       std::string& why) {
    std::vector<ParameterGroup> groups;
    for (const ParameterGroup& group : optimizer.groups) {
        groups.push_back({group.settings, {}});
    }
    if (groups.empty()) {
        groups.emplace_back();
    }
    GroupFinder finder(optimizer);
    for (const Parameter& parameter : parameters) {
        const std::vector<std::size_t> found =
            optimizer.groups.empty() ? std::vector<std::size_t>{0} : finder.find(parameter);
        for (const std::size_t other : found) {
            const std::string fault = other == found.front()
                                          ? ""
                                          : difference(settings_for_torch(groups[found.front()]),
                                                       settings_for_torch(groups[other]));
            if (!fault.empty()) {
                why = "the save does not tell whether " + parameter.name +
                      " is in the optimizer's group " + std::to_string(found.front()) + " or " +
                      std::to_string(other) + ", of which " + fault;
                return std::nullopt;
            }
        }
        groups[found.front()].parameters.push_back(parameter.name);
    }
    if (std::ranges::any_of(groups, [](const auto& one) { return !one.parameters.empty(); })) {
        std::erase_if(groups, [](const auto& one) { return one.parameters.empty(); });
    }
    return groups;
}

PlainValue megatron_optimizer(const OptimizerToWrite& optimizer, bool has_experts) {
    std::vector<ParameterGroup> dense = megatron_groups(optimizer, has_experts);
    const auto of_experts =
        std::stable_partition(dense.begin(), dense.end(),
                              [](const ParameterGroup& group) { return !is_of_experts(group); });
    const std::vector<ParameterGroup> experts(of_experts, dense.end());
    dense.erase(of_experts, dense.end());
    if (experts.empty() || dense.empty()) {
        return optimizer_of(dense.empty() ? experts : dense);
    }
    PlainValue all;
    all.kind = PlainKind::numbered;
    all.items = {optimizer_of(dense), optimizer_of(experts)};
    return all;
}

PlainValue megatron_scheduler(const OptimizerToWrite& optimizer) {
    if (optimizer.scheduler.contains("num_steps")) {
        return plain_dictionary(optimizer.scheduler);
    }
    const Settings settings = settings_like(kMatrices, optimizer);
    const std::string decay = setting(settings, "weight_decay", "0.0");
    const char* const constant = R"("constant")";
    return plain_dictionary({{"max_lr", peak_rate(settings)},
                             {"min_lr", "0.0"},
                             {"num_steps", "0"},
                             {"lr_warmup_steps", "0"},
                             {"lr_decay_steps", "1"},
                             {"lr_decay_style", constant},
                             {"start_wd", decay},
                             {"end_wd", decay},
                             {"wd_incr_steps", "1"},
                             {"wd_incr_style", constant}});
}

std::string lost_in_megatron(const OptimizerToWrite& optimizer) {
    if (are_of_megatron(optimizer.groups)) {
        return "";
    }
    auto vectors = collect_list<Parameter>(
        optimizer.parameters, std::identity(),
        [](const Parameter& one) { return !kind_of(one.name, one.n_dims).decays; });
    std::vector<std::string> names;
    for (const ParameterGroup& group : require_groups(optimizer, vectors)) {
        if (json::parse(setting(group.settings, "weight_decay", "0")) != 0) {
            append_all(names, group.parameters);
        }
    }
    return names.empty() ? ""
                         : "Megatron's groups do not let vectors and biases decay: the "
                           "weight_decay of " +
                               counted(names.size(), "parameter") + " becomes 0: " + some_of(names);
}

std::vector<ParameterGroup> torch_groups(const OptimizerToWrite& optimizer,
                                         const std::vector<Parameter>& parameters) {
    if (are_of_megatron(optimizer.groups) || !names_all(optimizer.groups, parameters)) {
        return require_groups(optimizer, parameters);
    }
    std::vector<ParameterGroup> groups;
    for (const ParameterGroup& group : optimizer.groups) {
        groups.push_back({settings_for_torch(group), group.parameters});
    }
    return groups;
}

std::vector<ParameterGroup> numbered_groups(const OptimizerToWrite& optimizer,
                                            std::vector<Parameter> parameters) {
    if (!are_of_megatron(optimizer.groups) && names_all(optimizer.groups, parameters)) {
        return torch_groups(optimizer, parameters);
    }
    const ModuleOrder order(optimizer.family);
    if (!order.is_known()) {
        throw Error(ErrorCode::unsupported,
                    "an optimizer's file has numbers for parameters, and the order in which a " +
                        optimizer.family + " model registers them is not known",
                    "write --to dcp:world=N, which has their names, or the weights alone with "
                    "--state weights");
    }
    std::ranges::stable_sort(parameters, order, &Parameter::name);
    const auto groups = require_groups(optimizer, parameters);
    return {{main_group(groups, parameters).settings, names_of(parameters)}};
}

std::string lost_in_one_group(const OptimizerToWrite& optimizer,
                              const std::vector<Parameter>& parameters) {
    if (!are_of_megatron(optimizer.groups) && names_all(optimizer.groups, parameters)) {
        return "";
    }
    const auto groups = require_groups(optimizer, parameters);
    const ParameterGroup& main = main_group(groups, parameters);
    std::string lost;
    for (const ParameterGroup& group : groups) {
        const std::string fault = difference(main.settings, group.settings);
        if (!fault.empty()) {
            lost += (lost.empty() ? "" : "; ") + counted(group.parameters.size(), "parameter") +
                    " of another group get its settings, though " + fault + ": " +
                    some_of(group.parameters);
        }
    }
    return lost.empty() ? "" : "verl has one group of parameters: " + lost;
}

PlainValue numbered_list(const std::vector<ParameterGroup>& groups) {
    std::vector<PlainValue> all;
    Index number = 0;
    for (const ParameterGroup& group : groups) {
        auto members = collect_list(group.parameters,
                                    [&](const std::string& /*name*/) { return integer(number++); });
        all.push_back(plain_dictionary(group.settings));
        all.back().entries.push_back({"params", list(std::move(members))});
    }
    return list(std::move(all));
}

PlainValue torch_scheduler(const OptimizerToWrite& optimizer) {
    const bool is_of_torch = optimizer.scheduler.contains("last_epoch");
    return is_of_torch ? plain_dictionary(optimizer.scheduler) : PlainValue();
}

}  // namespace shardweld::reshape
