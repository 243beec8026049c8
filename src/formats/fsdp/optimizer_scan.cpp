#include "optimizer_scan.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/in_context.hpp"
#include "core/process/stop_point.hpp"
#include "core/text.hpp"
#include "formats/shared/adam.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/optimizer_claims.hpp"
#include "formats/shared/settings.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "dtensor.hpp"
#include "entries.hpp"

namespace shardweld::formats::fsdp {

namespace {

constexpr Index kFlatVersion = 1;

[[noreturn]] void refuse_flat() {
    throw Error(ErrorCode::unsupported,
                "the optimizer's states are FSDP1's flat shards, of which nothing here says whose "
                "elements they are",
                "save with FSDP2, or " + std::string(kWeightsOnly));
}

void require_file(const Location& location, const std::string& file) {
    if (io::is_file(location.directory / file)) {
        return;
    }
    const Listing listing = try_list_directory(location.directory);
    auto* const other = find_where(listing.files, [](const std::string& name) {
        return name.starts_with("optim_world_size_");
    });
    const bool has_other = other != nullptr;
    const std::string end = file.substr(0, file.find("_rank_") + 1);
    throw Error(has_other && !other->starts_with(end) ? ErrorCode::mismatch : ErrorCode::not_found,
                "the optimizer's file " + file + " is missing" +
                    (has_other ? "; there is " + printable(*other) : ""),
                "copy the optimizer's files of all ranks, all of one save, or " +
                    std::string(kWeightsOnly));
}

/// A parameter as the model's file has it.
struct ModelParameter {
    std::string name;
    std::vector<Index> shape;  ///< of the whole
};

/// Where a tensor's elements lie: equal places are one parameter under two names.
using Place = std::pair<Bytes, Index>;

std::optional<Place> place_of(const TorchFile& file, const PickleValue& value) {
    const auto subclass = subclass_of(value);
    const PickleValue* const local =
        subclass ? subclass->state->find_attribute("_local_tensor") : &value;
    const auto stored = local == nullptr ? std::nullopt : file.tensor(*local);
    return stored ? std::optional(Place{stored->storage_offset, stored->element_offset})
                  : std::nullopt;
}

/// DTensors, where there are some: buffers are plain tensors then.
std::vector<ModelParameter> parameters_in(const TorchFile& file) {
    const PickleValue& root = file.root();
    std::vector<ModelParameter> sharded;
    std::vector<ModelParameter> plain;
    std::set<std::pair<Place, std::vector<Index>>> seen;
    for (const auto& [key, value] : root.pairs()) {
        const auto subclass = subclass_of(value);
        const auto place = place_of(file, value);
        if (!place) {
            continue;
        }
        ModelParameter one{std::string(key.text()),
                           subclass ? subclass->shape : file.tensor(value)->shape};
        if (seen.emplace(*place, one.shape).second) {
            (subclass ? sharded : plain).push_back(std::move(one));
        }
    }
    return sharded.empty() ? plain : sharded;
}

/// A number of the optimizer's, and the shape of its states; nullopt where it has none.
struct Member {
    std::string key;
    std::optional<std::vector<Index>> shape;
};

/// The parameters, but for a head behind them that is written of an embedding of its shape: it is
/// tied to that where the optimizer has one parameter fewer.
std::vector<ModelParameter> without_tied_head(std::vector<ModelParameter> all,
                                              const std::vector<std::vector<Member>>& groups) {
    const std::size_t count = add_up(groups, [](const auto& group) { return group.size(); });
    const bool is_one_more = count + 1 == all.size() && all.back().name.ends_with("lm_head.weight");
    const bool is_tied =
        is_one_more &&
        std::ranges::any_of(all.begin(), all.end() - 1, [&](const ModelParameter& one) {
            return one.shape == all.back().shape && has_part(one.name, "embed");
        });
    if (is_tied) {
        all.pop_back();
    }
    return all;
}

/// Gives numbers their parameters: each group has its own in the model's order, and shapes tell
/// which group's is the next. There may be a group for each parameter.
class NumberMatcher {
  public:
    NumberMatcher(const std::vector<std::vector<Member>>& groups,
                  const std::vector<ModelParameter>& all)
        : groups_(groups), next_(groups.size(), 0) {
        std::size_t count = 0;
        for (const std::size_t group : indices(groups)) {
            count += groups[group].size();
            offer(group);
        }
        if (count != all.size()) {
            throw Error(ErrorCode::unsupported,
                        "the optimizer has " + counted(count, "parameter") + ", the model " +
                            std::to_string(all.size()) +
                            ": the save does not tell which have states",
                        kWeightsOnly);
        }
    }

    /// The number of the next parameter, and the group that it is in.
    std::pair<std::string, std::size_t> next_number(const ModelParameter& parameter) {
        std::set<std::size_t>& of_shape = offered_[parameter.shape];
        const std::size_t n_fitting = of_shape.size() + stateless_.size();
        if (n_fitting == 0) {
            refuse(parameter);
        }
        std::set<std::size_t>& fitting = of_shape.empty() ? stateless_ : of_shape;
        const std::size_t found = *fitting.begin();
        if (n_fitting > 1) {
            const std::size_t other =
                fitting.size() > 1 ? *std::next(fitting.begin()) : *stateless_.begin();
            throw Error(
                ErrorCode::unsupported,
                "the optimizer does not name its parameters, and " + printable(parameter.name) +
                    " may be in group " + std::to_string(std::min(found, other)) + " or " +
                    std::to_string(std::max(found, other)) + ": both have one of its shape next",
                kWeightsOnly);
        }
        fitting.erase(found);
        const std::string& key = groups_[found][next_[found]++].key;
        offer(found);
        return {key, found};
    }

  private:
    /// The next parameter of the group, if there is one left.
    void offer(std::size_t group) {
        if (next_[group] < groups_[group].size()) {
            const auto& shape = groups_[group][next_[group]].shape;
            (shape ? offered_[*shape] : stateless_).insert(group);
        }
    }

    [[noreturn]] void refuse(const ModelParameter& parameter) const {
        std::vector<std::string> found;
        for (const auto& [shape, groups] : offered_) {
            for (const std::size_t group : groups) {
                found.push_back("number " + groups_[group][next_[group]].key + " has " +
                                shape_text(shape));
            }
        }
        throw Error(ErrorCode::mismatch,
                    "the optimizer's states are not those of the model: " +
                        printable(parameter.name) + " has shape " + shape_text(parameter.shape) +
                        ", and of the next states " + listed(found),
                    "copy the optimizer's files from the save of the model's, or " +
                        std::string(kWeightsOnly));
    }

    const std::vector<std::vector<Member>>& groups_;
    std::vector<std::size_t> next_;
    std::map<std::vector<Index>, std::set<std::size_t>> offered_;  ///< groups by their next shape
    std::set<std::size_t> stateless_;  ///< those whose next has no states: of any shape
};

const PickleValue& mapping_in(const PickleValue& root, const char* key, bool is_list) {
    const PickleValue* const found = root.find(key);
    if (found == nullptr || (is_list ? !found->is_list() : !found->is_mapping())) {
        throw Error(ErrorCode::corrupt,
                    std::string("is no state dict of an optimizer: it has no ") + key,
                    "copy it again, or " + std::string(kWeightsOnly));
    }
    return *found;
}

/// Collects one file.
class OptimizerScan {
  public:
    OptimizerScan(const Location& location, const RankFile& rank, const TorchFile& file,
                  const io::InputFile& input, Catalogue& out)
        : location_(location), rank_(rank), file_(file), scalars_(file, input), out_(out) {
        const PickleValue& state = mapping_in(file.root(), "state", false);
        for (const auto& [key, value] : state.pairs()) {
            states_[member_text(key)] = &value;
        }
    }

    void add(const std::vector<ModelParameter>& parameters) {
        const PickleValue& groups = mapping_in(file_.root(), "param_groups", true);
        out_.optimizer.groups = groups_of(&groups, scalars_);
        out_.optimizer.is_ordered = true;
        const Members numbers = members_in(groups);
        require_members(mapping_in(file_.root(), "state", false), numbers);
        add_steps(numbers);
        const auto members = shaped(numbers);
        const std::vector<ModelParameter> trained = without_tied_head(parameters, members);
        NumberMatcher matching(members, trained);
        for (const ModelParameter& parameter : trained) {
            stop_point();
            const auto [number, group] = matching.next_number(parameter);
            out_.optimizer.groups.at(group).parameters.push_back(parameter.name);
            in_context("tensor ", parameter.name, [&, at = number] { note_states(parameter, at); });
        }
        for (const auto& [state, entries] : entries_) {
            read(state, entries);
        }
        require_both_moments(out_.optimizer);
    }

  private:
    /// Requires a step of each parameter that has states, its own or its group's.
    void add_steps(const Members& members) {
        StepClaims steps;
        steps.add(out_.optimizer.groups, "the optimizer's groups");
        for (const std::size_t group : indices(members)) {
            const bool has_group_one = out_.optimizer.groups[group].settings.contains("step");
            for (const std::string& number : members[group]) {
                stop_point();
                const auto state = states_.find(number);
                if (state == states_.end() || state->second->pair_count() == 0) {
                    continue;
                }
                const std::string place = "the state of number " + printable(number);
                const bool has_one =
                    steps.add(state->second->find("step"), scalars_, place) || has_group_one;
                require_step(place, has_one || location_.state != TakenState::all);
            }
        }
        out_.optimizer.step = steps.step();
    }

    [[nodiscard]] std::vector<std::vector<Member>> shaped(const Members& numbers) const {
        std::vector<std::vector<Member>> all;
        for (const auto& group : numbers) {
            auto& members = all.emplace_back();
            for (const std::string& number : group) {
                members.push_back({number, shape_of(number)});
            }
        }
        return all;
    }

    [[nodiscard]] std::optional<std::vector<Index>> shape_of(const std::string& number) const {
        auto* const state = find_value(states_, number);
        const PickleValue* const moment =
            state == nullptr || !(*state)->is_mapping() ? nullptr : (*state)->find(kMoment);
        if (moment == nullptr) {
            return std::nullopt;
        }
        const auto subclass = subclass_of(*moment);
        const auto tensor = subclass ? std::nullopt : file_.tensor(*moment);
        return subclass ? std::optional(subclass->shape)
               : tensor ? std::optional(tensor->shape)
                        : std::nullopt;
    }

    void note_states(const ModelParameter& parameter, const std::string& number) {
        auto* const state = find_value(states_, number);
        if (location_.state != TakenState::all || state == nullptr) {
            return;
        }
        const PickleValue& kept = **state;
        if (!kept.is_mapping()) {
            refuse_state("the states of " + printable(parameter.name), kept);
        }
        for (const auto& [name, value] : kept.pairs()) {
            const std::string_view key = name.text();
            if (key == "step" || (value.kind == PickleKind::none && !is_moment(key))) {
                continue;
            }
            const std::string_view known = adam_state(key, parameter.name);
            if (!subclass_of(value) && !file_.tensor(value)) {
                refuse_state(std::string(known) + " of " + printable(parameter.name), value);
            }
            entries_[known].emplace_back(parameter.name, &value);
        }
    }

    void read(std::string_view state, const Entries& entries) {
        Catalogue part;
        in_context("state ", std::string(state),
                   [&] { read_entries(file_, rank_, location_.mesh, entries, part); });
        State& kept = state_called(state, out_.optimizer);
        kept.tensors = std::move(part.tensors);
        kept.shards = std::move(part.shards);
    }

    const Location& location_;
    const RankFile& rank_;
    const TorchFile& file_;
    ScalarReader scalars_;
    Catalogue& out_;
    std::map<std::string, const PickleValue*> states_;  // by number
    std::map<std::string_view, Entries> entries_;       // by state
};

/// The learning rate's scheduler, which all ranks have alike.
void add_scheduler(const Location& location, const RankFile& rank, Catalogue& out) {
    use_torch_file(location, file_beside(file_name(rank), "extra_state"),
                   [&](const PickleValue& root, const ScalarReader& scalars) {
                       if (const auto* const found = root.find("lr_scheduler")) {
                           out.optimizer.scheduler = settings_of(*found, scalars);
                       }
                   });
}

}  // namespace

Catalogue scan_optimizer(const Location& location, const RankFile& rank, const TorchFile& model) {
    const std::string file = file_beside(file_name(rank), "optim");
    if (location.state == TakenState::master && !io::is_file(location.directory / file)) {
        return {};
    }
    require_file(location, file);
    auto* const version = find_value(location.facts, "fsdp_version");
    if (version != nullptr && *version == kFlatVersion) {
        refuse_flat();
    }
    const std::vector<ModelParameter> parameters = parameters_in(model);
    const auto input = io::InputFile::open(location.directory / file);
    Catalogue out =
        scan_torch_file(input, location, file, [&](const TorchFile& torch_file, Catalogue& scan) {
            OptimizerScan(location, rank, torch_file, input, scan).add(parameters);
        });
    add_scheduler(location, rank, out);
    return out;
}

}  // namespace shardweld::formats::fsdp
