#!/usr/bin/env bash
# Damaged and hostile files: each fault in a copy of a checkpoint that is accepted without it.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/errors.sh"
legacy=megatron/llama-tp4-legacy-bf16
dist=megatron/qwen2-tp2-pp2-torchdist-bf16
one=mp_rank_01/model_optim_rng.pt
layer=decoder.layers.1.mlp.linear_fc1.weight
fc1=decoder.layers.mlp.linear_fc1.weight
embedding=embedding.word_embeddings.weight
marker="$WORK/executed"

# What the faults are made with is harmless by itself.
start "$legacy"
accepted "rank files as they are"
for file in "$iter"/*/*.pt; do
    damage repickle "$file"
done
accepted "rank files written again"
damage add_record "$iter/$one" model_optim_rng/../../evil hello
accepted "a record with a name that climbs"
start "$dist"
accepted "torch_dist as it is"
damage repickle "$iter/.metadata"
damage repickle "$iter/common.pt"
damage dcp_blob "$iter/.metadata" "$embedding" repickle
accepted "torch_dist written again"

# Files that are not there.
start "$legacy"
rm -r "$iter/mp_rank_01"
refused "missing rank directory" 3 0 "mp_rank_01"
start "$legacy"
rm "$iter/$one"
refused "missing rank file" 3 3 "mp_rank_01/model_optim_rng.pt"
start "$legacy"
rm -r "$iter/mp_rank_03"
refused "missing last rank" 3 0 "mp_rank_03"
start "$legacy"
touch "$iter/.shardweld-dropping"
refused "holes that an earlier version left" 3 3 ".shardweld-dropping" "zeros"
start "$legacy"
rm "$source/latest_checkpointed_iteration.txt"
accepted "without a tracker file, one iteration"
echo 99 >"$source/latest_checkpointed_iteration.txt"
refused "a tracker that points nowhere" 3 0 "latest_checkpointed_iteration.txt" "names iteration 99"
echo "../../../etc" >"$source/latest_checkpointed_iteration.txt"
accepted "a tracker that climbs: the only iteration is taken"
cp -r "$iter" "$source/iter_0000020"
refused "a tracker that climbs, two iterations" 2 0 "latest_checkpointed_iteration.txt is not a number" "iter_0000020" "--iteration"
start "$dist"
rm "$iter/__1_0.distcp"
refused "missing shard" 3 0 "__1_0.distcp"
start "$dist"
rm "$iter/.metadata"
refused "missing metadata" 3 0 ".metadata"
start "$dist"
rm "$iter/common.pt"
accepted "without common.pt, which holds no tensor"
start "$dist"
rm "$iter/metadata.json"
accepted "without metadata.json"

# Cut and empty files.
start "$legacy"
truncate -s 90000 "$iter/$one"
refused "cut rank file" 4 0 "$one"
start "$legacy"
truncate -s -10 "$iter/$one"
refused "rank file without its last bytes" 4 0 "$one"
start "$legacy"
truncate -s 0 "$iter/$one"
refused "empty rank file" 4 0 "$one" "empty"
start "$dist"
truncate -s -1000 "$iter/__1_0.distcp"
refused "cut shard" 4 3 "__1_0.distcp"
start "$dist"
truncate -s 0 "$iter/__1_0.distcp"
refused "empty shard" 4 0 "__1_0.distcp"
start "$dist"
truncate -s 20000 "$iter/.metadata"
refused "cut metadata" 4 0 ".metadata"
start "$dist"
truncate -s 0 "$iter/.metadata"
refused "empty metadata" 4 0 "/.metadata" "empty"
start "$dist"
truncate -s 9000 "$iter/common.pt"
refused "cut common.pt" 4 3 "common.pt"
start "$dist"
truncate -s 0 "$iter/common.pt"
refused "empty common.pt" 4 0 "common.pt"
start "$dist"
echo '{"sharded_backend": "hdf5"}' >"$iter/metadata.json"
refused "an unknown sharded_backend" 5 0 "sharded_backend" "hdf5"

# Zip archives.
fault "$legacy" "directory overwritten" 4 0 "$one" -- break_directory "$one"
fault "$legacy" "record offsets past the end" 4 0 "$one" -- move_directory "$one"
fault "$legacy" "record missing" 4 0 "$one" "data/10" "$layer" -- drop_record "$one" data/10
fault "$legacy" "data.pkl missing" 4 0 "$one" "data.pkl" -- drop_record "$one" data.pkl
fault "$legacy" "record too short" 4 0 "$one" "storage '10'" "$layer" -- shorten_record "$one" data/10 2
fault "$legacy" "record twice" 4 0 "$one" "data/10" -- repeat_record "$one" data/10
fault "$legacy" "compressed" 5 0 "$one" "compressed" -- deflate "$one"
fault "$legacy" "big endian" 5 0 "$one" "big" -- set_record "$one" byteorder big
fault "$dist" "common.pt directory overwritten" 4 0 "common.pt" -- break_directory common.pt
fault "$dist" "blob without its record" 4 3 "distcp" "$embedding" -- dcp_blob .metadata "$embedding" drop_record data/0
fault "$dist" "blob with a short record" 4 0 "distcp" "$embedding" -- dcp_blob .metadata "$embedding" shorten_record data/0 2
fault "$dist" "compressed blob" 5 0 "distcp" "$embedding" -- dcp_blob .metadata "$embedding" deflate
fault "$dist" "big endian blob" 5 0 "distcp" "$embedding" -- dcp_blob .metadata "$embedding" set_record byteorder big
fault "$dist" "blob with a broken directory" 4 0 "distcp" "$embedding" -- dcp_blob .metadata "$embedding" break_directory

# Pickles that call, in every place that holds one.
for file in "$one" .metadata common.pt; do
    case="$dist"
    [[ "$file" != "$one" ]] || case="$legacy"
    fault "$case" "os.system in $file" 4 3 "$file" "os.system" -- call "$file" os system "touch $marker"
    fault "$case" "posix.system in $file" 4 0 "$file" "posix.system" -- call "$file" posix system "touch $marker"
    fault "$case" "eval in $file" 4 0 "$file" "eval" -- call "$file" builtins eval "open('$marker', 'w')"
    fault "$case" "INST in $file" 4 0 "$file" "disallowed opcode INST" -- call_by_inst "$file" os system "touch $marker"
    fault "$case" "nesting in $file" 4 0 "$file" "deep" -- nest "$file" 300000
    for code in huge_string huge_memo negative_long underflow; do
        fault "$case" "$code in $file" 4 0 "$file" -- opcode "$file" "$code"
    done
    fault "$case" "no STOP in $file" 4 0 "$file" -- no_stop "$file"
done
fault "$dist" "os.system in a blob" 4 0 "distcp" "os.system" "$embedding" -- dcp_blob .metadata "$embedding" call os system "touch $marker"
fault "$dist" "nesting in a blob" 4 0 "distcp" "deep" "$embedding" -- dcp_blob .metadata "$embedding" nest 300000
start "$legacy"
damage double "$iter/$one" 60
accepted "2^60 leaves by sharing"
damage call "$iter/$one" operator attrgetter name
accepted "a global that is none of the denied"
expect_absent "$marker"

# Tensors that reach out of their storage.
fault "$legacy" "shape larger than the storage" 4 3 "$one" "$layer" -- resize "$one" "$layer" 100,64
fault "$legacy" "offset past the end" 4 0 "$one" "$layer" -- set_offset "$one" "$layer" 1099511627776
fault "$legacy" "negative offset" 4 0 "$one" "$layer" -- set_offset "$one" "$layer" -5
fault "$legacy" "negative shape" 4 0 "$one" "$layer" -- set_size "$one" "$layer" -1,64
fault "$legacy" "huge shape" 4 0 "$one" "$layer" -- resize "$one" "$layer" 1099511627776,1099511627776
fault "$legacy" "huge storage" 4 0 "$one" "$layer" -- set_storage "$one" "$layer" 4 4611686018427387904
fault "$legacy" "storage key that climbs" 4 0 "$one" "$layer" -- set_storage "$one" "$layer" 2 ../../../../etc/passwd
fault "$legacy" "unknown storage type" 5 0 "$one" "$layer" "WeirdStorage" -- set_storage "$one" "$layer" 1 WeirdStorage

# The metadata of torch_dist.
for path in /etc/hostname ../../../../../etc/hostname /dev/zero "" .; do
    fault "$dist" "path '$path'" 4 0 ".metadata" "$path" -- dcp_path .metadata __1_0.distcp "$path"
done
fault "$dist" "path of a directory above" 4 0 ".metadata" "../__1_0.distcp" -- dcp_path .metadata __1_0.distcp ../__1_0.distcp
fault "$dist" "overlapping chunks" 4 0 "$fc1" -- dcp_chunk .metadata "$fc1" 2 offsets 0,0,0
fault "$dist" "chunks that overlap in part" 6 0 "$fc1" -- dcp_chunk .metadata "$fc1" 0 sizes 1,50,64
fault "$dist" "missing chunk" 6 0 "$fc1" -- dcp_drop_chunk .metadata "$fc1"
fault "$dist" "chunk beyond the tensor" 4 0 "$fc1" -- dcp_chunk .metadata "$fc1" 0 offsets 9,0,0
fault "$dist" "negative chunk" 4 0 "$fc1" -- dcp_chunk .metadata "$fc1" 0 offsets -1,0,0
fault "$dist" "huge tensor" 4 0 "$fc1" -- dcp_size .metadata "$fc1" 1099511627776,1099511627776,64
fault "$dist" "negative tensor" 4 0 "$fc1" -- dcp_size .metadata "$fc1" -4,192,64
fault "$dist" "chunk without storage" 4 0 "$fc1" -- dcp_drop_storage .metadata "$fc1"
fault "$dist" "blob past the end" 4 3 "$embedding" "distcp" -- dcp_place .metadata "$embedding" offset 1099511627776
fault "$dist" "negative blob offset" 4 0 "$embedding" -- dcp_place .metadata "$embedding" offset -8
fault "$dist" "huge blob" 4 0 "$embedding" "distcp" -- dcp_place .metadata "$embedding" length 1099511627776
fault "$dist" "blob that is no archive" 4 0 "$embedding" "distcp" -- dcp_place .metadata "$embedding" offset 5
fault "$dist" "other dtype than the blob's" 6 0 "$embedding" "distcp" -- dcp_dtype .metadata "$embedding" float32
fault "$dist" "other dtype of the same size" 6 0 "$embedding" "distcp" -- dcp_dtype .metadata "$embedding" float16
fault "$dist" "blob of another shape" 6 0 "$embedding" "distcp" -- dcp_blob .metadata "$embedding" blob_size 64,128
finish
