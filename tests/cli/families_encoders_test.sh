#!/usr/bin/env bash
# Encoders and embedding models: names of older files, tied heads, and what sentence-transformers keeps beside a model.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# edit IN OUT CODE: a copy of a model whose `tensors` {name: [dtype, shape, bytes]} the code has changed.
edit() {
    mkdir -p "$2" && cp "$1/config.json" "$2/"
    PYTHONPATH="$TESTS/support" python3 -c "import sys, edit_safetensors as files
tensors = files.read(sys.argv[1] + '/model.safetensors')
$3
files.write(sys.argv[2] + '/model.safetensors', tensors)" "$1" "$2" || fail "cannot make $2"
}

# merged IN EXPECTED [OPTION..]: the merge of IN, in $WORK/merged, has the tensors of EXPECTED.
merged() {
    rm -rf "$WORK/merged"
    expect_code 0 "$SHARDWELD" merge --local_dir "$1" --backend hf --target_dir "$WORK/merged" --report "$WORK/report.json" --no_fsync "${@:3}" || return
    python3 "$TESTS/support/compare_safetensors.py" "$WORK/merged" "$2" >"$WORK/differs" 2>&1 || fail "$1: $(<"$WORK/differs")"
}

model="$WORK/model"
python3 "$TESTS/support/random_model.py" "$TESTS/data/hf_names/bert.ForPreTraining.json" "$model"
merged "$model" "$model"

# Older files: norms with gamma and beta, positions as a tensor.
edit "$model" "$WORK/older" "
norms = {'.weight': '.gamma', '.bias': '.beta'}
tensors = {name if 'LayerNorm' not in name else name.removesuffix('.weight').removesuffix('.bias') + norms[name[name.rindex('.'):]]: tensor
           for name, tensor in tensors.items()}
tensors['bert.embeddings.position_ids'] = ['I64', [1, 64], bytes(512)]"
merged "$WORK/older" "$model"
grep -q 'position_ids' "$WORK/report.json" || fail "the ledger does not list position_ids"

# A head that the model ties is compared and left out; where it differs both are written, and config.json says so.
edit "$model" "$WORK/tied" "
tensors['cls.predictions.decoder.weight'] = tensors['bert.embeddings.word_embeddings.weight']
tensors['cls.predictions.decoder.bias'] = tensors['cls.predictions.bias']"
merged "$WORK/tied" "$model"
for name in weight bias; do
    edit "$WORK/tied" "$WORK/untied_$name" "
dtype, shape, data = tensors['cls.predictions.decoder.$name']
tensors['cls.predictions.decoder.$name'] = [dtype, shape, bytes([data[0] ^ 1]) + bytes(data[1:])]"
    merged "$WORK/untied_$name" "$WORK/untied_$name" && expect_text "though the model ties them"
    grep -q '"tie_word_embeddings": false' "$WORK/merged/config.json" || fail "config.json does not say that the head is its own"
done

# The bare model has no prefix, and what is missing is told.
edit "$model" "$WORK/bare" "tensors = {name.removeprefix('bert.'): tensor for name, tensor in tensors.items() if name.startswith('bert.')}"
sed -i 's/BertForPreTraining/BertModel/' "$WORK/bare/config.json"
merged "$WORK/bare" "$WORK/bare"
edit "$WORK/bare" "$WORK/short" "del tensors['encoder.layer.1.output.dense.bias']"
expect_code 6 "$SHARDWELD" merge --local_dir "$WORK/short" --backend hf --target_dir "$WORK/no" && expect_text "encoder.layer.1.output.dense.bias"

# sentence-transformers' modules come along, weights and all; an own output is overwritten.
hub="$WORK/bare"
mkdir "$hub/1_Pooling" "$hub/2_Dense" "$hub/other"
echo '{"pooling_mode": "mean"}' >"$hub/1_Pooling/config.json"
echo '{"in_features": 72, "out_features": 8}' >"$hub/2_Dense/config.json"
python3 "$TESTS/support/edit_safetensors.py" "$hub/2_Dense/model.safetensors" make linear.weight F32 64
echo '{}' >"$hub/sentence_bert_config.json"
echo '{}' >"$hub/config_sentence_transformers.json"
cp "$hub/2_Dense/model.safetensors" "$hub/other/"
cat >"$hub/modules.json" <<'J'
[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
 {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
 {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"},
 {"idx": 3, "name": "3", "path": "3_Normalize", "type": "sentence_transformers.models.Normalize"}]
J
edit "$hub" "$WORK/plain" ""
merged "$hub" "$WORK/plain" --sha256 && expect_text "2_Dense/model.safetensors belongs to the sentence-transformers model"
for file in modules.json sentence_bert_config.json config_sentence_transformers.json 1_Pooling/config.json 2_Dense/config.json 2_Dense/model.safetensors; do
    cmp -s "$hub/$file" "$WORK/merged/$file" || fail "$file was not copied"
done
expect_absent "$WORK/merged/other"
grep -q "$(sha256sum "$hub/2_Dense/model.safetensors" | cut -d' ' -f1)" "$WORK/report.json" || fail "the report does not have the sum of 2_Dense/model.safetensors"
expect_code 0 "$SHARDWELD" merge --local_dir "$hub" --backend hf --target_dir "$WORK/merged" --overwrite -q --no_fsync
rm -r "$hub/2_Dense"
expect_code 0 "$SHARDWELD" plan --local_dir "$hub" --backend hf && expect_text "2_Dense (which modules.json names)"
finish
