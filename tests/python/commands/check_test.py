"""The rules of loaders: a directory that loads everywhere has no findings, and each fault those of its rules. "rule!" stands for an error."""
import dataclasses
import json
import os
import pathlib
import struct
import tempfile
import unittest

from shardweld_commands.check import LOADERS
from shardweld_commands.check.model import Expected, Family, Model
from shardweld_commands.headers import GgufFile, Stored, WeightFile, WeightIndex, gguf_file, weight_file
from shardweld_commands.check.reading import Directory, Tokenizer, read_directory
from shardweld_commands.check.rules import all_rules, findings_of
from shardweld_commands.check.scheme import Expressions, Scheme
from shardweld_commands.command import Failed
from shardweld_commands.files import parsed
from shardweld_commands.text import glob_matches

ROOT = pathlib.Path(__file__).parents[3]
LISTED = [line.split("|")[0].split() for line in (ROOT / "src/models/recipes/transformers.list").read_text().splitlines() if not line.startswith("#")]
TYPES = frozenset(word for words in LISTED for word in (words[1:] if words[0] == "+" else words[:1]))
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
          "vocab_size": 40, "tie_word_embeddings": False}
TF, VLLM, SGLANG, TGI, GGUF = "transformers", "vllm", "sglang", "tgi", "llama.cpp"
BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head", "model.embed_tokens"]}
PACKED = {"quant_method": "compressed-tensors", "quantization_status": "compressed", "ignore": ["lm_head"],
          "config_groups": {"group_0": {"weights": {"num_bits": 4, "strategy": "group", "group_size": 128}}}}


class Small:
    """A small Llama that loads everywhere, to be harmed."""

    def __init__(self, **config):
        self.config = {**CONFIG, **config}
        self.directory = Directory("", {"config.json", "model.safetensors", "tokenizer.json", "generation_config.json", "tokenizer_config.json"})
        self.directory.generation_text = b"{}"
        self.directory.tokenizer = Tokenizer(True, n_tokens=40, config={"chat_template": "{{ x }}"})
        self.tensors = {"model.embed_tokens.weight": Stored("BF16", (40, 256)), "lm_head.weight": Stored("BF16", (40, 256))}
        for layer in ("model.layers.0.", "model.layers.1."):
            for name, *shape in (("self_attn.q_proj", 256, 256), ("self_attn.k_proj", 256, 256), ("self_attn.v_proj", 256, 256),
                                 ("self_attn.o_proj", 256, 256), ("mlp.gate_proj", 512, 256), ("mlp.up_proj", 512, 256), ("mlp.down_proj", 256, 512),
                                 ("input_layernorm", 256)):
                self.tensors[f"{layer}{name}.weight"] = Stored("BF16", tuple(shape))
        self.family = Family(transformers_types=TYPES)
        self.text = None
        self.files = None  # of weights, in place of the one
        self.metadata = {}

    @property
    def projections(self):
        return [name for name in self.tensors if name.endswith("_proj.weight")]

    def in_blocks(self):
        """Every projection in fp8, and a scale for each block of 128 x 128."""
        self.config["quantization_config"] = json.loads(json.dumps(BLOCKS))
        for name in self.projections:
            rows, columns = self.tensors[name].shape
            self.tensors[name] = Stored("F8_E4M3", (rows, columns))
            self.tensors[name + "_scale_inv"] = Stored("F32", (-(-rows // 128), -(-columns // 128)))
        return self

    def packed(self):
        """Weights of four bits, 128 to a scale, in words of 32 bits."""
        self.config["quantization_config"] = json.loads(json.dumps(PACKED))
        for name in self.projections:
            rows, columns = self.tensors.pop(name).shape
            self.tensors[name + "_packed"] = Stored("I32", (rows, columns // 8))
            self.tensors[name + "_scale"] = Stored("BF16", (rows, columns // 128))
            self.tensors[name + "_shape"] = Stored("I64", (2,))
        return self

    def of_family(self):
        """The tensors of a plain Llama are what its family has."""
        self.family.name = "llama"
        for name, tensor in Small().tensors.items():
            self.family.expected[name] = Expected(tensor.shape, False, name.endswith("_proj.weight"), (), "layer.0.x")
        self.expect("model.embed_tokens.weight", logical="embed")
        self.expect("lm_head.weight", logical="head")
        return self

    def expect(self, name, **fields):
        self.family.expected[name] = dataclasses.replace(self.family.expected.get(name, Expected(())), **fields)

    def drop(self, ending):
        for name in [name for name in self.tensors if name.endswith(ending)]:
            del self.tensors[name]

    def findings(self, target, tp=1, pp=1):
        self.directory.config_text = json.dumps(self.config).encode() if self.text is None else self.text
        self.directory.weights = [WeightFile("model.safetensors", self.tensors, self.metadata)] if self.files is None else self.files
        self.family.expected = dict(sorted(self.family.expected.items()))
        return findings_of(Model(self.directory, LOADERS[target], self.family, tp, pp))

    def rules(self, target=TF, tp=1, pp=1):
        """Without what is said to be unchecked."""
        return [one.rule + "!" * one.is_fatal for one in self.findings(target, tp, pp) if one.rule != "limits"]


class Rules(unittest.TestCase):
    def expect(self, model, in_transformers, in_vllm=None, tp=1):
        self.assertEqual(model.rules(TF, tp), in_transformers.split())
        self.assertEqual(model.rules(VLLM, tp), (in_transformers if in_vllm is None else in_vllm).split())

    def test_nothing_is_found_in_what_loads(self):
        for model in (Small(), Small().in_blocks(), Small().packed(), Small().of_family()):
            for target in (TF, VLLM, SGLANG, TGI):
                self.assertEqual(model.rules(target, 2, 2), [], target)

    def test_config(self):
        for config, in_transformers, in_vllm in (
                ({"rms_norm_eps": 1}, "types!", None), ({"hidden_act": "swi"}, "types!", ""), ({"layer_types": ["full_attention"]}, "types!", None),
                ({"architectures": None}, "class", "class!"), ({"model_type": None}, "model-type!", "model-type"),
                ({"architectures": ["FSDPLlamaForCausalLM"]}, "class", "class!"), ({"model_type": "lama"}, "model-type!", None),
                ({"model_type": "mine", "auto_map": {"AutoModel": "modeling_mine.Mine"}}, "code!", None),
                ({"rope_scaling": {"rope_type": "spiral", "factor": 2.0}}, "rope!", None),
                ({"rope_scaling": {"rope_type": "ntk", "factor": 2.0}}, "rope!", ""),
                ({"rope_parameters": {"full": {"rope_type": "llama3", "factor": 8.0}}}, "rope! rope!", None),
                ({"hidden_size": "256"}, "sizes!", None), ({"pad_token_id": 40}, "sizes!", "sizes"),
                ({"num_hidden_layers": 3}, "layers!", None), ({"num_hidden_layers": 1}, "layers", None), ({"num_nextn_predict_layers": 1}, "prediction", None),
                ({"quantization_config": BLOCKS}, "quantised", "quantised!"), ({"limit": float("inf")}, "", None),
                ({"rms_norm_eps": float("nan")}, "numbers!", None), ({"rope_theta": float("nan")}, "numbers!", None),
                ({"text_config": {"logits_scaling": float("nan")}}, "numbers!", None), ({"ssm_multipliers": [1.0, float("nan")]}, "numbers!", None),
                ({"attention_dropout": float("nan")}, "numbers", None)):
            with self.subTest(config):
                self.expect(Small(**config), in_transformers, in_vllm)
        self.assertEqual(Small(limit=float("inf")).rules(TGI), ["numbers!"])
        there = Small(auto_map={"AutoModel": "modeling_mine.Mine"})
        there.directory.files.add("modeling_mine.py")
        self.expect(there, "code")

    def test_texts_that_are_no_config(self):
        for text in (b"[]", b"{", b"1", b"", b"\xef\xbb\xbf{}", b'{"a": "\xff"}', b"[" * 100000, b'{"a": ' * 70 + b"1" + b"}" * 70, b'{"a": "\\ud800"}'):
            with self.subTest(text[:20]):
                model = Small()
                model.text = text
                self.assertIn("config!", model.rules())

    def test_null_is_refused_by_some_model_types(self):
        for model_type, field, rules in (("llama", "rms_norm_eps", "types!"), ("llama", "vocab_size", "types!"), ("llama", "tie_word_embeddings", "types!"),
                                         ("llama", "head_dim", ""), ("llama", "layer_norm_eps", ""), ("llama", "anything", ""), ("cohere", "layer_norm_eps", "")):
            with self.subTest(field):
                model = Small(model_type=model_type)
                model.config = {**{key: value for key, value in model.config.items() if key not in ("vocab_size", "tie_word_embeddings")}, field: None}
                self.assertEqual(model.rules(), rules.split())

    def test_files_beside_the_weights(self):
        def harm(**changes):
            model = Small()
            for name, value in changes.items():
                setattr(model.directory if hasattr(model.directory, name) else model.directory.tokenizer, name, value)
            return model

        self.expect(harm(generation_text=b'{"max_new_tokens": 0}'), "generation!")
        self.expect(harm(generation_text=b"[]"), "generation!")
        self.expect(harm(generation_text=None), "generation")
        self.expect(harm(fault="tokenizer.json is not a JSON object"), "tokenizer!")
        self.expect(harm(is_there=False, n_tokens=None), "tokenizer", "tokenizer!")
        self.expect(harm(n_tokens=41), "tokens!")
        self.expect(harm(config={}), "", "template")
        self.expect(harm(generation_text=b'{"eos_token_id": [1, 2]}', eos="<end>", eos_number=3), "end")
        for file, in_transformers, in_vllm in (("chat_template.jinja", "", ""), ("chat_template.json", "template", "template")):
            model = harm(config={"chat_template": None})
            model.directory.files.add(file)
            self.expect(model, in_transformers, in_vllm)
        embedding = harm(config={}, generation_text=None)
        embedding.directory.files.add("modules.json")
        self.expect(embedding, "")

    def test_tensors(self):
        def harm(change):
            model = Small()
            change(model)
            return model

        self.expect(harm(lambda m: m.tensors.update({"base_model.model.model.norm.weight": Stored("BF16", (256,))})), "names!")
        self.expect(harm(lambda m: m.tensors.update({"model.embed_tokens.weight": Stored("BF16", (64, 256))})), "vocabulary!")
        self.expect(harm(lambda m: m.drop("lm_head.weight")), "head!")
        self.expect(harm(lambda m: setattr(m, "tensors", {"module." + name: tensor for name, tensor in m.tensors.items()})), "names!")
        self.expect(Small(), "", "heads! heads! extents!", tp=3)
        self.expect(Small().in_blocks(), "", "heads! extents!", tp=8)
        self.assertEqual(Small().rules(VLLM, 4), [])  # fewer heads of keys than devices are repeated
        self.assertEqual(Small().rules(VLLM, 1, 3), ["stages!"])
        alike = Small(num_hidden_layers=3)
        alike.tensors.update({f"model.layers.2.self_attn.{part}.weight": Stored("BF16", (256, 256)) for part in ("q_proj", "k_proj")})
        self.assertEqual(alike.rules(), ["parts!"])

    def test_quantised_tensors(self):
        up, group = "model.layers.1.mlp.up_proj.weight", ("config_groups", "group_0")
        def harm(model, change=lambda m: None, **fields):
            model.config["quantization_config"].update(fields)
            change(model)
            return model

        def reshape(name, *shape):
            return lambda m: m.tensors.update({name: m.tensors[name]._replace(shape=shape)})

        def half(m):
            m.drop("0.mlp.up_proj.weight_packed")
            m.drop("0.mlp.up_proj.weight_scale")
            m.tensors["model.layers.0.mlp.up_proj.weight"] = Stored("BF16", (512, 256))

        for model, in_transformers, in_vllm in (
                (harm(Small().in_blocks(), lambda m: m.config.pop("quantization_config")), "quantised!", None),
                (harm(Small().packed(), quant_method="quilt"), "quantised!", "quantised"),
                (harm(Small().in_blocks(), quant_method="modelopt"), "quantised!", "quantised"),
                (harm(Small().in_blocks(), lambda m: m.config["quantization_config"].pop("quant_method")), "quantised!", "quantised"),
                (harm(Small().in_blocks(), lambda m: m.tensors.update({up + "_scale": m.tensors.pop(up + "_scale_inv")})), "scales!", None),
                (harm(Small().packed(), lambda m: m.drop("1.mlp.down_proj.weight_scale")), "scales!", None),
                (harm(Small().in_blocks(), reshape(up + "_scale_inv", 2, 2)), "blocks!", None),
                (harm(Small().in_blocks(), reshape("model.layers.0.self_attn.o_proj.weight", 192, 256)), "blocks!", ""),
                (harm(Small().in_blocks(), reshape("model.layers.0.mlp.up_proj.weight", 448, 256)), "blocks!", "extents!"),
                (harm(Small().packed(), quantization_status=None), "status!", ""),
                (harm(Small().packed(), ignore=[]), "ignored!", ""),
                (harm(Small().packed(), ignore=["lm_head", "re:.*layers.1.mlp.*"]), "ignored!", None),
                (harm(Small().packed(), half, ignore=["lm_head", "model.layers.0.mlp.up_proj"]), "", "fused!"),
                (harm(Small().packed(), config_groups={"a": {"targets": ["re:.*mlp.*"], "weights": {"num_bits": 4, "strategy": "group", "group_size": 128}}}),
                 "status!", None),
                (harm(Small().packed(), config_groups={"a": {"weights": {"strategy": "group", "group_size": 128}}}), "packed!", None),
                (harm(Small().packed(), lambda m: m.drop("0.mlp.up_proj.weight_shape")), "packed!", None),
                (harm(Small().packed(), reshape("model.layers.0.mlp.up_proj.weight_scale", 512, 1)), "packed!", None)):
            with self.subTest(model.config.get("quantization_config")):
                self.expect(model, in_transformers, in_vllm)

    def test_groups_have_encodings_of_their_own(self):
        model = Small().packed()
        model.config["quantization_config"]["config_groups"]["a"] = {"targets": ["re:.*k_proj"], "weights": {"num_bits": 8, "strategy": "channel"}}
        for layer in ("model.layers.0.", "model.layers.1."):
            model.tensors[layer + "self_attn.k_proj.weight_packed"] = Stored("I32", (256, 64))
            model.tensors[layer + "self_attn.k_proj.weight_scale"] = Stored("BF16", (256, 1))
        self.assertEqual(model.rules(VLLM), [])
        model.tensors["model.layers.0.self_attn.q_proj.weight_scale"] = Stored("BF16", (256, 1))
        self.assertEqual(model.rules(VLLM), ["packed!"])

    def test_experts_are_quantised_together(self):
        model = Small(quantization_config=BLOCKS)
        for number in "01":
            model.tensors[f"model.layers.0.mlp.experts.{number}.up_proj.weight"] = Stored("F8_E4M3", (128, 128))
            model.tensors[f"model.layers.0.mlp.experts.{number}.up_proj.weight_scale_inv"] = Stored("F32", (1, 1))
        self.assertEqual(model.rules(), [])
        model.tensors["model.layers.0.mlp.experts.1.up_proj.weight"] = Stored("BF16", (128, 128))
        model.drop("experts.1.up_proj.weight_scale_inv")
        self.assertEqual(model.rules(), ["experts!"])

    def test_scales_without_an_axis_are_refused_by_compressed_tensors(self):
        model = Small(quantization_config={**PACKED, "config_groups": {"a": {"weights": {"num_bits": 8, "type": "float", "strategy": "tensor"}}}})
        for name in model.projections:
            model.tensors[name] = Stored("F8_E4M3", model.tensors[name].shape)
            model.tensors[name + "_scale"] = Stored("F32", (1,))
        self.expect(model, "")
        model.tensors["model.layers.0.mlp.up_proj.weight_scale"] = Stored("F32", ())
        self.expect(model, "scalars!", "")
        self.assertIn("weight_scale", model.findings(TF)[0].text)

    def test_torchao_says_in_the_files_of_which_classes_weights_are(self):
        model = Small(quantization_config={"quant_method": "torchao", "quant_type": {}}).of_family()
        for name in model.projections:
            stem, shape = name[:-len("weight")], model.tensors.pop(name).shape
            model.tensors[stem + "_weight_qdata"] = Stored("F8_E4M3", shape)
            model.tensors[stem + "_weight_scale"] = Stored("F32", (shape[0], 1))
            model.metadata[name] = json.dumps({"_type": "Float8Tensor", "_tensor_data_names": ["qdata", "scale"]})
        self.expect(model, "quantised")
        model.metadata.pop("model.layers.0.mlp.up_proj.weight")
        self.expect(model, "quantised! quantised", "quantised")
        model.metadata = {"format": "pt"}
        self.expect(model, "quantised! quantised", "quantised")

    def test_mlx_models_have_their_own_config(self):
        model = Small(quantization_config={"group_size": 32, "bits": 4, "mode": "affine"}).of_family()
        for name in model.projections:
            rows, columns = model.tensors[name].shape
            model.tensors[name] = Stored("U32", (rows, columns // 8))
            model.tensors[name[:-len("weight")] + "scales"] = Stored("BF16", (rows, columns // 32))
        model.tensors["model.norm.weight"] = Stored("U32", (1,))
        self.expect(model, "quantised! names", "names quantised")

    def test_the_ignore_list_has_the_names_of_modules(self):
        """Names of the Hub are not those of the tree of modules, which transformers and compressed-tensors look for."""
        def seeing(ignore):
            model = Small(architectures=["LlavaForConditionalGeneration"]).of_family().packed()
            model.config["quantization_config"]["ignore"] = ["lm_head", *ignore]
            model.family.passes, model.family.renames = ["visual.*"], [["model.visual.", "visual."]]
            for part in ("q_proj", "k_proj", "v_proj"):
                model.tensors[f"visual.blocks.0.attn.{part}.weight"] = Stored("BF16", (8, 8))
            return model

        for ignore, in_transformers, in_vllm in (([], "ignored!", "ignored!"), (["re:visual.*"], "ignored!", ""), (["visual"], "ignored!", ""),
                                                 (["re:.*visual.*"], "", ""), (["re:visual.*", "re:model.visual.*"], "", ""),
                                                 ([f"{root}visual.blocks.0.attn.{part}" for root in ("", "model.") for part in ("q_proj", "k_proj", "v_proj")], "", "")):
            with self.subTest(ignore):
                self.expect(seeing(ignore), in_transformers, in_vllm)


class FamilyRules(unittest.TestCase):
    def test_names_and_shapes(self):
        norm = "model.layers.1.input_layernorm.weight"
        for whole in (Small(), Small().in_blocks(), Small().packed()):
            model = whole.of_family()
            self.assertEqual(model.rules(), [])
            model.tensors[norm] = Stored("BF16", (255,))
            self.assertEqual(model.rules(), ["names!"])
            del model.tensors[norm]
            self.assertEqual(model.rules(), ["names!"])
            model.expect(norm, is_optional=True)
            self.assertEqual(model.rules(), [])
            model.tensors["model.layers.1.mlp.gate.bias"] = Stored("BF16", (8,))
            self.assertEqual(model.rules(), ["names"])
            model.family.passes = ["*.bias"]
            self.assertEqual(model.rules(), [])
        further = Small(num_hidden_layers=1).of_family()  # layers that config.json does not count
        further.family.expected = {name: one for name, one in further.family.expected.items() if "layers.1." not in name}
        self.assertEqual(further.rules(), ["names!"])
        renamed = Small().of_family()
        renamed.tensors = {"transformer.wte.weight": Stored("BF16", (40, 256)), "lm_head.weight": Stored("BF16", (40, 256))}
        self.assertEqual(renamed.rules(), ["names!", "names"])
        bare = Small().of_family()  # transformers takes names without the base model's prefix
        bare.tensors = {name[6:] if name.startswith("model.") else name: one for name, one in bare.tensors.items()}
        self.assertEqual((bare.rules(), bare.rules(VLLM)), ([], ["names!", "names"]))

    def test_shapes_are_whole(self):
        for name, shape in (("model.layers.0.input_layernorm.weight", ()), ("model.layers.0.self_attn.q_proj.weight", ()), ("lm_head.weight", ()),
                            ("model.layers.0.self_attn.k_proj.weight", (1, 256, 256)), ("model.embed_tokens.weight", (40, 255)), ("model.embed_tokens.weight", ())):
            model = Small().of_family()
            model.tensors[name] = Stored("BF16", shape)
            self.assertEqual((model.rules(), model.rules(VLLM)), (["names!"], ["names!"]), name)

    def test_a_tied_head_is_the_embedding(self):
        for classes in (["LlamaForCausalLM"], None):
            for is_equal in (True, False):
                model = Small(tie_word_embeddings=True, architectures=classes)
                model.directory.equal = lambda one, other: is_equal if (one, other) == ("lm_head.weight", "model.embed_tokens.weight") else None
                self.assertIn("head", model.rules())
                for target in (VLLM, SGLANG, TGI):
                    self.assertIn("head" if is_equal else "head!", model.rules(target))
        alone = Small(tie_word_embeddings=True).of_family()  # the head alone: transformers ties the embedding to it
        del alone.family.expected["lm_head.weight"], alone.tensors["model.embed_tokens.weight"]
        self.assertEqual((alone.rules(), alone.rules(VLLM)), ([], ["names!"]))

    def test_optional_tensors_are_there_together(self):
        model, norm = Small().of_family(), Stored("BF16", (256,))
        for layer in "01":
            for end in ("weight", "bias"):
                model.expect(f"model.layers.{layer}.norm.{end}", shape=(256,), is_optional=True, logical=f"layer.{layer}.norm_{end}")
        self.assertEqual(model.rules(), [])
        for name, rules in (("0.norm.weight", "names!"), ("1.norm.weight", "names!"), ("0.norm.bias", "names!"), ("1.norm.bias", "")):
            model.tensors[f"model.layers.{name}"] = norm
            self.assertEqual(model.rules(), rules.split(), name)
        for layer in ("9", "10", "11"):  # numbers of one digit and of two
            name = f"model.layers.{layer}.norm.gain"
            model.expect(name, shape=(256,), is_optional=True, logical=f"layer.{layer}.norm_gain")
            model.tensors[name] = norm
        del model.tensors["model.layers.9.norm.gain"]
        self.assertEqual(model.rules(), ["names!"])

    def test_a_config_of_which_a_family_makes_nothing_is_told(self):
        model = Small()
        model.family.name, model.family.fault = "llama", "h = @hidden_size has no value"
        self.assertEqual(model.rules(), ["names!"])
        model.family.fault = "d = @head_dim has no value"  # where a class's default may be meant
        self.assertEqual(model.rules(), ["names"])

    def test_names_that_transformers_changes_when_it_saves_are_not_those_of_engines(self):
        model = Small()
        model.family.renamed = [".layers.#.mlp.up_proj.weight.$."]
        self.assertEqual([model.rules(target) for target in (TF, VLLM, SGLANG, TGI)], [[], ["names!"], ["names!"], ["names!"]])
        model.family.renamed = [".layers.#.mlp.experts."]
        self.assertEqual(model.rules(SGLANG), [])

    def test_classification_models_have_a_row_for_each_label(self):
        model = Small(architectures=["LlamaForSequenceClassification"])
        self.assertEqual(model.rules(), ["classifier!"])
        model.tensors["score.weight"] = Stored("BF16", (3, 256))
        self.assertEqual(model.rules(), [])
        model.config["id2label"] = {"0": "a", "1": "b"}
        self.assertEqual(model.rules(), ["classifier!"])
        model.tensors["score.weight"] = Stored("BF16", (2, 256))
        model.config["architectures"] = ["LlamaForTokenClassification"]
        self.assertEqual(model.rules(), ["classifier"])
        model.tensors["score.bias"] = Stored("BF16", (2,))
        self.assertEqual(model.rules(), [])
        model.tensors["classifier.weight"] = model.tensors.pop("score.weight")
        self.assertEqual(model.rules(), ["classifier!"])

    @staticmethod
    def seeing():
        """A family that lets its tower pass."""
        model = Small(architectures=["LlavaForConditionalGeneration"], vision_config={"depth": 2}).of_family()
        model.family.passes, model.family.needs = ["visual.*"], ["merger.norm.weight|merger.ln.weight"]
        for name in ("merger.norm.weight", "blocks.0.norm.weight", "blocks.0.norm.bias", "blocks.1.norm.weight", "blocks.1.norm.bias"):
            model.tensors["visual." + name] = Stored("BF16", (4,))
        return model

    def test_towers_are_whole(self):
        self.assertEqual(self.seeing().rules(), [])
        for ending in ("merger.norm.weight", "blocks.0.norm.bias", "blocks.1.norm.weight"):
            model = self.seeing()
            model.drop(ending)
            self.assertEqual(model.rules(), ["parts!"], ending)
        renamed = self.seeing()
        renamed.tensors["visual.merger.ln.weight"] = renamed.tensors.pop("visual.merger.norm.weight")
        self.assertEqual(renamed.rules(), [])
        for begin in ("visual.blocks.1.", "visual."):
            shallow = self.seeing()
            shallow.tensors = {name: one for name, one in shallow.tensors.items() if not name.startswith(begin)}
            self.assertEqual(shallow.rules(), ["parts!"])
        shallow.config["architectures"] = ["LlamaForCausalLM"]  # a class of text models loads no tower
        self.assertEqual(shallow.rules(), [])

    def test_parts_of_a_towers_layers_stand_together(self):
        for less in ("", "attn.qkv", "attn.proj", "mlp.fc0", "norm2"):
            model = self.seeing()
            for layer in "01":
                for part in ("attn.qkv", "attn.proj", "mlp.fc0", "mlp.fc1", "norm1", "norm2"):
                    model.tensors[f"visual.blocks.{layer}.{part}.weight"] = Stored("BF16", (4, 4))
            model.drop(f"{less}.weight" if less else "-")
            self.assertEqual(model.rules(), ["parts!"] if less else [], less)

    def test_what_checkpoints_may_lack_is_needed_where_models_have_it(self):
        model, name = Small().of_family(), "model.layers.1.mlp.gate.fix"
        model.family.needs = ["gate.fix|router.fix", "other.fix"]
        self.assertEqual(model.rules(), [])
        model.expect(name, shape=(8,), is_optional=True, logical="layer.1.router_fix")
        self.assertEqual(model.rules(), ["parts!"])
        model.tensors[name] = Stored("F32", (8,))
        self.assertEqual(model.rules(), [])

    def test_what_is_not_checked_is_said(self):
        unknown = self.seeing()
        unknown.family.needs = []
        for model, count in ((Small(), 1), (Small().of_family(), 0), (self.seeing(), 0), (unknown, 1)):
            self.assertEqual([one.rule for one in model.findings(TF)].count("limits"), count)


class WeightFiles(unittest.TestCase):
    def test_each_loader_takes_its_own_files(self):
        model = Small()
        own = WeightFile("model.safetensors", model.tensors)
        model.files = [WeightFile("consolidated.safetensors", {"tok": Stored("BF16", (1,))}), own]
        self.assertEqual([model.rules(target) for target in (TF, VLLM, SGLANG)], [[], ["weights!"], []])
        model.files = [own, WeightFile("other.safetensors", model.tensors)]
        self.assertEqual([model.rules(target) for target in (TF, VLLM, TGI)], [[], ["weights!"], ["weights!"]])
        model.files = [WeightFile("model-00001-of-00001.safetensors", model.tensors)]
        self.assertEqual([model.rules(target) for target in (TF, VLLM)], [["weights!"], []])
        model.files = [own, WeightFile("model-00001-of-00002.safetensors")]  # a stale file beside the index
        model.directory.index = WeightIndex("", {"lm_head.weight": "model-00001-of-00002.safetensors"}, {})
        self.assertIn("weights!", model.rules())

    def test_an_index_has_metadata_for_transformers(self):
        model = Small()
        model.files = [WeightFile("part.safetensors", model.tensors)]
        model.directory.index = WeightIndex("", {"lm_head.weight": "part.safetensors"})
        self.assertEqual((model.rules(), model.rules(VLLM)), (["weights!"], []))
        model.directory.index.metadata = {}
        self.assertEqual(model.rules(), [])

    def test_transformers_takes_pickles_of_one_name(self):
        model = Small()
        model.files = []
        model.directory.files -= {"model.safetensors"}
        model.directory.files.add("model.bin")
        self.assertEqual((model.rules(), model.rules(VLLM)), (["weights!"], ["weights"]))

    def test_what_of_a_file_is_not_known_is_not_checked(self):
        model = Small()
        model.files = [WeightFile("model.safetensors", unknown="dtype F4 is not supported")]
        self.assertEqual(model.rules(), ["weights"])


class GgufRules(unittest.TestCase):
    @staticmethod
    def small():
        shapes = {"attn_norm": (64,), "attn_q": (64, 64), "attn_k": (32, 64), "attn_v": (32, 64), "attn_output": (64, 64), "ffn_norm": (64,),
                  "ffn_gate": (96, 64), "ffn_up": (96, 64), "ffn_down": (64, 96)}
        return GgufFile("model-q8_0.gguf", {"token_embd.weight": (40, 64), "output_norm.weight": (64,),
                                            **{f"blk.{block}.{part}.weight": shape for block in "01" for part, shape in shapes.items()}},
                        {"general.architecture": "llama", "tokenizer.ggml.model": "gpt2", "tokenizer.chat_template": "{{ x }}", "llama.block_count": 2,
                         "llama.context_length": 8, "llama.embedding_length": 64, "llama.feed_forward_length": 96, "llama.attention.head_count": 4,
                         "llama.attention.head_count_kv": 2, "llama.attention.layer_norm_rms_epsilon": None}, {"tokenizer.ggml.tokens": 40})

    def rules(self, file, **config):
        model = Small(**config)
        model.directory.files.add(file.name)
        model.directory.gguf = [file]
        return model.rules(GGUF)

    def test_whole_files(self):
        self.assertEqual(Small().rules(GGUF), ["gguf!"])
        self.assertEqual(self.rules(self.small()), [])
        self.assertEqual(self.rules(self.small(), model_type="qwen3_moe"), ["routing"])
        self.assertEqual(self.rules(self.small(), model_type="qwen3_moe", norm_topk_prob=True), [])

    def test_a_file_has_what_its_metadata_promises(self):
        for values, lengths, tensors, fields, rules in (
                ({"tokenizer.chat_template": None}, {}, {}, {}, "gguf-tokens"), ({}, {"tokenizer.ggml.tokens": None}, {}, {}, "gguf-tokens!"),
                ({}, {"tokenizer.ggml.tokens": 39}, {}, {}, "gguf-tokens!"), ({}, {"tokenizer.ggml.token_type": 39}, {}, {}, "gguf-tokens!"),
                ({}, {"tokenizer.ggml.scores": 41}, {}, {}, "gguf-tokens"), ({"tokenizer.ggml.model": None}, {}, {}, {}, "gguf-tokens!"),
                ({}, {}, {}, {"fault": "cut short"}, "gguf-header!"), ({}, {}, {}, {"unknown": "a type of the future"}, "gguf-header"),
                ({"split.count": 2}, {}, {}, {}, "gguf-header!"), ({"general.architecture": "lama"}, {}, {}, {}, "gguf-keys!"),
                ({"general.architecture": "clip"}, {}, {}, {}, ""), ({"llama.context_length": None}, {}, {}, {}, "gguf-keys!"),
                ({"llama.attention.head_count": None}, {}, {}, {}, "gguf-keys!"), ({"llama.attention.layer_norm_rms_epsilon": "gone"}, {}, {}, {}, "gguf-keys!"),
                ({}, {}, {"output_norm.weight": None}, {}, "gguf-tensors!"), ({}, {}, {"blk.1.attn_norm.weight": None}, {}, "gguf-tensors!"),
                ({}, {}, {"token_embd.weight": (40, 32)}, {}, "gguf-tensors!"), ({"llama.block_count": 3}, {}, {}, {}, "gguf-tensors!"),
                ({"llama.block_count": 1}, {}, {}, {}, "gguf-tensors!"), ({}, {}, {"blk.0.attn_v.weight": None, "blk.1.attn_v.weight": None}, {}, "gguf-tensors!"),
                ({}, {}, {"blk.0.ffn_gate.weight": None, "blk.1.ffn_gate.weight": None}, {}, "gguf-tensors!"),
                ({}, {}, {"blk.1.attn_k.weight": (64, 64)}, {}, "gguf-tensors!"), ({"llama.feed_forward_length": 64}, {}, {}, {}, "gguf-tensors!"),
                ({"llama.attention.head_count_kv": None}, {}, {}, {}, "gguf-tensors!"),
                # llama.cpp counts the tensors.
                ({}, {}, {"output_norm2.weight": (64,)}, {}, "gguf-tensors!"), ({}, {}, {"rope_factors_long.weight": (8,)}, {}, "gguf-tensors!"),
                ({"llama.rope.scaling.type": "longrope"}, {}, {"rope_factors_long.weight": (8,)}, {}, ""), ({}, {}, {"rope_freqs.weight": (8,)}, {}, ""),
                ({}, {}, {"blk.0.attn_norm.bias": (64,), "blk.1.attn_norm.bias": (64,)}, {}, "gguf-tensors!"),
                ({}, {}, {"blk.0.attn_q.bias": (64,), "blk.1.attn_q.bias": (64,)}, {}, "")):
            file = self.small()
            for target, changes in ((file.values, values), (file.lengths, lengths), (file.tensors, tensors)):
                for key, value in changes.items():
                    target.pop(key, None)
                    target.update({key: value} if value not in (None, "gone") else {})
            for name, value in fields.items():
                setattr(file, name, value)
            with self.subTest((values, lengths, tensors, fields)):
                self.assertEqual(sorted(set(self.rules(file))), rules.split())


class Hostile(unittest.TestCase):
    """Files that are not what their names say end in a fault, soon."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = place.name

    def written(self, name, data):
        pathlib.Path(self.place, name).write_bytes(data)

    def test_safetensors(self):
        def headed(text, data=b"\0\0"):
            return len(text).to_bytes(8, "little") + text + data

        entry = b'"a": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}'
        for text in (b"{%s}" % entry, b" {%s} " % entry, b'{"__metadata__": null, %s}' % entry, b"{%s, %s}" % (entry.replace(b"BF16", b"F16"), entry),
                     b'{"a": {"more": {"b": [1, null]}, %s}' % entry[6:]):
            self.written("m.safetensors", headed(text))
            found = weight_file(self.place, "m.safetensors")
            self.assertEqual((found.fault, found.tensors["a"].dtype, found.tensors["a"].shape), ("", "BF16", (1,)), text)
        self.written("m.safetensors", headed(b"{%s}" % entry, b"\0"))
        self.assertNotEqual(weight_file(self.place, "m.safetensors").fault, "")
        self.written("m.safetensors", headed(b"{%s}" % entry.replace(b"BF16", b"F4")))
        self.assertNotEqual(weight_file(self.place, "m.safetensors").unknown, "")
        self.written("m.safetensors", b"PK\3\4" + bytes(100))
        self.assertIn("torch.save", weight_file(self.place, "m.safetensors").unknown)

    def test_gguf(self):
        def text(value):
            return struct.pack("<Q", len(value)) + value

        head = b"GGUF" + struct.pack("<IQQ", 3, 1, 4) + text(b"k") + struct.pack("<II", 8, 1)[:4] + text(b"t") + text(b"n") + struct.pack("<II", 4, 7) + \
            text(b"f") + struct.pack("<If", 6, 1) + text(b"l") + struct.pack("<IIQ", 9, 0, 3) + b"\0" * 3 + text(b"w") + struct.pack("<IQQIQ", 2, 2, 1, 0, 0)
        self.written("m.gguf", head + b"\0" * (-len(head) % 32) + b"\0" * 8)
        self.assertEqual(gguf_file(self.place, "m.gguf"), GgufFile("m.gguf", {"w": (1, 2)}, {"k": "t", "n": 7, "f": None, "l": None}, {"l": 3}))
        self.written("m.gguf", head)
        self.assertNotEqual(gguf_file(self.place, "m.gguf").fault, "")
        self.written("m.gguf", b"GGUF" + struct.pack("<IQQ", 9, 0, 0))
        self.assertNotEqual(gguf_file(self.place, "m.gguf").unknown, "")

    def test_what_is_no_regular_file(self):
        for name in ("config.json", "tokenizer.json", "generation_config.json", "model.safetensors.index.json"):
            with self.subTest(name), tempfile.TemporaryDirectory() as place:
                os.mkfifo(os.path.join(place, name))
                with self.assertRaises(Failed):
                    read_directory(place, False, lambda files: True)
        os.mkfifo(os.path.join(self.place, "model.safetensors"))
        os.symlink("/nowhere", os.path.join(self.place, "other.safetensors"))
        self.assertTrue(all(file.fault for file in read_directory(self.place, False, lambda files: True).weights))

    def test_indices(self):
        for text in ("{", "[]", "{}", '{"weight_map": {}}', '{"weight_map": {"a": 1}}', '{"weight_map": {"a": "../b"}}', '{"weight_map": {"a": "/b"}}',
                     '{"weight_map": {"a": "b\\u0000"}}', '\ufeff{"weight_map": {"a": "b"}}'):
            self.written("model.safetensors.index.json", text.encode())
            index = read_directory(self.place, False, lambda files: True).index
            self.assertNotEqual(index.fault, "", text)

    def test_patterns(self):
        self.assertTrue(glob_matches("a*c*", "abcd") and glob_matches("*", "") and not glob_matches("a*a", "a") and not glob_matches("*b", "abc"))
        self.assertFalse(glob_matches("*a" * 60 + "b", "a" * 200))
        Expressions.seconds_left, before = 0.3, Expressions.seconds_left
        self.addCleanup(setattr, Expressions, "seconds_left", before)
        scheme = Scheme({"quant_method": "fp8", "ignore": ["re:(a+)+$", "re:(", "lm_head"]})
        self.assertTrue(scheme.ignores("lm_head"))
        with self.assertRaises(Failed):
            scheme.ignores("a" * 60 + "b")

    def test_numbers(self):
        self.assertEqual(parsed(b"[1, 18446744073709551616]"), [1, 2.0**64])
        self.assertEqual(parsed(b"%s" % (b"1" * 400000)), float("inf"))


class Page(unittest.TestCase):
    def test_has_a_row_for_each_rule(self):
        page = (ROOT / "docs/using/serving.md").read_text()
        for rule in all_rules():
            self.assertIn(f"| `{rule.name}` | {rule.text} | {rule.loaders} | {rule.source} |\n", page)


if __name__ == "__main__":
    unittest.main()
