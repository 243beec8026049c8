#!/usr/bin/env bash
# Damaged, hostile and contradicting rank files of FSDP: each fault in a copy of a checkpoint that is accepted without it.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/errors.sh"
good=torch/fsdp1_w2_fp32_llama
hsdp=torch/hsdp2_w4_bf16_llama
zero=model_world_size_2_rank_0.pt
one=model_world_size_2_rank_1.pt
norm=model.norm.weight
embedding=model.embed_tokens.weight
marker="$WORK/executed"

# What the faults are made with is harmless by itself.
start "$good"
accepted "rank files as they are"
for file in "$source"/*.pt; do
    damage repickle "$file"
done
accepted "rank files written again, unaligned"
damage add_record "$source/$one" x/../../evil hello
accepted "a record with a name that climbs"
damage double "$source/$one" 60
accepted "2^60 leaves by sharing"
damage call "$source/$one" operator attrgetter name
accepted "a global that is none of the denied"
for case in nan_inf_values unaligned_stored_zip; do
    start "torch/$case"
    accepted "$case"
done

# Rows that config.json has no token for, where all else fits.
start "$good"
sed -i 's/"vocab_size": [0-9]*/"vocab_size": 92/' "$source/huggingface/config.json"
refused "rows of added tokens" 6 0 "config.json says vocab_size 92, the checkpoint has 97 rows" "--vocab_size 97"

# The world.
start "$good"
rm "$source/$one"
refused "missing rank file" 3 3 "$one"
start "$good"
rm "$source/fsdp_config.json"
accepted "without fsdp_config.json"
cp "$source/$zero" "$source/model_world_size_1_rank_0.pt"
refused "two world sizes" 6 3 "model_world_size_1_rank_0.pt" "$zero" "fsdp_config.json"
start "$good"
cp "$source/$zero" "$source/model_world_size_1_rank_0.pt"
accepted "a stale file of another world size, and fsdp_config.json"
start "$good"
truncate -s 28 "$source/fsdp_config.json"
refused "cut fsdp_config.json" 4 3 "fsdp_config.json" "at byte"
start "$good"
sed -i 's/"world_size": 2/"world_size": 4/' "$source/fsdp_config.json"
refused "another world size" 6 0 "fsdp_config.json says world_size 4" "$zero"
start "$good"
rm "$source"/*.pt
refused "no rank file" 3 0 "fsdp_config.json" "no rank file" "$zero"
start "$good"
mv "$source/$zero" "$source/swap"
mv "$source/$one" "$source/$zero"
mv "$source/swap" "$source/$one"
refused "swapped rank files" 6 3 "$zero" "$one" "give each file the name that it was saved with"
start "$good"
python3 -c 'import sys; sys.stdout.write("[" * 200000)' >"$source/huggingface/config.json"
refused "a config.json of brackets" 4 0 "config.json"

# Mesh dimensions by hand.
start "$good"
more=(--mesh_dim_names fsdp --mesh_shape 2)
merge_copy 0 "${more[@]}"
expect_code 0 "${merging[@]}"
rm -rf "$target"
more=(--mesh_dim_names ddp,fsdp --mesh_shape 2,2)
refused "a mesh of more ranks" 2 3 "--mesh_shape [2, 2] has 4 ranks" "the checkpoint has 2"
more=(--mesh_dim_names ddp,fsdp --mesh_shape 2,1)
refused "a mesh that does not fit" 6 0 "over the mesh fsdp 1" "$zero" "--mesh_dim_names"
more=()

# Cut and empty files, archives.
start "$good"
truncate -s 40000 "$source/$one"
refused "cut rank file" 4 3 "$one" "truncated"
start "$good"
truncate -s -10 "$source/$one"
refused "rank file without its last bytes" 4 0 "$one" "truncated"
start "$good"
truncate -s 0 "$source/$one"
refused "empty rank file" 4 0 "$one" "empty"
fault "$good" "directory overwritten" 4 0 "$one" "central directory" -- break_directory "$one"
fault "$good" "directory past the end" 4 0 "$one" "local header" -- move_directory "$one"
fault "$good" "record twice" 4 0 "$one" "two entries with one name" -- repeat_record "$one" data/0
fault "$good" "missing record" 4 0 "$one" "data/0" -- drop_record "$one" data/0
fault "$good" "short record" 4 0 "$one" -- shorten_record "$one" data/0 4
fault "$good" "compressed" 5 0 "$one" "compressed" -- deflate "$one"
fault "$good" "big endian" 5 0 "$one" "big" -- set_record "$one" byteorder big

# Pickles that call, or claim more than there is.
fault "$good" "os.system" 4 3 "$zero" "os.system" -- call "$zero" os system "touch $marker"
fault "$good" "posix.system" 4 0 "$one" "posix.system" -- call "$one" posix system "touch $marker"
fault "$good" "eval" 4 0 "$zero" "eval" -- call "$zero" builtins eval "open('$marker', 'w')"
fault "$good" "INST" 4 0 "$zero" "disallowed opcode INST" -- call_by_inst "$zero" os system "touch $marker"
fault "$good" "nesting" 4 0 "$zero" "deep" -- nest "$zero" 300000
for code in huge_string huge_memo negative_long underflow; do
    fault "$good" "$code" 4 0 "$zero" -- opcode "$zero" "$code"
done
fault "$good" "no STOP" 4 0 "$zero" -- no_stop "$zero"
expect_absent "$marker"

# Tensors that reach out of their storage.
fault "$good" "shape larger than the storage" 4 3 "$zero" "$norm" -- resize "$zero" "$norm" 100,100
fault "$good" "huge shape" 4 0 "$zero" "$norm" -- resize "$zero" "$norm" 1099511627776,1099511627776
fault "$good" "negative shape" 4 0 "$zero" "$norm" -- set_size "$zero" "$norm" -1
fault "$good" "offset past the end" 4 0 "$zero" "$norm" -- set_offset "$zero" "$norm" 1099511627776
fault "$good" "huge storage" 4 0 "$zero" "$norm" -- set_storage "$zero" "$norm" 4 4611686018427387904
fault "$good" "missing storage" 4 0 "$zero" "$norm" "data/99999" -- set_storage "$zero" "$norm" 2 99999
fault "$good" "storage key that climbs" 4 0 "$zero" "$norm" -- set_storage "$zero" "$norm" 2 ../../../../etc/passwd
fault "$good" "huge global shape" 6 0 "$zero" "$norm" -- global_size "$zero" "$norm" 4611686018427387904
fault "$good" "global shape whose volume overflows" 4 0 "$zero" "$norm" -- global_size "$zero" "$norm" 4611686018427387904,4

# Ranks that contradict each other.
fault "$good" "another dtype" 6 3 "$norm" "F32 in $zero" "BF16 in $one" -- set_storage "$one" "$norm" 1 BFloat16Storage
fault "$good" "a row less" 6 0 "$one" "$embedding" "[47, 40]" "[48, 40]" "--mesh_shape" -- resize "$one" "$embedding" 47,40
fault "$good" "another global shape" 6 0 "$one" "$norm" "[39]" -- global_size "$one" "$norm" 39
fault "$good" "a key missing on one rank" 6 3 "$norm is in $zero but not in $one" -- drop_entry "$one" "$norm"
fault "$good" "a plain tensor on one rank" 6 0 "$norm" "$zero" "a plain tensor in $one" -- plain_entry "$one" "$norm"
fault "$good" "shards of another dimension" 4 0 "$embedding" "$one" "shard_order" -- shard_dim "$one" "$embedding" 1
fault "$good" "a dimension that is not there" 4 0 "$norm" "$one" -- shard_dim "$one" "$norm" 7
fault "$good" "a partial sum" 5 3 "$norm" "$zero" "Partial" "redistribute" -- placement "$zero" "$norm" Partial
fault "$good" "an unknown placement" 5 0 "$norm" "$zero" "RaggedShard" -- placement "$zero" "$norm" RaggedShard
fault "$good" "a flat parameter" 5 0 "$zero" "LOCAL_STATE_DICT" -- rename_entry "$zero" "$norm" _fsdp_wrapped_module._flat_param
fault "$good" "a dictionary for a tensor" 5 0 "$zero" "$norm" -- add_entry "$zero" "$norm" "{}"
fault "$good" "two names that become one" 6 0 "$zero" "_orig_mod.$norm" -- copy_entry "$zero" "$norm" "_orig_mod.$norm"
start "$good"
for file in "$zero" "$one"; do
    damage rename_entry "$source/$file" "$norm" "_orig_mod.module.$norm"
    damage add_entry "$source/$file" steps 17
    damage add_entry "$source/$file" model.layers.0._extra_state None
done
accepted "wrapped names, a number and a state"

# Plain tensors: a row on one rank and none on the other.
value=torch/fsdp2_value_w2_bf16_qwen2
start "$value"
for file in "$zero" "$one"; do
    damage plain_entry "$source/$file" score.weight
done
merge_copy 3
expect_code 0 "${merging[@]}"
same_as_expected "$WORK/copy" "$target"
start "$value"
for file in "$zero" "$one"; do
    damage plain_entry "$source/$file" model.norm.weight
done
damage resize "$source/$zero" model.norm.weight 23
refused "plain rows that config.json does not imply" 6 0 "model.norm.weight" "[23]" "[48]" "--mesh_shape"

# Replicas.
start "$hsdp"
rm "$source/model_world_size_4_rank_0.pt" "$source/model_world_size_4_rank_3.pt"
accepted "one copy of each shard"
rm "$source/model_world_size_4_rank_2.pt"
refused "no copy of a shard" 3 3 "model_world_size_4_rank_0.pt" "model_world_size_4_rank_2.pt"
start "$hsdp"
damage flip_record "$source/model_world_size_4_rank_2.pt" data/0
more=(--replicas verify)
refused "copies that differ" 6 3 "model_world_size_4_rank_2.pt" "model_world_size_4_rank_0.pt"
finish
