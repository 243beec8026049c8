// Checkpoints as DeepSpeed lays them out, with elements that say where they belong.
// Knows how ZeRO flattens and divides; written from DeepSpeed's stage_1_and_2.py and stage3.py, not
// from the reader.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "fsdp_builder.hpp"
#include "scratch.hpp"

namespace shardweld::test::deepspeed {

using fsdp::Counts;
using fsdp::dict;
using fsdp::Fields;
using fsdp::list;
using fsdp::list_of;
using fsdp::local_tensor;

struct FlatParameter {
    std::string name;
    Counts shape;
    std::int64_t gap = 0;  ///< elements behind it (param_alignment_paddings)

    [[nodiscard]] std::int64_t numel() const {
        std::int64_t volume = 1;
        for (const std::int64_t extent : shape) {
            volume *= extent;
        }
        return volume;
    }
};

struct Save {
    int stage = 2;
    std::int64_t ranks = 2;
    std::vector<std::vector<FlatParameter>> groups;
    std::string prefix = "bf16_";
    Fields more_states;                                ///< of model states
    std::map<std::string, std::vector<float>> module;  ///< weights by parameter, in fp32
    std::int64_t counted = 0;                          ///< partition_count; 0: ranks
    std::int64_t said_stage = 0;                       ///< zero_stage; 0: stage
    std::map<std::size_t, std::int64_t> expert_ranks;  ///< by group: how many have other experts
    bool data_first = false;                           ///< neighbours have the same experts
    bool is_cut = false;  ///< stage 1 and 2: padding is not saved; BF16_Optimizer saves it
    float padding = 0;
    float frozen_tail = -7;  ///< what fills parts of ZeRO-3 that are longer than the parameter
};

/// The first element's value; the others count on.
inline float first_of(const std::string& name) {
    return 10000.0F * static_cast<float>(std::stoi(name.substr(name.find_first_of("0123456789"))));
}

inline std::string bytes_of(const std::vector<float>& values) {
    std::string bytes(values.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

inline std::vector<float> values_of(const FlatParameter& parameter) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < parameter.numel(); ++i) {
        values.push_back(first_of(parameter.name) + static_cast<float>(i));
    }
    return values;
}

inline std::string two_digits(std::int64_t number) {
    return (number < 10 ? "0" : "") + std::to_string(number);
}

inline std::string shapes_of(const std::vector<FlatParameter>& parameters) {
    Fields shapes;
    for (const FlatParameter& parameter : parameters) {
        shapes.emplace_back(parameter.name, counts(parameter.shape));
    }
    return dict(shapes);
}

/// A file of model states, whose module has those of the parameters whose weights are given.
inline std::string model_states(const Save& save, const Fields& more = {}) {
    std::vector<std::string> groups;
    Fields module;
    std::map<std::string, std::string> records;
    for (const auto& group : save.groups) {
        groups.push_back(shapes_of(group));
        for (const FlatParameter& parameter : group) {
            if (const auto at = save.module.find(parameter.name); at != save.module.end()) {
                module.emplace_back(at->first, local_tensor(at->first, parameter.shape));
                records[at->first] = bytes_of(at->second);
            }
        }
    }
    Fields fields = {{"module", dict(module)},
                     {"buffer_names", list({})},
                     {"param_shapes", list(groups)},
                     {"global_steps", integer(3)},
                     {"dp_world_size", integer(save.ranks)}};
    for (const Fields* const fields_too : {&save.more_states, &more}) {
        fields.insert(fields.end(), fields_too->begin(), fields_too->end());
    }
    return torch_file(dict(fields), records);
}

/// One rank's optimizer file.
inline std::string optimizer_states(const Save& save, const std::vector<std::vector<float>>& flat,
                                    const Counts& paddings) {
    std::map<std::string, std::string> records;
    std::vector<std::string> tensors;
    std::vector<std::string> gaps;
    for (std::size_t group = 0; group < flat.size(); ++group) {
        const std::string key = std::to_string(group);
        records[key] = bytes_of(flat[group]);
        tensors.push_back(local_tensor(key, {static_cast<std::int64_t>(flat[group].size())}));
    }
    for (const auto& group : save.groups) {
        Counts of_group;
        for (const FlatParameter& parameter : group) {
            of_group.push_back(parameter.gap);
        }
        gaps.push_back(list_of(of_group));
    }
    const std::int64_t counted = save.counted == 0 ? save.ranks : save.counted;
    const bool is_split = save.stage == 3;
    Counts divisions(save.groups.size(), counted);
    for (const auto& [group, n_expert] : save.expert_ranks) {
        divisions[group] = counted / n_expert;
    }
    Fields state = {
        {"zero_stage", call("deepspeed.runtime.zero.config ZeroStageEnum",
                            {integer(save.said_stage == 0 ? save.stage : save.said_stage)})},
        {"partition_count", is_split ? integer(counted) : list_of(divisions)},
        {is_split ? "fp32_flat_groups" : "single_partition_of_fp32_groups", list(tensors)}};
    if (!is_split) {
        state.emplace_back("group_paddings", list_of(paddings));
        state.emplace_back("param_alignment_paddings", list(gaps));
    }
    return torch_file(dict({{"optimizer_state_dict", dict(state)}}), records);
}

inline std::string optimizer_name(const Save& save, std::int64_t dp, std::int64_t mp = 0) {
    return save.prefix + "zero_pp_rank_" + std::to_string(dp) + "_mp_rank_" + two_digits(mp) +
           "_optim_states.pt";
}

/// Parameters of a group as the expert-parallel rank `expert` has them, which calls them as all do:
/// "experts.deepspeed_experts.0.w" of two is number 2 on rank 1.
inline std::vector<FlatParameter> on_expert_rank(std::vector<FlatParameter> group,
                                                 std::int64_t expert) {
    const std::string before = "deepspeed_experts.";
    for (FlatParameter& parameter : group) {
        if (const auto at = parameter.name.find(before); at != std::string::npos) {
            const auto number = static_cast<std::int64_t>(group.size()) * expert;
            parameter.name = parameter.name.substr(0, at + before.size()) +
                             std::to_string(number + parameter.name[at + before.size()] - '0') +
                             parameter.name.substr(at + before.size() + 1);
        }
    }
    return group;
}

/// A group flat and padded to a multiple of twice the ranks, in equal parts.
inline std::vector<std::vector<float>> parts_of(const std::vector<FlatParameter>& group,
                                                std::size_t n_ranks, float padding) {
    std::vector<float> flat;
    for (const FlatParameter& parameter : group) {
        const auto values = values_of(parameter);
        flat.insert(flat.end(), values.begin(), values.end());
        flat.insert(flat.end(), static_cast<std::size_t>(parameter.gap), 0.0F);
    }
    const std::size_t unit = 2 * n_ranks;
    flat.resize((flat.size() + unit - 1) / unit * unit, padding);
    const auto part = static_cast<std::ptrdiff_t>(flat.size() / n_ranks);
    std::vector<std::vector<float>> parts;
    for (auto begin = flat.begin(); begin != flat.end(); begin += part) {
        parts.emplace_back(begin, begin + part);
    }
    return parts;
}

inline std::int64_t padding_of(const std::vector<FlatParameter>& group, std::int64_t n_ranks) {
    std::int64_t used = 0;
    for (const FlatParameter& parameter : group) {
        used += parameter.numel() + parameter.gap;
    }
    return (2 * n_ranks - used % (2 * n_ranks)) % (2 * n_ranks);
}

/// Stage 1 and 2: each group divided among all ranks, or among those that have the same experts.
inline void write_partitions(const formats::Scratch& scratch, const Save& save,
                             std::int64_t mp = 0) {
    for (std::int64_t rank = 0; rank < save.ranks; ++rank) {
        std::vector<std::vector<float>> flat;
        Counts paddings;
        for (std::size_t group = 0; group < save.groups.size(); ++group) {
            const auto at = save.expert_ranks.find(group);
            const std::int64_t n_expert = at == save.expert_ranks.end() ? 1 : at->second;
            const std::int64_t n_copies = save.ranks / n_expert;
            const std::int64_t expert = save.data_first ? rank / n_copies : rank % n_expert;
            const std::int64_t part = save.data_first ? rank % n_copies : rank / n_expert;
            const auto own = on_expert_rank(save.groups[group], expert);
            flat.push_back(parts_of(own, static_cast<std::size_t>(n_copies),
                                    save.padding)[static_cast<std::size_t>(part)]);
            paddings.push_back(part + 1 == n_copies ? padding_of(own, n_copies) : 0);
            if (save.is_cut) {
                flat.back().resize(flat.back().size() - static_cast<std::size_t>(paddings.back()));
            }
        }
        scratch.file(optimizer_name(save, rank, mp), optimizer_states(save, flat, paddings));
    }
}

/// Stage 3: an equal part of every parameter on every rank, in a sub-group for each two of them.
inline void write_parts(const formats::Scratch& scratch, const Save& save) {
    for (std::int64_t rank = 0; rank < save.ranks; ++rank) {
        std::vector<std::vector<float>> flat;
        std::size_t n_parameters = 0;
        for (const auto& group : save.groups) {
            for (const FlatParameter& parameter : group) {
                if (n_parameters++ % 2 == 0) {
                    flat.emplace_back();
                }
                const auto values = values_of(parameter);
                const std::int64_t part = (parameter.numel() + save.ranks - 1) / save.ranks;
                for (std::int64_t i = rank * part; i < (rank + 1) * part; ++i) {
                    flat.back().push_back(i < parameter.numel()
                                              ? values[static_cast<std::size_t>(i)]
                                              : save.frozen_tail);
                }
            }
        }
        scratch.file(optimizer_name(save, rank), optimizer_states(save, flat, {}));
        scratch.file("zero_pp_rank_" + std::to_string(rank) + "_mp_rank_00_model_states.pt",
                     model_states(save));
    }
}

inline void write(const formats::Scratch& scratch, const Save& save) {
    if (save.stage == 3) {
        write_parts(scratch, save);
    } else {
        scratch.file("mp_rank_00_model_states.pt", model_states(save));
        write_partitions(scratch, save);
    }
}

}  // namespace shardweld::test::deepspeed
