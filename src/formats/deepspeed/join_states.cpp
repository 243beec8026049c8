// The states of an optimizer, which are divided as the fp32 weights are.
#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "formats/shared/adam.hpp"
#include "formats/shared/assembler.hpp"
#include "formats/shared/hints.hpp"
#include "shardweld/error.hpp"

#include "scan.hpp"

namespace shardweld::formats::deepspeed {

namespace {

using catalogue::Catalogue;
using catalogue::State;

/// The scans with the shards of one state in the place of the fp32 weights', and nothing that was
/// said already.
std::vector<FileScan> of_state(const std::vector<FileScan>& scans, std::string_view name) {
    std::vector<FileScan> found;
    for (const FileScan& scan : scans) {
        FileScan one;
        one.own = scan.own;
        one.told.files = scan.told.files;
        const auto& states = scan.told.optimizer.states;
        const auto state = std::ranges::find(states, name, &State::name);
        if (name == catalogue::kMaster) {
            one.told.shards = scan.told.shards;
        } else if (state != states.end()) {
            one.told.shards = state->shards;
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

/// Names the members of each group, but those that are `known`: the parameters of the flat groups.
void name_members(const FileContent& content, std::set<std::string>& known,
                  catalogue::Optimizer& optimizer) {
    std::size_t next = 0;
    for (std::size_t group = 0; group < content.group_sizes.size(); ++group) {
        for (std::size_t i = 0; i < content.group_sizes[group]; ++i, ++next) {
            if (next < content.parameters.size() && group < optimizer.groups.size() &&
                known.insert(content.parameters[next].name).second) {
                optimizer.groups[group].parameters.push_back(content.parameters[next].name);
            }
        }
    }
}

}  // namespace

void join_with_states(const std::vector<FileScan>& scans, Weights weights, Catalogue& out) {
    std::vector<catalogue::Optimizer> said;
    std::set<std::string> names;
    for (const FileScan& scan : scans) {
        said.push_back(scan.told.optimizer);
        for (const State& state : std::exchange(said.back().states, {})) {
            names.insert(state.name);
        }
    }
    std::vector<FileScan> copies = scans;
    for (FileScan& scan : copies) {
        scan.told.optimizer = {};
    }
    join_files(std::move(copies), weights, out);
    join_optimizers({}, formats::Shapes::stated, std::move(said), out);
    std::set<std::string> known;
    for (const FileScan& scan : scans) {
        name_members(scan.own, known, out.optimizer);
    }
    if (weights == Weights::model) {
        names.emplace(catalogue::kMaster);
    }
    IgnoredRows ignored;
    ignored.add(out.ignored);
    for (const std::string& name : names) {
        join_state(scans, name, ignored, out);
    }
    out.ignored = ignored.take();
}

}  // namespace shardweld::formats::deepspeed
