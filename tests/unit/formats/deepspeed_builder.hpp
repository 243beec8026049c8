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

struct Parameter {
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
    std::vector<std::vector<Parameter>> groups;
    std::string prefix = "bf16_";
    Fields more_states;           ///< of model states
    std::int64_t counted = 0;     ///< partition_count; 0: ranks
    std::int64_t said_stage = 0;  ///< zero_stage; 0: stage
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

inline std::vector<float> values_of(const Parameter& parameter) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < parameter.numel(); ++i) {
        values.push_back(first_of(parameter.name) + static_cast<float>(i));
    }
    return values;
}

inline std::string two_digits(std::int64_t number) {
    return (number < 10 ? "0" : "") + std::to_string(number);
}

inline std::string shapes_of(const std::vector<Parameter>& parameters) {
    Fields shapes;
    for (const Parameter& parameter : parameters) {
        shapes.emplace_back(parameter.name, counts(parameter.shape));
    }
    return dict(shapes);
}

/// A file of model states with an empty module.
inline std::string model_states(const Save& save, const Fields& more = {}) {
    std::vector<std::string> groups;
    for (const auto& group : save.groups) {
        groups.push_back(shapes_of(group));
    }
    Fields fields = {{"module", dict({})},
                     {"buffer_names", list({})},
                     {"param_shapes", list(groups)},
                     {"global_steps", integer(3)},
                     {"dp_world_size", integer(save.ranks)}};
    for (const Fields* const fields_too : {&save.more_states, &more}) {
        fields.insert(fields.end(), fields_too->begin(), fields_too->end());
    }
    return torch_file(dict(fields), {});
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
        for (const Parameter& parameter : group) {
            of_group.push_back(parameter.gap);
        }
        gaps.push_back(list_of(of_group));
    }
    const std::int64_t counted = save.counted == 0 ? save.ranks : save.counted;
    const bool is_split = save.stage == 3;
    Fields state = {
        {"zero_stage", call("deepspeed.runtime.zero.config ZeroStageEnum",
                            {integer(save.said_stage == 0 ? save.stage : save.said_stage)})},
        {"partition_count",
         is_split ? integer(counted) : list_of(Counts(save.groups.size(), counted))},
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

/// Stage 1 and 2: each group flat, padded to a multiple of twice the ranks, cut into equal parts.
inline void write_partitions(const formats::Scratch& scratch, const Save& save,
                             std::int64_t mp = 0) {
    const auto n_ranks = static_cast<std::size_t>(save.ranks);
    std::vector<std::vector<std::vector<float>>> parts(n_ranks);
    Counts paddings;
    for (const auto& group : save.groups) {
        std::vector<float> flat;
        for (const Parameter& parameter : group) {
            const auto values = values_of(parameter);
            flat.insert(flat.end(), values.begin(), values.end());
            flat.insert(flat.end(), static_cast<std::size_t>(parameter.gap), 0.0F);
        }
        const std::size_t unit = 2 * n_ranks;
        const std::size_t length = (flat.size() + unit - 1) / unit * unit;
        paddings.push_back(static_cast<std::int64_t>(length - flat.size()));
        flat.resize(length, save.padding);
        const std::size_t part = length / n_ranks;
        for (std::size_t rank = 0; rank < n_ranks; ++rank) {
            const auto begin = flat.begin() + static_cast<std::ptrdiff_t>(rank * part);
            parts[rank].emplace_back(begin, begin + static_cast<std::ptrdiff_t>(part));
        }
    }
    for (std::size_t rank = 0; rank < n_ranks; ++rank) {
        const bool is_last = rank + 1 == n_ranks;
        scratch.file(
            optimizer_name(save, static_cast<std::int64_t>(rank), mp),
            optimizer_states(save, parts[rank], is_last ? paddings : Counts(paddings.size(), 0)));
    }
}

/// Stage 3: an equal part of every parameter on every rank, in a sub-group for each two of them.
inline void write_parts(const formats::Scratch& scratch, const Save& save) {
    for (std::int64_t rank = 0; rank < save.ranks; ++rank) {
        std::vector<std::vector<float>> flat;
        std::size_t n_parameters = 0;
        for (const auto& group : save.groups) {
            for (const Parameter& parameter : group) {
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
