#!/usr/bin/env bash
# Models that others quantised: what is read of them, what is copied as it is, and what is refused because codes would be taken for values.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
plain="$TESTS/data/quant/llama128/input"
codes() { python3 -B "$TESTS/cli/codes.py" "$@"; }
merged() { expect_code "$1" "${launcher[@]}" "$SHARDWELD" merge --backend hf --no_fsync --overwrite "${@:2}"; }
said() { grep -q "$2" "$1" || fail "no $2 in $1"; }
unsaid() { ! grep -q "$2" "$1" || fail "$2 in $1"; }

# One scale for each matrix, of three shapes and two types; that of activations is left out, with a reason.
for form in BF16: F32: F32:1 BF16:1,1; do
    codes one-scale "$plain" "$WORK/in" "${form%:*}" "${form#*:}" "$WORK/expected"
    for ranks in 1 3; do
        launcher=(mpirun -n "$ranks")
        merged 0 "$WORK/in" "$WORK/model" --dtype bf16 --report "$WORK/report.json" && same_tensors "$WORK/model" "$WORK/expected" "a scale of $form"
    done
    said "$WORK/report.json" "a scale of activations"
    unsaid "$WORK/model/config.json" quantization_config
done
launcher=()

# Without its scale, or with one that does not fit, a code is no value, in whatever type it is asked for; copied as it is stored it may be.
codes change "$WORK/in" "$WORK/lost" drop model.layers.0.mlp.up_proj.weight_scale_inv
for type in bf16 fp16 fp32; do
    merged 5 "$WORK/lost" "$WORK/none" --dtype "$type"
    expect_text "model.layers.0.mlp."
done
merged 5 "$WORK/lost" "$WORK/none" --dtype bf16
expect_text "up_proj.weight is stored as F8_E4M3, and no tensor holds its scales"
merged 5 "$WORK/lost" "$WORK/none" --names module --dtype bf16
merged 5 "$WORK/lost" "$WORK/none" --quantize fp8-channel
merged 5 "$WORK/lost" "$WORK/none" --also "$WORK/beside:bf16"
merged 0 "$WORK/lost" "$WORK/copy" && expect_text "8-bit floats whose scales are not stored"
codes change "$WORK/in" "$WORK/odd" resize model.layers.0.mlp.up_proj.weight_scale_inv 3
merged 5 "$WORK/odd" "$WORK/none" --dtype bf16
expect_text "which belong to no known encoding"
expect_code 5 "$SHARDWELD" merge "$TESTS/data/torch/fsdp2_w2_float8/source" "$WORK/none" --dtype bf16
expect_text "no tensor holds its scales"
expect_absent "$WORK/none"
# Unless the model's own type is such a float.
codes config "$WORK/lost" 'config.update(dtype="float8_e4m3fn"); del config["quantization_config"]'
codes drop-scales "$WORK/lost"
merged 0 "$WORK/lost" "$WORK/cast" --dtype bf16

# Two groups, each tensor by its own: whichever is named first, codes of 4 bits and of 8 look alike here.
for encoding in fp8-channel w4a16 w8a16-channel w4a16-g32 w4a16-g64 w8a16-g32; do
    merged 0 "$plain" "$WORK/$encoding" --quantize "$encoding"
    merged 0 "$WORK/$encoding" "$WORK/$encoding.values" --dtype bf16
done
for pair in fp8-channel:w4a16 w4a16:fp8-channel w4a16-g64:w8a16-g32 w8a16-g32:w4a16-g64 w4a16-g32:fp8-channel w4a16:w8a16-channel w8a16-channel:w4a16; do
    codes two-groups "$WORK/${pair%:*}" "$WORK/${pair#*:}" "$WORK/mixed" "$WORK/values"
    merged 0 "$WORK/mixed" "$WORK/model" --dtype bf16 && same_tensors "$WORK/model" "$WORK/values" "groups $pair"
done
codes config "$WORK/mixed" 'config["quantization_config"]["config_groups"]["group_1"]["targets"] = ["re:.*self_attn.*"]'
merged 5 "$WORK/mixed" "$WORK/none" --dtype bf16
expect_text "may have codes of 4 bits or of 8"

# What nobody reads is refused by the name that config.json has for it, or by its tensors' names.
for method in gptq:qweight awq:qweight bitsandbytes:weight.absmax modelopt:weight_scale_2 hqq:W_q compressed-tensors:; do
    codes others "$plain" "$WORK/others" "${method%:*}" "${method#*:}"
    merged 5 "$WORK/others" "$WORK/none" --dtype bf16
    expect_text "the quantisation ${method%:*} (config.json, quantization_config.quant_method)"
done
# W8A8 keeps names and shapes: it is copied with what config.json and its other files say of it.
merged 0 "$WORK/others" "$WORK/copy"
said "$WORK/copy/config.json" quantization_config
said "$WORK/copy/hf_quant_config.json" '{}'
touch "$WORK/in/hf_quant_config.json"
merged 0 "$WORK/in" "$WORK/model" --dtype bf16
expect_absent "$WORK/model/hf_quant_config.json"

# Recognised by names and types alone: every layout in which weights have other shapes or names. config.json is the model's own, and is not blamed.
while IFS=: read -r kind library; do
    codes layout "$plain" "$WORK/others" "$kind"
    merged 5 "$WORK/others" "$WORK/none" --max_shard_size 64KiB
    expect_text "$library"
    unsaid "$WORK/err" "another model's"
    merged 5 "$WORK/others" "$WORK/none" --dtype bf16
    unsaid "$WORK/err" "another model's"
done < <(codes kinds)
codes layout "$plain" "$WORK/others" mlx-affine
refused() { expect_code 5 "$SHARDWELD" "$@" && expect_text "mlx by its names"; }
refused plan --backend hf "$WORK/others"
refused merge --backend hf "$WORK/others" "$WORK/none" --quantize fp8-channel
refused reshape "$WORK/others" "$WORK/none" --to dcp
refused merge --average "$plain" "$WORK/others" "$WORK/none"
expect_absent "$WORK/none"

# Values beside scales are values: nothing is multiplied twice, and what is written is no quantised model.
codes after-forward "$plain" "$WORK/after"
for options in "" "--dtype bf16"; do
    # shellcheck disable=SC2086
    merged 0 "$WORK/after" "$WORK/model" $options && same_tensors "$WORK/model" "$plain" "values beside scales"
    expect_text "stored as values beside scales"
    unsaid "$WORK/model/config.json" quantization_config
done

# What files say beside their tensors: classes of weights are needed, second names of a tensor are not, all else is named.
codes metadata "$plain" "$WORK/said" '{"format": "pt", "model.norm.weight": "{\"_type\": \"Float8Tensor\", \"_data\": {}}"}'
for options in "" "--names module" "--dtype bf16"; do
    # shellcheck disable=SC2086
    merged 5 "$WORK/said" "$WORK/none" $options
    expect_text torchao
done
codes metadata "$plain" "$WORK/said" '{"format": "mlx", "other.weight": "model.norm.weight"}'
merged 0 "$WORK/said" "$WORK/model" --report "$WORK/report.json"
unsaid "$WORK/report.json" file_metadata
codes metadata "$plain" "$WORK/said" '{"format": "pt", "modelspec.title": "x"}'
merged 0 "$WORK/said" "$WORK/model" --report "$WORK/report.json"
expect_text "modelspec.title"
said "$WORK/report.json" file_metadata

# What config.json promises, and how training called the class.
cp -r "$plain" "$WORK/promises"
codes config "$WORK/promises" 'config.update(architectures=["FSDPLlamaForCausalLM"], mtp_num_layers=1, vision_config={"depth": 2},
                                             auto_map={"AutoModel": "modeling_own.Own"})'
merged 0 "$WORK/promises" "$WORK/model" -v
expect_text "mtp_num_layers 1"
expect_text "(vision_config), but no tensor of one is stored"
expect_text "modeling_own.py"
said "$WORK/model/config.json" '"LlamaForCausalLM"'
said "$WORK/model/config.json" '"mtp_num_layers": 0'
codes config "$WORK/promises" 'config.update(architectures=["PeftModelForCausalLM"], model_type="own", num_hidden_layers=3, num_experts=4)'
merged 0 "$WORK/promises" "$WORK/model"
for text in "which wraps a model" "config.json counts 3 layers" "config.json counts 4 experts"; do expect_text "$text"; done
finish
