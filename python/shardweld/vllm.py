"""A loader for vLLM: `register()`, then `load_format="shardweld"` with `model_loader_extra_config={"checkpoint": DIR}`.

The interface is that of vLLM 0.9 to 0.31 (vllm/model_executor/model_loader/base_loader.py).
"""

from __future__ import annotations

from ._errors import Mismatch
from ._open import safe_open


def register() -> None:
    """Makes the load format "shardweld" known in this process."""
    from vllm.model_executor.model_loader import register_model_loader
    from vllm.model_executor.model_loader.base_loader import BaseModelLoader

    @register_model_loader("shardweld")
    class ShardweldLoader(BaseModelLoader):
        """Reads weights from a training checkpoint. The extra config holds `checkpoint` and options of `safe_open`."""

        def download_model(self, model_config) -> None:
            """Nothing: the checkpoint lies on a disk."""

        def load_weights(self, model, model_config) -> None:
            options = dict(self.load_config.model_loader_extra_config or {})
            checkpoint = options.pop("checkpoint", model_config.model)
            options.setdefault("hf_config", model_config.model)
            with safe_open(checkpoint, "pt", **options) as opened:
                loaded = model.load_weights((name, opened.get_tensor(name)) for name in opened.offset_keys())
            if loaded is not None:
                missing = sorted({name for name, _ in model.named_parameters()} - set(loaded))
                if missing:
                    raise Mismatch(f"{len(missing)} parameters are not in the checkpoint, such as {missing[0]}",
                                   hint="serve it with the config.json that belongs to it")
