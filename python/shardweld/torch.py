"""Weights of a checkpoint for models of PyTorch, without merging."""

from __future__ import annotations

import importlib.util
import re
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, TypeVar

import torch

from ._calls import StrPath
from ._errors import Mismatch
from ._open import SafeOpen, safe_open

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import Dtype, MergeOptions

__all__ = ["load_into"]

_Model = TypeVar("_Model", bound=torch.nn.Module)
_Device = Any  # torch.device, or what it is made of


def load_into(model: _Model, src: StrPath, *, device: _Device = "cpu", hf_config: StrPath | None = None, dtype: Dtype | None = None,
              **options: Unpack[MergeOptions]) -> _Model:
    """Gives `model`, also one on the meta device, the weights of the checkpoint `src`, and returns it.

    A model of transformers 5 gets what its `from_pretrained` makes of the merged model: the same fused
    experts, tied weights, buffers and dtype. Any other module must have the tensors' own names and shapes;
    its parameters take the checkpoint's dtype. Raises Mismatch, naming the tensors, and leaves the model as
    it was, when the checkpoint is another model's. Options are those of `safe_open`.
    """
    with safe_open(src, "pt", device, hf_config=hf_config, dtype=dtype, **options) as opened:
        if hasattr(model, "base_model_prefix") and _converts_weights():
            _take_from(_pretrained(model, opened, device), model)
        else:
            _fill(model, opened, device)
    return model


def _converts_weights() -> bool:
    """Whether transformers is there and may hold tensors in another form than its files do."""
    return (importlib.util.find_spec("transformers") is not None
            and importlib.util.find_spec("transformers.core_model_loading") is not None)


def _pretrained(model: Any, opened: SafeOpen, device: _Device) -> Any:
    """A second model of the same class and config, loaded by transformers itself, which reads slices as it does a file's."""
    stored = {name: opened.get_slice(name) for name in opened.offset_keys()}
    with torch.device(device):
        made, info = type(model).from_pretrained(None, config=model.config, state_dict=stored, dtype=_dtype_of(opened),
                                                 ignore_mismatched_sizes=True, output_loading_info=True)
    # transformers gives names, for other shapes in tuples with both of them.
    names = {kind: sorted(one if isinstance(one, str) else one[0] for one in info.get(kind, ()))
             for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")}
    missing, unknown = names["missing_keys"], names["unexpected_keys"]
    if missing == ["score.bias"]:  # of a value model's head; trainers save none
        torch.nn.init.zeros_(made.score.bias)
        missing = []
    _refuse(missing, [name for name in unknown if not _is_behind_layers(name, opened)], names["mismatched_keys"])
    return made


def _is_behind_layers(name: str, opened: SafeOpen) -> bool:
    """Whether it is a layer for the prediction of further tokens, which transformers' models do not have."""
    layer = re.search(r"\.layers\.(\d+)\.", name)
    return layer is not None and int(layer[1]) >= opened.config.get("num_hidden_layers", float("inf"))


def _dtype_of(opened: SafeOpen) -> torch.dtype:
    """The dtype in which `from_pretrained` opens the merged model: config.json's, else that of its first weight."""
    stated = opened.config.get("dtype") or opened.config.get("torch_dtype")
    found: torch.dtype = (getattr(torch, stated) if isinstance(stated, str)
                          else opened.get_slice(opened.offset_keys()[0])[:0].dtype)
    return found


def _take_from(made: torch.nn.Module, model: torch.nn.Module) -> None:
    """Moves parameters and buffers, tied ones as one."""
    modules, others = dict(made.named_modules()), dict(model.named_modules())
    strange = sorted(set(modules) ^ set(others))
    if strange:
        raise Mismatch(f"{strange[0]} is not in both the model and what its config describes",
                       hint="make the model from its config alone, and change it after loading")
    for path, module in others.items():
        module._parameters = modules[path]._parameters
        module._buffers = modules[path]._buffers


def _fill(model: torch.nn.Module, opened: SafeOpen, device: _Device) -> None:
    """Tensor by tensor, names and shapes being the module's own."""
    stored = {name: opened.get_slice(name).get_shape() for name in opened.offset_keys()}
    wanted = {name: list(one.shape) for name, one in _tensors_of(model)}
    _refuse(sorted(set(wanted) - set(stored) - _tied_names(model)), sorted(set(stored) - set(wanted)),
            sorted(name for name in set(wanted) & set(stored) if wanted[name] != stored[name]))
    for name in opened.offset_keys():
        _set(model, name, opened.get_tensor(name))
    tie: Any = getattr(model, "tie_weights", None)
    if tie is not None:
        tie()
    _compute_buffers(model, device)


def _refuse(missing: list[str], unknown: list[str], other: list[str]) -> None:
    faults = [f"{len(names)} {what}, such as {names[0]}" for what, names in
              (("tensors of the model are not in the checkpoint", missing),
               ("tensors of the checkpoint are not in the model", unknown),
               ("tensors have another shape", other)) if names]
    if faults:
        hint = "make the model from the config.json that belongs to the checkpoint"
        raise Mismatch("; ".join(faults), hint=hint + (", or leave tensors out with exclude=REGEX" if unknown else ""))


def _tensors_of(model: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """What a state dict holds, also where tensors are shared."""
    for prefix, module in model.named_modules(remove_duplicate=False):
        names = [*module._parameters, *(name for name in module._buffers if name not in module._non_persistent_buffers_set)]
        for name in names:
            value = module._parameters.get(name, module._buffers.get(name))
            if value is not None:
                yield (f"{prefix}.{name}" if prefix else name), value


def _tied_names(model: torch.nn.Module) -> set[str]:
    """Names that another tensor's value goes to (transformers says them by keys, as list or mapping)."""
    tied: Iterable[str] | Mapping[str, str] = getattr(model, "_tied_weights_keys", None) or ()
    is_tied = getattr(getattr(model, "config", None), "tie_word_embeddings", True)
    return set(tied) if is_tied else set()


def _set(model: torch.nn.Module, name: str, value: torch.Tensor) -> None:
    path, _, leaf = name.rpartition(".")
    module = model.get_submodule(path)
    if leaf in module._parameters:
        module._parameters[leaf] = torch.nn.Parameter(value, requires_grad=value.is_floating_point())
    else:
        module._buffers[leaf] = value


def _compute_buffers(model: torch.nn.Module, device: _Device) -> None:
    """Buffers that a checkpoint does not hold, such as rotary frequencies, as the module's constructor computes them."""
    for path, module in model.named_modules():
        left = [name for name, value in module._buffers.items() if value is not None and value.is_meta]
        if not left:
            continue
        config = getattr(module, "config", None)
        if config is None:
            raise Mismatch(f"the buffer {path}.{left[0]} is in no checkpoint and not computed from a config",
                           hint="make the model with its buffers: accelerate.init_empty_weights(include_buffers=False)")
        fresh: Any = type(module)(config)
        for name in left:
            module._buffers[name] = fresh._buffers[name].to(device)
