// Every format, by its function. The folder of its name holds the rest of it.
#pragma once

#include "format.hpp"

namespace shardweld::formats::bytecheckpoint {
/// "bytecheckpoint": model/.metadata and *.distcp whose items are bare elements.
const Format& bytecheckpoint_format();
}  // namespace shardweld::formats::bytecheckpoint

namespace shardweld::formats::colossalai {
/// "colossalai": sharded saves, with or without pipeline stages.
const Format& sharded_format();

/// "colossalai file": a save with shard=False, which looks like any model in one file.
const Format& single_format();
}  // namespace shardweld::formats::colossalai

namespace shardweld::formats::dcp {
/// "torch dcp": .distcp files described by `.metadata`, or by one `__{rank}.metadata` per rank.
const Format& dcp_format();

/// "torch dcp safetensors": the shards that the HuggingFace storage writer leaves, each of which
/// describes itself.
const Format& hf_shards_format();
}  // namespace shardweld::formats::dcp

namespace shardweld::formats::deepspeed {
const Format& zero_format();
const Format& universal_format();
}  // namespace shardweld::formats::deepspeed

namespace shardweld::formats::fsdp {
/// "verl fsdp".
const Format& fsdp_format();
/// "accelerate fsdp".
const Format& accelerate_format();
}  // namespace shardweld::formats::fsdp

namespace shardweld::formats::hdf5 {
const Format& hdf5_format();
}  // namespace shardweld::formats::hdf5

namespace shardweld::formats::hf {
/// "huggingface": config.json with safetensors or torch files, with or without an index.
const Format& hf_format();
/// "peft": read where a directory holds nothing that is merged otherwise.
const Format& adapter_format();
}  // namespace shardweld::formats::hf

namespace shardweld::formats::megatron {
const Format& legacy_format();
const Format& torch_dist_format();
const Format& zarr_format();
}  // namespace shardweld::formats::megatron
