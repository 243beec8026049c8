#include "universal_groups.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/optimizer_claims.hpp"
#include "formats/shared/settings.hpp"
#include "shardweld/error.hpp"

#include "pickled.hpp"

namespace shardweld::formats::deepspeed {

namespace {

constexpr const char* kSettingsFile = "zero/optimizer_state.pt";

/// Names the members of groups, whose numbers are those of flat groups, as DeepSpeed's tool leaves
/// them, or of parameters. Shapes are listed by flat groups, or by groups. Where they are
/// listed in another way and there are several groups, nothing of a pipeline's first stage, else
/// Error(corrupt).
void name_by_numbers(const FileContent& content, const Members& numbers,
                     std::vector<ParameterGroup>& groups) {
    std::vector<std::size_t> sizes;
    std::map<std::string, std::size_t> group_of;  // of a number
    for (const std::size_t group : indices(numbers)) {
        sizes.push_back(numbers[group].size());
        for (const std::string& number : numbers[group]) {
            group_of.emplace(number, group);
        }
    }
    const bool is_by_group = sizes == content.group_sizes;
    if (!is_by_group && group_of.size() != content.group_sizes.size() && groups.size() > 1) {
        if (content.n_model_ranks.value_or(1) > 1) {
            return;
        }
        refuse_said("the optimizer's groups have " + counted(group_of.size(), "number") +
                    ", its model states " + counted(content.parameters.size(), "parameter") +
                    " in " + counted(content.group_sizes.size(), "group"));
    }
    std::size_t next = 0;
    for (const std::size_t list : indices(content.group_sizes)) {
        auto* const flat = find_value(group_of, std::to_string(list));
        const std::size_t group = is_by_group          ? list
                                  : groups.size() == 1 ? 0
                                  : flat != nullptr    ? *flat
                                                       : groups.size();
        for (std::size_t i = 0; i < content.group_sizes[list]; ++i, ++next) {
            if (group < groups.size() && next < content.parameters.size()) {
                groups[group].parameters.push_back(content.parameters[next].name);
            }
        }
    }
}

/// What the file says at its top or in the base optimizer's; ZeRO-3's has the step of flat groups,
/// too.
void add_settings(const PickleValue& root, const ScalarReader& scalars, FileScan& scan) {
    GroupClaims all_groups;
    StepClaims steps;
    Members members;
    const auto add = [&](const PickleValue& place, const std::string& name) {
        const PickleValue* const list = present(place, "param_groups");
        auto groups = groups_of(list, scalars);
        steps.add(groups, name);
        if (!groups.empty()) {
            members = members_in(*list);
            for (const std::size_t i : indices(groups)) {
                groups[i].parameters = members[i];
            }
            all_groups.add("", std::move(groups), name);
        }
        if (const PickleValue* const states = present(place, "state")) {
            for (const auto& [key, one] : states->pairs()) {
                steps.add(one.find("step"), scalars, "the states in " + name);
            }
        }
    };
    add(root, "the top");
    for (const char* const key : {"base_optimizer_state", "optimizer_state_dict"}) {
        if (const PickleValue* const base = present(root, key)) {
            add(*base, key);
        }
    }
    Optimizer& out = scan.told.optimizer;
    all_groups.finish(out);
    out.step = steps.step();
    for (ParameterGroup& group : out.groups) {
        group.parameters.clear();
    }
    name_by_numbers(scan.own, members, out.groups);
}

}  // namespace

void add_universal_groups(const Location& location, FileScan& scan) {
    use_torch_file(location, kSettingsFile,
                   [&](const PickleValue& root, const ScalarReader& scalars) {
                       add_settings(root, scalars, scan);
                   });
}

}  // namespace shardweld::formats::deepspeed
