// The states of an optimizer, which are divided as the fp32 weights are.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "formats/shared/assembler.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/optimizer_file.hpp"
#include "shardweld/error.hpp"

#include "file_names.hpp"
#include "scan.hpp"

namespace shardweld::formats::deepspeed {

namespace {

/// The scans with the shards of one state in the place of the fp32 weights', and nothing that was
/// said already.
std::vector<FileScan> of_state(const std::vector<FileScan>& scans, std::string_view name) {
    std::vector<FileScan> found;
    for (const FileScan& scan : scans) {
        FileScan one;
        one.own = scan.own;
        one.told.files = scan.told.files;
        const auto& states = scan.told.optimizer.states;
        auto* const state = find_item(states, name, &State::name);
        if (name == kMaster) {
            one.told.shards = scan.told.shards;
        } else if (state != nullptr) {
            one.told.shards = state->shards;
        } else if (!scan.told.shards.empty()) {
            throw Error(ErrorCode::not_found,
                        printable(scan.told.files.front().path) + " holds no " + std::string(name) +
                            " of the optimizer, as other files of the save do",
                        kOneSaveOrWeights);
        }
        found.push_back(std::move(one));
    }
    return found;
}

void join_state(const std::vector<FileScan>& scans, std::string_view name, IgnoredRows& ignored,
                Catalogue& out) {
    Catalogue part;
    try {
        join_files(of_state(scans, name), Weights::master, part);
    } catch (Error& error) {
        error.add_context("state " + std::string(name));
        if (error.code() == ErrorCode::not_found) {
            error.set_hint(std::string(kCopyAll) + ", or " + kWeightsOnly);
        }
        throw;
    }
    ignored.add(part.ignored);
    out.optimizer.states.push_back({std::string(name), std::move(part.tensors), {}, {}});
}

/// Names the members of each group of settings, but those that are `known`: the parameters of the
/// flat groups, of which `settings` tells the group. Nothing where the shapes are not listed by
/// flat groups and there are several groups.
void name_members(const FileContent& content, const std::vector<FlatGroup>& flat,
                  std::set<std::string>& known, Optimizer& optimizer) {
    const bool is_by_group = content.group_sizes.size() == flat.size();
    if (!is_by_group && optimizer.groups.size() != 1) {
        return;
    }
    std::size_t next = 0;
    for (const std::size_t group : indices(content.group_sizes)) {
        const auto settings = is_by_group ? flat[group].settings : std::optional<Index>(0);
        for (std::size_t i = 0; i < content.group_sizes[group]; ++i, ++next) {
            if (next < content.parameters.size() && settings &&
                known.insert(content.parameters[next].name).second) {
                optimizer.groups.at(static_cast<std::size_t>(*settings))
                    .parameters.push_back(content.parameters[next].name);
            }
        }
    }
}

/// The flat groups of a model-parallel rank, of which all partitions say the same.
std::map<Index, std::vector<FlatGroup>> flat_groups(const std::vector<FileScan>& scans) {
    std::map<Index, std::vector<FlatGroup>> all;
    for (const FileScan& scan : scans) {
        const std::string& path = scan.told.files.front().path;
        const FileName name = parse_file_name(path).value_or(FileName{});
        if (scan.told.optimizer.groups.empty()) {
            continue;
        }
        const auto [at, is_new] = all.try_emplace(name.mp, scan.own.groups);
        if (!std::ranges::equal(at->second, scan.own.groups, {}, &FlatGroup::settings,
                                &FlatGroup::settings)) {
            throw mixed_saves_error(printable(path) +
                                    " has flat groups in other groups of settings than the other "
                                    "files of its model-parallel rank");
        }
    }
    return all;
}

}  // namespace

void join_with_states(const std::vector<FileScan>& scans, Weights weights, Catalogue& out) {
    std::vector<ToldOptimizer> said;
    std::set<std::string> names;
    for (const FileScan& scan : scans) {
        out.facts.insert(scan.told.facts.begin(), scan.told.facts.end());
        said.push_back({scan.told.files.front().path, scan.told.optimizer});
        for (const State& state : std::exchange(said.back().optimizer.states, {})) {
            names.insert(state.name);
        }
    }
    std::vector<FileScan> copies = scans;
    for (FileScan& scan : copies) {
        scan.told.optimizer = {};
    }
    join_files(std::move(copies), weights, out);
    join_optimizers(formats::Shapes::stated, std::move(said), out);
    std::set<std::string> known;
    for (const ParameterGroup& group : out.optimizer.groups) {
        known.insert(group.parameters.begin(), group.parameters.end());
    }
    const auto flat = flat_groups(scans);
    for (const FileScan& scan : scans) {
        const FileName name = parse_file_name(scan.told.files.front().path).value_or(FileName{});
        if (auto* const of_rank = find_value(flat, name.mp)) {
            name_members(scan.own, *of_rank, known, out.optimizer);
        }
    }
    for (const FileScan& scan : scans) {
        add_given(scan.own.given, out.optimizer);
    }
    if (weights == Weights::model) {
        names.emplace(kMaster);
    }
    IgnoredRows ignored;
    ignored.add(out.ignored);
    for (const std::string& name : names) {
        join_state(scans, name, ignored, out);
    }
    out.ignored = ignored.rows();
}

}  // namespace shardweld::formats::deepspeed
