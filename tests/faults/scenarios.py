"""The merges that meet faults. Checkpoints of tests/data, made by the real frameworks."""
from scenario import Scenario

_LEGACY = "megatron/llama-tp4-legacy-bf16"
_DIST = "megatron/qwen2-tp2-pp2-torchdist-bf16"
_FSDP = "torch/fsdp2_w4_bf16_qwen2_tied"
_DCP = "torch/dcp_w2_bf16_qwen2"
_FILES = ("--max_shard_size", "100KB")
_DIRECT = (*_FILES, "--strategy", "direct")
_HDF5 = (*_FILES, "--output_format", "hdf5")
_COLLECTIVE = (*_FILES, "--strategy", "collective", "--message_limit", "4096")

# (scenario, effort): see matrix.faults_of
QUICK = (
    (Scenario("legacy, one rank", _LEGACY, 1, _FILES), "quick"),
    (Scenario("FSDP over an older model, one rank", _FSDP, 1, _FILES, "old"), "quick"),
    (Scenario("torch_dist in the current directory, one rank", _DIST, 1, _FILES, "inside", (".distcp",)), "quick"),
    (Scenario("HDF5 from FSDP, one rank", _FSDP, 1, _HDF5), "quick"),
    (Scenario("torch_dist, 3 ranks, collective", _DIST, 3, _COLLECTIVE, "new", (".distcp",)), "few"),
    (Scenario("legacy over an older model, 2 ranks, direct", _LEGACY, 2, _DIRECT, "old"), "few"),
)
FULL = (
    (Scenario("legacy, one rank", _LEGACY, 1, _FILES), "more"),
    (Scenario("torch_dist, one rank", _DIST, 1, _FILES, "new", (".distcp",)), "more"),
    (Scenario("FSDP over an older model, one rank", _FSDP, 1, _FILES, "old"), "more"),
    (Scenario("DCP, no fsync, one rank", _DCP, 1, (*_FILES, "--no_fsync", "--backend", "dcp"), "new", (".distcp",)), "full"),
    (Scenario("legacy in the current directory, one rank", _LEGACY, 1, _FILES, "inside"), "more"),
    (Scenario("legacy over an older model, 3 ranks, direct", _LEGACY, 3, _DIRECT, "old"), "half"),
    (Scenario("torch_dist, 3 ranks, collective", _DIST, 3, _COLLECTIVE, "new", (".distcp",)), "half"),
    (Scenario("FSDP, 2 ranks, collective", _FSDP, 2, _COLLECTIVE), "half"),
    (Scenario("HDF5 from FSDP, one rank", _FSDP, 1, _HDF5), "more"),
    (Scenario("HDF5 from FSDP over an older model, 2 ranks", _FSDP, 2, _HDF5, "old"), "half"),
)
