"""Options of the commands as Python has them, made from the program's help (scripts/docs_pages.py)."""

from __future__ import annotations

from os import PathLike
from typing import Any, Literal, Sequence, TypedDict, Union

Path = Union[str, bytes, "PathLike[Any]"]
Dtype = Literal["bf16", "fp16", "fp32"]
Encoding = Literal[
    "fp8-block", "fp8-block-ue8m0", "fp8-channel", "fp8-block-ct", "w8a16", "w8a16-g64", "w8a16-g32", "w8a16-channel", "w4a16", "w4a16-g64",
    "w4a16-g32", "w4a16-channel", "nvfp4a16", "mxfp4", "gptoss-mxfp4", "gguf:q8_0", "gguf:q5_1", "gguf:q5_0", "gguf:q4_1", "gguf:q4_0",
    "gguf:f16", "gguf:bf16", "gguf:f32"]
Target = Literal["transformers", "vllm", "sglang", "tgi", "llama.cpp"]


class MergeOptions(TypedDict, total=False):
    """Options of `merge`, beside its parameters."""

    backend: Literal["auto", "megatron", "deepspeed", "fsdp", "bytecheckpoint", "dcp", "torch_checkpointing", "colossalai", "hf", "peft", "hdf5"]
    iteration: int
    role: Literal["actor", "critic"]
    recipe: Path
    mesh_dim_names: str | Sequence[Any]
    mesh_shape: str | Sequence[Any]
    prefix: str
    weights: Literal["master", "model"]
    state: Literal["weights", "master", "all"]
    check_crc: bool | Literal["before", "during", "off"]
    average: bool
    average_weights: str | Sequence[Any]
    average_decay: float
    task_arithmetic: Path
    scale: str | Sequence[Any]
    like_only_weights: Literal["yes", "no"]
    if_complete: Literal["error", "verify", "skip"]
    quantize_ignore: str
    verl: bool
    max_shard_size: int | str
    no_card: bool
    output_format: Literal["safetensors", "hdf5"]
    sha256: bool
    paranoid: bool
    tie_word_embedding: bool
    is_value_model: bool
    vocab_size: int
    names: Literal["hub", "module"]
    include: str
    exclude: str
    lora: Literal["split", "fold", "drop"]
    lora_alpha: float
    base: Path
    supplement: Path
    resume: bool
    restart: bool
    stop_before: float | str
    stop_at: float | str
    stall_timeout: float | str
    strict: bool
    max_open: int
    no_fsync: bool
    direct_io: bool
    stripe: str
    strategy: Literal["auto", "collective", "direct"]
    replicas: Literal["auto", "verify", "trust"]
    memory_limit: int | str
    read_ahead: Literal["auto", "yes", "no"]
    bw_limit: int | str
    max_readers: int
    message_limit: int | str


class PlanOptions(MergeOptions, total=False):
    """Options of `plan`, beside its parameters."""

    target_dir: Path
    to: str
    like: Path
    overwrite: bool
    report: Path
    rate: int | str


class InspectOptions(TypedDict, total=False):
    """Options of `inspect`, beside its parameters."""

    backend: Literal["auto", "megatron", "deepspeed", "fsdp", "bytecheckpoint", "dcp", "torch_checkpointing", "colossalai", "hf", "peft", "hdf5"]
    hf_config: Path
    iteration: int
    steps: bool
    role: Literal["actor", "critic"]
    mesh_dim_names: str | Sequence[Any]
    mesh_shape: str | Sequence[Any]
    prefix: str
    weights: Literal["master", "model"]
    check_crc: bool | Literal["before", "during", "off"]


class DiffOptions(TypedDict, total=False):
    """Options of `diff`, beside its parameters."""

    check_crc: bool | Literal["before", "during", "off"]
    base: Path
    atol: float
    rtol: float
    strict_dtype: bool
    bw_limit: int | str


class VerifyOptions(TypedDict, total=False):
    """Options of `verify`, beside its parameters."""

    sha256: bool
    bw_limit: int | str


class CheckOptions(TypedDict, total=False):
    """Options of `check`, beside its parameters."""

    tp: int
    pp: int


class WatchOptions(VerifyOptions, total=False):
    """Options of `watch`, beside its parameters."""

    backend: Literal["auto", "megatron", "deepspeed", "fsdp", "bytecheckpoint", "dcp", "torch_checkpointing", "colossalai", "hf", "peft", "hdf5"]
    hf_config: Path
    role: Literal["actor", "critic"]
    recipe: Path
    mesh_dim_names: str | Sequence[Any]
    mesh_shape: str | Sequence[Any]
    prefix: str
    weights: Literal["master", "model"]
    state: Literal["weights", "master", "all"]
    check_crc: bool | Literal["before", "during", "off"]
    to: str
    like: Path
    like_only_weights: Literal["yes", "no"]
    overwrite: bool
    dtype: Dtype
    quantize: Encoding
    quantize_ignore: str
    also: Path | Sequence[Path]
    max_shard_size: int | str
    no_card: bool
    output_format: Literal["safetensors", "hdf5"]
    paranoid: bool
    tie_word_embedding: bool
    is_value_model: bool
    vocab_size: int
    names: Literal["hub", "module"]
    include: str
    exclude: str
    lora: Literal["split", "fold", "drop"]
    lora_alpha: float
    base: Path
    supplement: Path
    hf_upload_path: str
    private: bool
    revision: str
    hf_cli: Path
    stop_before: float | str
    stop_at: float | str
    stall_timeout: float | str
    strict: bool
    max_open: int
    no_fsync: bool
    direct_io: bool
    stripe: str
    strategy: Literal["auto", "collective", "direct"]
    replicas: Literal["auto", "verify", "trust"]
    memory_limit: int | str
    read_ahead: Literal["auto", "yes", "no"]
    max_readers: int
    message_limit: int | str
    launch: str
    interval: float | str
    every: int
    from_: str
    keep: int
    idle_exit: float | str
    until: Path
    mount: bool
    then: str
    on_lost: Literal["error", "skip"]
    metrics: Path
    polite: Literal["yes", "no"]
    delta_against: Path
    delta_dir: Path


class DeltaOptions(TypedDict, total=False):
    """Options of `delta`, beside its parameters."""

    bw_limit: int | str


class UploadOptions(TypedDict, total=False):
    """Options of `upload`, beside its parameters."""

    private: bool
    revision: str
    hf_cli: Path


class RecipesOptions(TypedDict, total=False):
    """Options of `recipes`, beside its parameters."""

    config: Path
    recipe: Path
