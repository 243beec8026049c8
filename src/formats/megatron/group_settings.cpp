#include "group_settings.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/in_context.hpp"
#include "core/text.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/scalar_value.hpp"
#include "formats/shared/settings.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::megatron {

namespace {

using catalogue::ParameterGroup;
using catalogue::Settings;

/// "lr is 0.1 in A but 0.2 in B", of the first setting that is not in both.
std::string difference(const Settings& a, const std::string& place_a, const Settings& b,
                       const std::string& place_b) {
    const auto text_in = [](const Settings& settings, const std::string& name) {
        const auto at = settings.find(name);
        return at == settings.end() ? std::string("absent") : at->second;
    };
    for (const Settings* const settings : {&a, &b}) {
        for (const auto& [name, text] : *settings) {
            if (text_in(a, name) != text_in(b, name)) {
                return printable(name) + " is " + text_in(a, name) + " in " + place_a + " but " +
                       text_in(b, name) + " in " + place_b;
            }
        }
    }
    return "";
}

void require_same(const std::vector<ParameterGroup>& a, const std::string& place_a,
                  const std::vector<ParameterGroup>& b, const std::string& place_b) {
    std::string fault;
    if (a.size() != b.size()) {
        fault = place_a + " has " + counted(a.size(), "group") + ", " + place_b + " has " +
                std::to_string(b.size());
    }
    for (std::size_t i = 0; fault.empty() && i < a.size(); ++i) {
        fault = difference(a[i].settings, place_a, b[i].settings, place_b);
    }
    if (!fault.empty()) {
        throw Error(ErrorCode::mismatch,
                    "the optimizer's parameter groups are not those of one run: " + fault,
                    kOneSaveOrWeights);
    }
}

}  // namespace

void GroupSettings::add(const std::string& optimizer, std::vector<ParameterGroup> groups,
                        const std::string& place) {
    const auto known = stated_.find(optimizer);
    if (known == stated_.end()) {
        stated_.emplace(optimizer, Stated{std::move(groups), place});
    } else {
        require_same(known->second.groups, known->second.place, groups, place);
    }
}

void GroupSettings::finish(catalogue::Optimizer& out) {
    for (auto& [optimizer, stated] : stated_) {
        std::ranges::move(stated.groups, std::back_inserter(out.groups));
    }
    if (const auto step = common_step(steps_of(out.groups))) {
        out.step = step;
    }
}

void add_group_settings(const Location& location, std::string_view name, const ObjectPlace& place,
                        GroupSettings& out) {
    const std::size_t group = name.find("dp_group_idx_");
    if (group == std::string_view::npos) {
        return;
    }
    if (name.ends_with(".param_state")) {
        throw Error(
            ErrorCode::unsupported,
            "the optimizer's state is kept as one object for each group of ranks (" +
                printable(name) + "), which is not read",
            kWeightsOnly + std::string(", or save once with --dist-ckpt-optim-fully-reshardable"));
    }
    const fs::path path = location.directory / place.file;
    if (!name.ends_with(".optimizer") || place.length == 0 || !io::is_file(path)) {
        return;
    }
    in_context(printable(name) + " in ", place.file, [&] {
        const auto input = io::InputFile::open(path);
        const TorchFile opened = TorchFile::read(input, place.offset, place.length);
        const PickleValue& root = only_element_of(opened.root());
        if (root.is_mapping()) {
            out.add(std::string(name.substr(0, group)),
                    groups_of(root.find("param_groups"), ScalarReader(opened, input)),
                    printable(name));
        }
    });
}

}  // namespace shardweld::formats::megatron
