"""The load format "shardweld" for vLLM: a model is served from a training checkpoint, without merging.

    vllm serve CONFIG_DIR --load-format shardweld --model-loader-extra-config '{"checkpoint": "DIR"}'

vLLM finds `register` by the entry point of the group `vllm.general_plugins`, in each of its processes. The
interface is that of vLLM 0.9 to 0.32 (vllm/model_executor/model_loader/base_loader.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ._errors import Mismatch
from ._open import safe_open


def register() -> None:
    """Makes the load format "shardweld" known in this process."""
    from vllm.model_executor.model_loader import register_model_loader
    from vllm.model_executor.model_loader.base_loader import BaseModelLoader

    class ShardweldLoader(BaseModelLoader):  # type: ignore[misc, unused-ignore]
        """Reads weights from a training checkpoint. The extra config holds `checkpoint` and options of `safe_open`."""

        def download_model(self, model_config: Any) -> None:
            """Nothing: the checkpoint lies on a disk."""

        def load_weights(self, model: Any, model_config: Any) -> None:
            options = dict(self.load_config.model_loader_extra_config or {})
            checkpoint = options.pop("checkpoint", model_config.model)
            if Path(model_config.model).is_dir():
                options.setdefault("hf_config", model_config.model)
            with safe_open(checkpoint, "pt", **options) as opened:
                loaded = model.load_weights((name, opened.get_tensor(name)) for name in opened.offset_keys())
            # Quantisation gives models parameters of which no checkpoint knows; vLLM's own loader asks no more either.
            if loaded is not None and model_config.quantization is None:
                missing = sorted({name for name, _ in model.named_parameters()} - set(loaded))
                if missing:
                    raise Mismatch(f"{len(missing)} parameters are not in the checkpoint, such as {missing[0]}",
                                   hint="serve it with the config.json that belongs to it")

    register_model_loader("shardweld")(ShardweldLoader)
