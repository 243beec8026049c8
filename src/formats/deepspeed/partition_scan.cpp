#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/containers/torch_storage.hpp"
#include "formats/format.hpp"
#include "formats/shared/adam.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/optimizer_claims.hpp"
#include "formats/shared/settings.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

#include "pickled.hpp"
#include "scan.hpp"

namespace shardweld::formats::deepspeed {

namespace {

[[noreturn]] void refuse_damaged(const std::string& what) {
    throw Error(ErrorCode::corrupt, what, "copy it again, or " + std::string(kWeightsOnly));
}

/// The states of each flat group: under "state" by its number, or in old files a list.
std::map<Index, const PickleValue*> states_by_group(const PickleValue& base) {
    std::map<Index, const PickleValue*> found;
    if (base.is_list()) {
        for (const PickleValue* const group : base.elements()) {
            found.emplace(std::ssize(found), group);
        }
        return found;
    }
    const PickleValue* const states = present(base, "state");
    if (states != nullptr) {
        for (const auto& [number, group] : states->pairs()) {
            const std::string key = member_text(number);  // a text, too: "0"
            const auto at = parse_index(key);
            if (!at) {
                refuse_damaged("holds states of " + printable(key) + ", which is no flat group");
            }
            if (!found.emplace(*at, &group).second) {
                refuse_damaged("holds states of flat group " + key + " twice");
            }
        }
    }
    return found;
}

/// A flat tensor of floats as a shard of the file's rank. Error(corrupt), calling it `name`, where
/// it is none.
Shard flat_shard(const ScannedFile& in, const PickleValue& value, const std::string& name) {
    const auto stored = in.file.tensor(value);
    if (!stored || stored->shape.size() != 1 || !stored->is_contiguous() ||
        !is_float(stored->dtype)) {
        throw Error(ErrorCode::corrupt, "its " + name + " is no flat tensor of floats");
    }
    Shard shard;
    shard.name = name;
    shard.dtype = stored->dtype;
    shard.shape = stored->shape;
    shard.at.fsdp = to_int(in.name.dp, "a rank");
    shard.at.tp = to_int(in.name.mp, "a rank");
    shard.piece = piece_of(*stored);
    return shard;
}

/// The bytes of `count` elements of a flat shard from number `begin` on. Error(io).
std::vector<std::byte> elements_of(const ScannedFile& in, const Shard& shard, Index begin,
                                   Index count) {
    const Bytes element = size_of(shard.dtype);
    std::vector<std::byte> bytes(to_size(to_bytes(count, "elements") * element, "elements"));
    const auto at = to_bytes(shard.piece.patch.offset + begin, "elements") * element;
    in.input.read_at(shard.piece.base + at, bytes);
    return bytes;
}

/// Collects one file's.
class MomentScan {
  public:
    MomentScan(TakenState taken, const ScannedFile& in) : taken_(taken), in_(in) {}

    void add(const PickleValue& base) {
        Optimizer& out = in_.out.optimizer;
        const PickleValue* const groups = present(base, "param_groups");
        out.groups = groups_of(groups, in_.scalars);
        steps_.add(out.groups, "the optimizer's groups");
        if (!out.groups.empty()) {
            note_members(members_in(*groups));
        }
        auto states = states_by_group(base);
        for (const std::size_t group : indices(in_.out.shards)) {
            const auto state = states.extract(to_index(group, "a group"));
            if (state.empty() || !state.mapped()->is_mapping()) {
                refuse_damaged("holds no states of flat group " + std::to_string(group));
            }
            add_group(group, *state.mapped());
        }
        if (!states.empty()) {
            refuse_damaged("holds states of flat group " + std::to_string(states.begin()->first) +
                           ", of which it has no weights");
        }
        for (const State& state : out.states) {
            require_all_groups(state, in_.out.shards.size());
        }
        out.step = steps_.step();
        require_both_moments(out);
    }

  private:
    /// torch numbers flat groups over the groups of settings.
    void note_members(const Members& members) {
        for (const std::size_t group : indices(members)) {
            for (const std::string& number : members[group]) {
                const auto flat = parse_index(number);
                if (flat && *flat < to_index(in_.content.groups.size(), "groups")) {
                    in_.content.groups[static_cast<std::size_t>(*flat)].settings =
                        to_index(group, "a group");
                }
            }
        }
        for (const std::size_t flat : indices(in_.out.shards)) {
            if (!in_.content.groups[flat].settings) {
                refuse_damaged("has flat group " + std::to_string(flat) +
                               " in none of its groups of settings");
            }
        }
    }

    void add_group(std::size_t group, const PickleValue& state) {
        for (const auto& [name, value] : state.pairs()) {
            const std::string_view key = name.text();
            const bool is_kept = value.kind != PickleKind::none || is_moment(key);
            if (key != "step" && is_kept && taken_ == TakenState::all) {
                add_state(group, adam_state(key, "flat group " + std::to_string(group)), value);
            }
        }
        const std::string place = "the state of flat group " + std::to_string(group);
        const auto settings = in_.content.groups[group].settings;
        const auto& groups = in_.out.optimizer.groups;
        const bool has_group_one =
            settings && groups[static_cast<std::size_t>(*settings)].settings.contains("step");
        require_step(place, steps_.add(state.find("step"), in_.scalars, place) || has_group_one ||
                                taken_ != TakenState::all);
    }

    void add_state(std::size_t group, std::string_view state, const PickleValue& value) {
        const std::string name = std::string(state) + " of flat group " + std::to_string(group);
        Shard shard = flat_shard(in_, value, name);
        const Index count = in_.out.shards[group].shape.front();
        if (!is_padding(shard, count, in_.content.groups[group].n_ranks.value_or(1))) {
            refuse_damaged(name + " has " + std::to_string(shard.shape.front()) +
                           " elements, its fp32 weights " + std::to_string(count));
        }
        shard.shape.front() = count;
        shard.piece.patch.axes[0].extent = count;
        State& kept = state_called(state, in_.out.optimizer);
        require_all_groups(kept, group);
        kept.shards.push_back(std::move(shard));
    }

    /// Error(corrupt) where a state is not there for each of the first `n_groups` groups.
    static void require_all_groups(const State& state, std::size_t n_groups) {
        if (state.shards.size() != n_groups) {
            refuse_damaged("holds " + state.name + " of some flat groups only");
        }
    }

    /// Whether the group's padding and nothing else is behind the first `count` elements: ZeRO-1
    /// and 2 save the fp32 weights without it, and the moments with it unless elastic_checkpoint
    /// is set. Source: DeepSpeed 0.19.8 zero/stage_1_and_2.py (state_dict).
    [[nodiscard]] bool is_padding(const Shard& moments, Index count, Index n_ranks) const {
        const Index more = moments.shape.front() - count;
        return more >= 0 && more <= most_padding(n_ranks) &&
               std::ranges::all_of(elements_of(in_, moments, count, more),
                                   [](std::byte one) { return one == std::byte{0}; });
    }

    TakenState taken_;
    const ScannedFile& in_;
    StepClaims steps_;
};

/// Adds the states that are asked for, as shards beside those of the fp32 weights, which the scan
/// has already, groups and step. `state`: the file's optimizer_state_dict. Error(unsupported) for
/// states of other optimizers than Adam; Error as by StepClaims; Error(corrupt) for states that are
/// not as long as the weights, and for numbers that name no flat group or one twice.
void add_optimizer(const PickleValue& state, TakenState taken, const ScannedFile& in) {
    const PickleValue* base = present(state, "base_optimizer_state");
    base = base != nullptr ? base : present(state, "optimizer_state_dict");
    if (base == nullptr) {
        if (taken == TakenState::all) {
            throw Error(ErrorCode::not_found,
                        "holds no moments (base_optimizer_state or optimizer_state_dict)",
                        "give a save with its optimizer, or take the fp32 weights alone with "
                        "--state master");
        }
        return;
    }
    MomentScan(taken, in).add(*base);
}

constexpr const char* kPartitions = "single_partition_of_fp32_groups";
constexpr const char* kFlatGroups = "fp32_flat_groups";
constexpr Index kPartitionedWeights = 3;

// Collects one file.
class PartitionScan {
  public:
    PartitionScan(const ScannedFile& in, TakenState taken) : in_(in), taken_(taken) {}

    void add(const PickleValue& root) {
        const PickleValue* const state = present(root, "optimizer_state_dict");
        const PickleValue* const partitions = state ? present(*state, kPartitions) : nullptr;
        const PickleValue* const groups = state ? present(*state, kFlatGroups) : nullptr;
        if (partitions == nullptr && groups == nullptr) {
            throw Error(ErrorCode::unsupported,
                        std::string("holds no flat fp32 weights (") + kPartitions + " or " +
                            kFlatGroups + ")",
                        "take the model's own weights with --weights model");
        }
        add_stage(*state, groups != nullptr);
        add_flat(groups != nullptr ? *groups : *partitions);
        add_counts(*state);
        if (groups == nullptr) {
            add_gaps(*state);
            add_ends();
        }
        add_step(*state);
        if (taken_ != TakenState::weights) {
            add_optimizer(*state, taken_, in_);
        }
        Bytes flat = 0;
        catalogue::each_shard(in_.out,
                              [&](const Shard& shard) { flat += catalogue::stored_bytes(shard); });
        const Bytes all = in_.file.storage_bytes();
        in_.out.ignored.push_back({"*", "optimizer state", 1, all > flat ? all - flat : 0});
    }

  private:
    void add_stage(const PickleValue& state, bool is_partitioned) {
        const auto stage = stated_integer(present(state, "zero_stage"), in_.scalars, "zero_stage");
        if (!stage) {
            return;
        }
        if ((*stage == kPartitionedWeights) != is_partitioned) {
            throw Error(ErrorCode::mismatch,
                        "says that it is of ZeRO stage " + std::to_string(*stage) + " but holds " +
                            (is_partitioned ? kFlatGroups : kPartitions) + ", which is stage " +
                            (is_partitioned ? "3's" : "1's and 2's"),
                        "copy it again from where it was saved");
        }
        in_.content.stage = stage;
    }

    void add_flat(const PickleValue& groups) {
        std::size_t number = 0;
        for (const PickleValue* const group : groups.elements()) {
            in_.out.shards.push_back(
                flat_shard(in_, *group, "flat group " + std::to_string(number++)));
        }
        in_.content.groups.resize(number);
    }

    // A list over groups; one number for all in ZeRO-3.
    void add_counts(const PickleValue& state) {
        const PickleValue* const counts = present(state, "partition_count");
        if (counts == nullptr) {
            return;
        }
        const auto of_groups = counts->is_list() ? counts->elements() : std::span(&counts, 1);
        for (std::size_t group = 0; group < std::min(of_groups.size(), in_.out.shards.size());
             ++group) {
            in_.content.groups[group].n_ranks =
                stated_integer(of_groups[group], in_.scalars, "partition_count");
        }
    }

    void add_gaps(const PickleValue& state) {
        const auto lists = elements_in(state, "param_alignment_paddings");
        for (std::size_t group = 0; group < std::min(lists.size(), in_.out.shards.size());
             ++group) {
            const auto gaps = lists[group]->elements();
            for (const std::size_t i : indices(gaps)) {
                if (const Index gap = read_count(*gaps[i], "an alignment padding"); gap > 0) {
                    in_.content.groups[group].gaps[i] = gap;
                }
            }
        }
    }

    // What follows the parameters is padding, which is zero and stays so in training. Where they
    // end is not known here.
    void add_ends() {
        for (const std::size_t group : indices(in_.out.shards)) {
            const Shard& shard = in_.out.shards[group];
            const Index ranks = in_.content.groups[group].n_ranks.value_or(1);
            const Index length = shard.shape.front();
            const Index padding = std::min(length, most_padding(ranks));
            in_.content.groups[group].end = end_of(shard, length - padding, padding);
        }
    }

    // One past the last of these elements that is not zero, or `begin`.
    Index end_of(const Shard& shard, Index begin, Index count) {
        const Bytes element = size_of(shard.dtype);
        std::vector<std::byte> bytes = elements_of(in_, shard, begin, count);
        while (!bytes.empty() && bytes.back() == std::byte{0}) {
            bytes.pop_back();
        }
        return begin + to_index((bytes.size() + element - 1) / element, "padding");
    }

    /// How often the optimizer has stepped: files of one save agree on it.
    void add_step(const PickleValue& state) {
        for (const char* const name : {"base_optimizer_state", "optimizer_state_dict"}) {
            if (const PickleValue* const base = present(state, name)) {
                if (const std::string step = step_of(*base); !step.empty()) {
                    in_.out.statements.push_back(
                        {in_.out.files.front().path, "its optimizer", {}, {}, true});
                    in_.out.statements.back().save["optimizer steps"] = step;
                }
            }
        }
    }

    // torch's and DeepSpeed's optimizers have it in the state of a parameter, as a number or a
    // tensor, or in that of a group.
    std::string step_of(const PickleValue& base) {
        std::vector<const PickleValue*> places;
        if (base.kind == PickleKind::list && !base.elements().empty()) {
            places.push_back(base.elements().front());
        }
        if (const PickleValue* const states = present(base, "state");
            states != nullptr && states->pair_count() > 0) {
            places.push_back(&states->value(0));
        }
        if (const auto groups = elements_in(base, "param_groups"); !groups.empty()) {
            places.push_back(groups.front());
        }
        for (const PickleValue* const place : places) {
            const PickleValue* const step = present(*place, "step");
            if (const auto number = step == nullptr ? std::nullopt : in_.scalars.text_of(*step)) {
                return *number;
            }
        }
        return "";
    }

    const ScannedFile& in_;
    TakenState taken_;
};

}  // namespace

FileScan scan_partition(const Location& location, const std::string& file, const FileName& name) {
    return scan_named(location, file, name, [&](const ScannedFile& opened) {
        PartitionScan(opened, location.state).add(opened.file.root());
    });
}

namespace {

FileAssertion::Values claims_of(const FileName& said) {
    FileAssertion::Values claims = {{"data rank", std::to_string(said.dp)},
                                    {"model rank", std::to_string(said.mp)}};
    switch (said.kind) {
        case ZeroFile::layer:
            claims["layer"] = std::to_string(said.number);
            break;
        case ZeroFile::expert:
            claims["layer"] = std::to_string(said.layer);
            claims["expert"] = std::to_string(said.number);
            break;
        case ZeroFile::model:
        case ZeroFile::model_part:
            claims["content"] = "model states";
            break;
        default:
            claims["content"] = "optimizer states";
    }
    return claims;
}

}  // namespace

FileScan scan_named(const Location& location, const std::string& file, const FileName& name,
                    const std::function<void(const ScannedFile&)>& add) {
    const auto input = io::InputFile::open(location.directory / file);
    FileScan scan;
    const auto add_file = [&](const TorchFile& torch_file, Catalogue& out) {
        if (!torch_file.root().is_mapping()) {
            throw Error(ErrorCode::corrupt,
                        "holds no dictionary but " + describe(torch_file.root()));
        }
        add({torch_file, input, name, ScalarReader(torch_file, input), scan.own, out});
        out.statements.push_back({file, "its name", claims_of(name), {}, false});
        if (const auto inner = parse_file_name(torch_file.archive_name() + ".pt")) {
            out.statements.push_back(
                {file, "the name of the archive in it", claims_of(*inner), {}, true});
        }
    };
    scan.told = scan_torch_file(input, location, file, add_file);
    return scan;
}

}  // namespace shardweld::formats::deepspeed
