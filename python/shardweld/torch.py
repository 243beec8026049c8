"""Weights of a checkpoint for models of PyTorch, without merging."""

from __future__ import annotations

from typing import Any

import torch

from ._calls import StrPath
from ._errors import Mismatch
from ._open import safe_open

__all__ = ["load_into"]


def load_into(model: torch.nn.Module, src: StrPath, *, device: Any = "cpu", **options: Any) -> torch.nn.Module:
    """Gives `model`, also one on the meta device, the weights of the checkpoint `src`, and returns it.

    Parameters take the checkpoint's dtype; one tensor is in memory beside the model at a time. Buffers that
    a checkpoint does not hold, such as rotary frequencies, are computed anew as the module's constructor
    does. Raises Mismatch, naming the tensors, when names or shapes are not the model's. Options are those of
    `safe_open`.
    """
    wanted = {name: one for name, one in _tensors_of(model)}
    with safe_open(src, "pt", device, **options) as opened:
        stored = {name: opened.get_slice(name).get_shape() for name in opened.offset_keys()}
        _require_same(wanted, stored, _tied_names(model))
        for name in opened.offset_keys():
            _set(model, name, opened.get_tensor(name))
    if hasattr(model, "tie_weights"):
        model.tie_weights()
    _compute_buffers(model, device)
    return model


def _tensors_of(model: torch.nn.Module):
    """What a state dict holds, also where tensors are shared."""
    for prefix, module in model.named_modules(remove_duplicate=False):
        names = [*module._parameters, *(name for name in module._buffers if name not in module._non_persistent_buffers_set)]
        for name in names:
            value = module._parameters.get(name, module._buffers.get(name))
            if value is not None:
                yield (f"{prefix}.{name}" if prefix else name), value


def _tied_names(model: torch.nn.Module) -> set[str]:
    """Names that another tensor's value goes to (transformers says them by keys, as list or mapping)."""
    tied = getattr(model, "all_tied_weights_keys", None) or getattr(model, "_tied_weights_keys", None) or ()
    is_tied = getattr(getattr(model, "config", None), "tie_word_embeddings", True)
    return set(tied) if is_tied else set()


def _require_same(wanted: dict, stored: dict, tied: set[str]) -> None:
    missing = sorted(set(wanted) - set(stored) - tied)
    unknown = sorted(set(stored) - set(wanted))
    other = sorted(name for name in set(wanted) & set(stored) if list(wanted[name].shape) != stored[name])
    faults = [f"{len(names)} {what}, such as {names[0]}" for what, names in
              (("tensors of the model are not in the checkpoint", missing),
               ("tensors of the checkpoint are not in the model", unknown),
               ("tensors have another shape", other)) if names]
    if faults:
        raise Mismatch("; ".join(faults), hint="make the model from the config.json that belongs to the checkpoint")


def _set(model: torch.nn.Module, name: str, value: torch.Tensor) -> None:
    path, _, leaf = name.rpartition(".")
    module = model.get_submodule(path)
    if leaf in module._parameters:
        module._parameters[leaf] = torch.nn.Parameter(value, requires_grad=value.is_floating_point())
    else:
        module._buffers[leaf] = value


def _compute_buffers(model: torch.nn.Module, device: Any) -> None:
    for path, module in model.named_modules():
        left = [name for name, value in module._buffers.items() if value is not None and value.is_meta]
        if not left:
            continue
        config = getattr(module, "config", None)
        if config is None:
            raise Mismatch(f"the buffer {path}.{left[0]} is in no checkpoint and not computed from a config",
                           hint="make the model with its buffers: accelerate.init_empty_weights(include_buffers=False)")
        fresh = type(module)(config)
        for name in left:
            module._buffers[name] = fresh._buffers[name].to(device)
