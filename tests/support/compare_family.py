"""compare_family.py MODEL extra EXPECTED: MODEL is EXPECTED without its MTP layer. compare_family.py MODEL norms SOURCE: its gated norms in fp32 are
those of SOURCE's zarr directories plus 1."""
import glob
import json
import struct
import sys

import edit_safetensors as files
import small_families as small

model, what, other = sys.argv[1:]
got = {name: one for path in glob.glob(model + "/*.safetensors") for name, one in files.read(path).items()}
if what == "extra":
    wanted = {name: one for path in glob.glob(other + "/*.safetensors") for name, one in files.read(path).items()}
    config = json.load(open(model + "/config.json"))
    prefix, others = small.extra_layer(config, config["num_hidden_layers"])
    extra = {name for name in wanted if name.startswith(prefix)} | {name + ".weight" for name in others.values()}
    assert len(extra) > 10 and got == {name: one for name, one in wanted.items() if name not in extra}, set(got) ^ set(wanted)
    assert config.get("num_nextn_predict_layers", 0) == 0, config
else:
    for layer in range(3):
        stored = open(f"{other}/decoder.layers.{layer}.self_attention.out_norm.weight/0", "rb").read()
        values = [struct.unpack("<f", b"\0\0" + stored[at:at + 2])[0] for at in range(0, len(stored), 2)]
        assert got[f"model.layers.{layer}.linear_attn.norm.weight"][2] == b"".join(struct.pack("<f", value + 1) for value in values), layer
