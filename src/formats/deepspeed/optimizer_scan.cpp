#include "optimizer_scan.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "formats/containers/torch_storage.hpp"
#include "formats/shared/adam.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/optimizer_claims.hpp"
#include "formats/shared/settings.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::deepspeed {

namespace {

[[noreturn]] void refuse_damaged(const std::string& what) {
    throw Error(ErrorCode::corrupt, what, "copy it again, or " + std::string(kWeightsOnly));
}

/// The states of each flat group: under "state" by its number, or in old files a list.
std::map<Index, const PickleValue*> states_by_group(const PickleValue& base) {
    std::map<Index, const PickleValue*> found;
    Index number = 0;
    if (base.is_list()) {
        for (const PickleValue* const group : base.elements()) {
            found[number++] = group;
        }
        return found;
    }
    const PickleValue* const states = present(base, "state");
    for (std::size_t i = 0; states != nullptr && i < states->pair_count(); ++i) {
        const std::string key = member_text(states->key(i));  // a text, too: "0"
        const auto at = parse_index(key);
        if (!at) {
            refuse_damaged("holds states of " + printable(key) + ", which is no flat group");
        }
        if (!found.emplace(*at, &states->value(i)).second) {
            refuse_damaged("holds states of flat group " + key + " twice");
        }
    }
    return found;
}

/// Collects one file's.
class MomentScan {
  public:
    MomentScan(TakenState taken, const ScannedFile& in) : taken_(taken), in_(in) {}

    void add(const PickleValue& base) {
        catalogue::Optimizer& out = in_.out.optimizer;
        const PickleValue* const groups =
            base.is_mapping() ? present(base, "param_groups") : nullptr;
        out.groups = groups_of(groups, in_.scalars);
        steps_.add(out.groups, "the optimizer's groups");
        if (!out.groups.empty()) {
            note_members(members_in(*groups));
        }
        auto states = states_by_group(base);
        for (std::size_t group = 0; group < in_.out.shards.size(); ++group) {
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
        for (const catalogue::State& state : out.states) {
            require_all_groups(state, in_.out.shards.size());
        }
        out.step = steps_.step();
        require_both_moments(out);
    }

  private:
    /// torch numbers flat groups over the groups of settings.
    void note_members(const Members& members) {
        for (std::size_t group = 0; group < members.size(); ++group) {
            for (const std::string& number : members[group]) {
                const auto flat = parse_index(number);
                if (flat && *flat < to_index(in_.content.groups.size(), "groups")) {
                    in_.content.groups[static_cast<std::size_t>(*flat)].settings =
                        to_index(group, "a group");
                }
            }
        }
        for (std::size_t flat = 0; flat < in_.out.shards.size(); ++flat) {
            if (!in_.content.groups[flat].settings) {
                refuse_damaged("has flat group " + std::to_string(flat) +
                               " in none of its groups of settings");
            }
        }
    }

    void add_group(std::size_t group, const PickleValue& state) {
        for (std::size_t i = 0; i < state.pair_count(); ++i) {
            const std::string_view key = state.key(i).text();
            const PickleValue& value = state.value(i);
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
        catalogue::Shard shard = flat_shard(in_, value, name);
        const Index count = in_.out.shards[group].shape.front();
        if (!is_padding(shard, count, in_.content.groups[group].n_ranks.value_or(1))) {
            refuse_damaged(name + " has " + std::to_string(shard.shape.front()) +
                           " elements, its fp32 weights " + std::to_string(count));
        }
        shard.shape.front() = count;
        shard.piece.patch.axes[0].extent = count;
        catalogue::State& kept = state_called(state, in_.out.optimizer);
        require_all_groups(kept, group);
        kept.shards.push_back(std::move(shard));
    }

    /// Of the first `n_groups`.
    static void require_all_groups(const catalogue::State& state, std::size_t n_groups) {
        if (state.shards.size() != n_groups) {
            refuse_damaged("holds " + state.name + " of some flat groups only");
        }
    }

    /// Whether the group's padding and nothing else is behind the first `count` elements: ZeRO-1
    /// and 2 save the fp32 weights without it, and the moments with it unless elastic_checkpoint
    /// is set. Source: DeepSpeed 0.19.8 zero/stage_1_and_2.py (state_dict).
    [[nodiscard]] bool is_padding(const catalogue::Shard& moments, Index count,
                                  Index n_ranks) const {
        const Index more = moments.shape.front() - count;
        return more >= 0 && more <= most_padding(n_ranks) &&
               std::ranges::all_of(elements_of(in_, moments, count, more),
                                   [](std::byte one) { return one == std::byte{0}; });
    }

    TakenState taken_;
    const ScannedFile& in_;
    StepClaims steps_;
};

}  // namespace

catalogue::Shard flat_shard(const ScannedFile& in, const PickleValue& value,
                            const std::string& name) {
    const auto stored = in.file.tensor(value);
    if (!stored || stored->shape.size() != 1 || !stored->is_contiguous() ||
        !is_float(stored->dtype)) {
        throw Error(ErrorCode::corrupt, "its " + name + " is no flat tensor of floats");
    }
    catalogue::Shard shard;
    shard.name = name;
    shard.dtype = stored->dtype;
    shard.shape = stored->shape;
    shard.at.fsdp = to_int(in.name.dp, "a rank");
    shard.at.tp = to_int(in.name.mp, "a rank");
    shard.piece = piece_of(*stored);
    return shard;
}

std::vector<std::byte> elements_of(const ScannedFile& in, const catalogue::Shard& shard,
                                   Index begin, Index count) {
    const Bytes element = size_of(shard.dtype);
    std::vector<std::byte> bytes(to_size(to_bytes(count, "elements") * element, "elements"));
    const auto at = to_bytes(shard.piece.patch.offset + begin, "elements") * element;
    in.input.read_at(shard.piece.base + at, bytes);
    return bytes;
}

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

}  // namespace shardweld::formats::deepspeed
