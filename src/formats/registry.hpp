// Every format: the one place that knows them all.
#pragma once

#include "format.hpp"

/// The folder of each and the name of its declaration there, in the order in which they are tried:
/// where one directory fits several, the more particular format comes first.
#define SHARDWELD_FORMATS(FORMAT)                 \
    FORMAT(megatron, zarr_format)                 \
    FORMAT(megatron, torch_dist_format)           \
    FORMAT(megatron, legacy_format)               \
    FORMAT(deepspeed, universal_format)           \
    FORMAT(deepspeed, zero_format)                \
    FORMAT(fsdp, fsdp_format)                     \
    FORMAT(fsdp, accelerate_format)               \
    FORMAT(bytecheckpoint, bytecheckpoint_format) \
    FORMAT(dcp, dcp_format)                       \
    FORMAT(dcp, hf_shards_format)                 \
    FORMAT(torch_checkpointing, saved_format)     \
    FORMAT(colossalai, sharded_format)            \
    FORMAT(colossalai, single_format)             \
    FORMAT(hf, hf_format)                         \
    FORMAT(hf, adapter_format)                    \
    FORMAT(hdf5, hdf5_format)

#define SHARDWELD_DECLARE(folder, format)  \
    namespace shardweld::formats::folder { \
    extern const Format format;            \
    }
SHARDWELD_FORMATS(SHARDWELD_DECLARE)
#undef SHARDWELD_DECLARE
