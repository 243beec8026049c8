// The moments in an optimizer's file of ZeRO: flat tensors that are divided as the fp32 weights
// are, group by group, and its settings.
// Sources: DeepSpeed 0.19.8 deepspeed/runtime/zero/stage_1_and_2.py (state_dict,
// _get_base_optimizer_state), zero/stage3.py (_rigid_state_dict).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "catalogue/catalogue.hpp"
#include "formats/format.hpp"

#include "pickled.hpp"

namespace shardweld::formats::deepspeed {

/// A flat tensor of floats as a shard of the file's rank. Error(corrupt), calling it `name`, where
/// it is none.
catalogue::Shard flat_shard(const ScannedFile& in, const PickleValue& value,
                            const std::string& name);

/// The bytes of `count` elements of a flat shard from number `begin` on. Error(io).
std::vector<std::byte> elements_of(const ScannedFile& in, const catalogue::Shard& shard,
                                   Index begin, Index count);

/// Adds the states that are asked for, as shards beside those of the fp32 weights, which the scan
/// has already, groups and step. `state`: the file's optimizer_state_dict. Error(unsupported) for
/// states of other optimizers than Adam; Error as by StepClaims; Error(corrupt) for states that are
/// not as long as the weights, and for numbers that name no flat group or one twice.
void add_optimizer(const PickleValue& state, TakenState taken, const ScannedFile& in);

}  // namespace shardweld::formats::deepspeed
