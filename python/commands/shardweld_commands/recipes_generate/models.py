"""Small models of transformers' own classes: of a type's configuration with small sizes, and of the same with one switch the other way."""
import copy
import re

import torch
import transformers
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import PrefixChange
from transformers.models.auto import modeling_auto

LAST = ["FOR_BACKBONE_", "FOR_PRETRAINING_", "FOR_TEXT_ENCODING_", ""]
HEADS = ["IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ", "CAUSAL_LM", "MASKED_LM"]
BIGGEST = 250_000_000
LAYERS = 4
# Fields of configurations that make a model small; lists of kinds of layers are shortened so that each kind is among the first.
SMALL = {
    **dict.fromkeys("vocab_size vocab_size_per_layer_input".split(), 128),
    **dict.fromkeys("hidden_size embed_dim out_hidden_size d_model n_embd projector_hidden_size projection_dim text_hidden_size mm_hidden_size dim emb_dim".split(), 64),
    **dict.fromkeys("intermediate_size encoder_ffn_dim decoder_ffn_dim ffn_dim ffn_hidden_size dense_intermediate_size intermediate_size_mlp d_ff".split(), 96),
    **dict.fromkeys("shared_intermediate_size".split(), 96),
    **dict.fromkeys("moe_intermediate_size shared_expert_intermediate_size moe_shared_expert_intermediate_size expert_intermediate_size".split(), 32),
    **dict.fromkeys("num_hidden_layers".split(), LAYERS),
    **dict.fromkeys("depth num_layers encoder_layers decoder_layers n_layers".split(), 2),
    **dict.fromkeys("num_attention_heads num_heads encoder_attention_heads decoder_attention_heads n_head n_heads linear_num_value_heads".split(), 4),
    **dict.fromkeys("num_experts n_routed_experts num_local_experts moe_num_experts mamba_num_heads mamba_n_heads".split(), 4),
    **dict.fromkeys("num_key_value_heads num_experts_per_tok linear_num_key_heads index_n_heads n_groups o_groups num_global_key_value_heads".split(), 2),
    **dict.fromkeys("n_group topk_group first_k_dense_replace n_shared_experts index_kv_heads bos_token_id".split(), 1),
    **dict.fromkeys("head_dim v_head_dim qk_head_dim index_head_dim kv_lora_rank o_lora_rank head_dim_global global_head_dim patch_size mamba_head_dim".split(), 16),
    **dict.fromkeys("mamba_d_head hidden_size_per_layer_input".split(), 16),
    **dict.fromkeys("qk_rope_head_dim qk_nope_head_dim linear_key_head_dim linear_value_head_dim ssm_state_size mamba_d_state".split(), 8),
    **dict.fromkeys("pad_token_id num_nextn_predict_layers num_mtp_layers mtp_num_hidden_layers".split(), 0),
    **{"num_filters": 4, "max_position_embeddings": 64, "q_lora_rank": 24, "index_topk": 4, "image_size": 32, "n_layer": 3, "eos_token_id": 2},
}
NGRAMS = {
    **{"indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 16, "indexer_budget": 4, "indexer_compress_ratio": 2, "hc_lowrank": 8},
    **{"ple_layer_ids": [1], "ple_embed_dim": 64, "ngram_vocab_size_base": 50, "split_ngram_parts": 2, "make_ngram_vocab_size_divisible_by": 2},
}
ROPES = {kind: {"rope_type": "default", "rope_theta": 10000.0} for kind in ("full_attention", "sliding_attention")}
# Of configurations that make no model so.
SETTINGS = {
    "qwen4_exp_text": {**NGRAMS, "eos_token_id": 2},
    "qwen4_exp": {f"text_config.{key}": value for key, value in NGRAMS.items()},
    "laguna": {"num_attention_heads_per_layer": [4] * LAYERS},
    "dory": {"n_input_layers": 1, "n_recurrent_layers": 2, "n_output_layers": 1},
    "inkling2_text": {"vocab_size": 200064},
    "zaya": {"num_experts_per_tok": 1},
    "gemma4_assistant": {"hidden_size_per_layer_input": 0},
    "blt": {"encoder_hash_byte_group_vocab": 500},
    **{"dbrx": {"attn_config.rope_theta": 10000.0}},
    "diffusion_gemma": {"text_config.num_experts": 4, "text_config.top_k_experts": 2, "text_config.moe_intermediate_size": 32},
    "cohere_compass": {"text_config.rope_parameters": ROPES},
    "cohere_compass_text": {"rope_parameters": ROPES},
    "chameleon": {"vocabulary_map": {"<image>": 2}},
    "deepseek_ocr2": {"text_config.mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]},
    "mamba2": {"num_heads": 8},
    "dots3_note": {"text_config.layer_types": ["indexed_attention"] * 2 + ["sliding_attention"] * 2, "vision_config.adapter_out_dim": 64,
                   "audio_config.adapter_out_dim": 64},
    "dots3_note_text": {"layer_types": ["indexed_attention"] * 2 + ["sliding_attention"] * 2, "num_key_value_heads": 4, "head_dim": 200},
    "apertus1p5": {"text_config.vocab_size": 266752},
    **{"esm": {"vocab_size": 33, "pad_token_id": 1}, "esmc": {"num_key_value_heads": 4}, "reformer": {"is_decoder": True, "axial_pos_embds": False}, "squeezebert": {"embedding_size": 64}},
    "fun_asr_nano": {"adaptor_config.intermediate_size": 16},
    "granite4_vision": {"deepstack_layer_map": [[0, 0], [1, 1]], "downsample_rate": "1/2"},
    "kyutai_speech_to_text": {"audio_pad_token_id": 100},
    "mobilebert": {"embedding_size": 32, "intra_bottleneck_size": 32, "true_hidden_size": 32},
    "perceiver": {"d_latents": 64, "num_latents": 16, "num_self_attends_per_block": 2},
    "xlnet": {"d_head": 16},
    "gpt_neo": {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "attention_layers": ["global", "local"]},
    "molmo2": {"adapter_config.vision_feature_layer": [3, 1]},
    "emu3": {"text_config.pad_token_id": 0, "vocabulary_map": {"<|extra_200|>": 1, "<image>": 2}},
    "hunyuan_vl": {"text_config.head_dim": 16},
    "inkling2": {"text_config.vocab_size": 200064},
    "inkling2_loop": {"text_config.vocab_size": 200064},
    "inkling2_loop_text": {"vocab_size": 200064},
}

TIED, MOST_OTHERS = "tie_word_embeddings", 8
# Switches of a configuration that no part of a model depends on, and fields that are one: without and with a part.
IDLE = re.compile("_|output_|use_cache|return_|torchscript|is_|add_cross|chunk|gradient|initializer|scale_|problem|tokenizer|disable_|use_return|norm_topk|do_")
OPTIONAL = {
    **dict.fromkeys("num_nextn_predict_layers num_mtp_layers mtp_num_hidden_layers n_shared_experts num_shared_experts first_k_dense_replace".split(), (0, 1)),
    **dict.fromkeys("num_experts n_routed_experts num_local_experts".split(), (0, 4)),
    "q_lora_rank": (None, 24),
}


class Refused(Exception):
    """Why a type has no recipe."""


def mappings():
    """transformers' own tables of classes by type: language models first, then other heads, what has none last."""
    tables = sorted(name for name in dir(modeling_auto) if re.fullmatch("MODEL_(FOR_.*_)?MAPPING_NAMES", name))
    first = [f"MODEL_FOR_{head}_MAPPING_NAMES" for head in HEADS]
    last = [f"MODEL_{head}MAPPING_NAMES" for head in LAST]
    return [getattr(modeling_auto, name) for name in [*first, *(one for one in tables if one not in first + last), *last] if name in tables]


def class_of(model_type):
    found = next((names[model_type] for names in mappings() if model_type in names), None)
    if found is None:
        raise Refused(f"transformers {transformers.__version__} has no class of this type")
    return found if isinstance(found, str) else found[0]


def shrink(config):
    fields = config.__dict__
    for key, value in list(fields.items()):
        if isinstance(value, transformers.PretrainedConfig):
            shrink(value)
        elif key in SMALL and isinstance(value, int) and not isinstance(value, bool):
            fields[key] = SMALL[key]
        elif isinstance(value, list) and re.search(r"layer_types?$|layers_block_type$", key) and len(value) > LAYERS:
            fields[key] = (list(dict.fromkeys(value)) + value)[:LAYERS]
        elif key in ("rope_parameters", "rope_scaling") and isinstance(value, dict) and "mrope_section" in value:
            value["mrope_section"] = [2, 3, 3]


def configured(model_type):
    """The type's configuration with small sizes."""
    config = transformers.AutoConfig.for_model(model_type)
    shrink(config)
    for path, value in SETTINGS.get(model_type, {}).items():
        *above, last = path.split(".")
        setattr(part_of(config, above), last, value)
    return config


def part_of(config, path):
    for name in path:
        config = getattr(config, name)
    return config


def hidden(name):
    """A name without its numbers, and these."""
    parts = name.split(".")
    return tuple("#" if part.isdigit() else part for part in parts), tuple(int(part) for part in parts if part.isdigit())


def without_memory(name, config):
    with torch.device("meta"):
        return getattr(transformers, name)(copy.deepcopy(config))


def switched(config, path=()):
    """Each switch in a configuration, "text_config.use_bias", and the configuration with it the other way."""
    for key, value in list(vars(part_of(config, path)).items()):
        if isinstance(value, transformers.PretrainedConfig):
            yield from switched(config, (*path, key))
        elif key in OPTIONAL or (isinstance(value, bool) and not IDLE.match(key)):
            other = copy.deepcopy(config)
            try:
                setattr(part_of(other, path), key, not value if isinstance(value, bool) else OPTIONAL[key][0 if value else 1])
                read = type(other).from_dict(other.to_dict())
            except Exception:  # noqa: BLE001: it takes no other value
                continue
            if getattr(part_of(read, path), key) == value:
                continue  # another field decides
            yield ".".join((*path, key)), other


def variants(model_type):
    """Configurations whose models together have all kinds of names, each with what is other than usual: the small one, that with a head tied otherwise, and
    where saving changes names those with a switch that gives others."""
    name = class_of(model_type)
    config = configured(model_type)
    model = without_memory(name, config)
    size = sum(one.numel() for one in model.parameters())
    if size > BIGGEST:
        raise Refused(f"the smallest model has {size // 1_000_000} million weights")
    yield "", config
    changes = any(not isinstance(one, PrefixChange) for one in get_model_conversion_mapping(model, add_legacy=False))
    seen, n_others = {hidden(one)[0] for one in model.state_dict()}, 0
    for switch, other in switched(config):
        if switch != TIED and (not changes or n_others == MOST_OTHERS or size > BIGGEST / 4):
            continue
        try:
            names = {hidden(one)[0] for one in without_memory(name, other).state_dict()}
        except Exception:  # noqa: BLE001: no model is so
            continue
        if switch == TIED or names - seen:
            n_others += switch != TIED
            seen |= names
            yield switch, other


def filled_model(model_type, config):
    """With random values."""
    torch.manual_seed(5)
    model = getattr(transformers, class_of(model_type))(copy.deepcopy(config)).to(torch.bfloat16).eval()
    with torch.no_grad():
        for one in model.parameters():
            one.copy_(torch.randn(one.shape).to(one.dtype))
    return model
