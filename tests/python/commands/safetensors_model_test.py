"""What is refused as no sound model in safetensors; what `shardweld verify` passes is read."""
import json
import os
import pathlib
import struct
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "python" / "commands"))
from shardweld_commands import safetensors_model  # noqa: E402
from shardweld_commands.command import CORRUPT, NOT_FOUND, UNSUPPORTED, Failed  # noqa: E402

PAIR = {"a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}, "b": {"dtype": "U8", "shape": [], "data_offsets": [12, 13]}}


def entry(begin, end, shape=None, dtype="U8"):
    return {"dtype": dtype, "shape": [end - begin] if shape is None else shape, "data_offsets": [begin, end]}


class ReadModel(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = scratch.name
        self.put("config.json", b"{}")

    def put(self, name, data):
        with open(os.path.join(self.root, name), "wb") as file:
            file.write(data)

    def weights(self, header, size, name="model.safetensors"):
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        self.put(name, struct.pack("<Q", len(text)) + text + bytes(size))

    def code(self):
        with mock.patch.object(safetensors_model, "refuse_checkpoint"):
            try:
                safetensors_model.read_model(self.root)
                return 0
            except Failed as failed:
                return failed.code

    def test_a_sound_file(self):
        self.weights({"__metadata__": {"format": "pt"}, **PAIR}, 13)
        model = safetensors_model.read_model(self.root)
        self.assertEqual([*model.tensors], ["a", "b"])
        self.assertEqual((model.size(), model.form("a"), model.tensors["b"].size), (13, "BF16 [2, 3]", 1))

    def test_headers_that_are_damaged(self):
        for header, size in ((PAIR, 12), (PAIR, 14), ([], 0)):
            self.weights(header, size)
            self.assertEqual(self.code(), CORRUPT, str(header))
        self.weights({"a": entry(0, 4, dtype="X9")}, 4)
        self.assertEqual(self.code(), UNSUPPORTED)

    def test_sums_of_deltas(self):
        place = os.path.join(self.root, "model.safetensors")
        for header, size, sums in (({"__metadata__": {"a": "x", "c": "y"}, "a": entry(0, 4)}, 4, {"a": "x"}), ({"a": entry(0, 4)}, 4, {}),
                                   ({"a": entry(0, 4)}, 3, None), ({"a": entry(0, 4)}, 5, None), ({"a": 1}, 0, None), (b"{", 0, None), (b"", 0, None)):
            self.weights(header, size)
            with self.subTest(header):
                if sums is not None:
                    self.assertEqual(safetensors_model.read_sums(place), sums)
                else:
                    self.assertRaises(Failed, safetensors_model.read_sums, place)

    def test_indices(self):
        def index(weight_map, **metadata):
            self.put(safetensors_model.INDEX, json.dumps({"metadata": metadata, "weight_map": weight_map}).encode())

        self.weights({"a": entry(0, 4)}, 4, "x.safetensors")
        self.assertEqual(self.code(), NOT_FOUND)
        index({"a": "x.safetensors"}, total_size=4)
        self.assertEqual(self.code(), 0)
        for weight_map, total in (({"a": "x.safetensors"}, 5), ({"a": "x.safetensors", "b": "x.safetensors"}, 4), ({"b": "x.safetensors"}, 4), ({"a": 1}, 4),
                                  ({"a": "../x.safetensors"}, 4), ({"a": "/x.safetensors"}, 4), ({"a": ".x.safetensors"}, 4), (1, 4)):
            index(weight_map, total_size=total)
            self.assertEqual(self.code(), CORRUPT, weight_map)
        index({"a": "y.safetensors"}, total_size=4)
        self.assertEqual(self.code(), CORRUPT)  # x is another model's
        os.unlink(os.path.join(self.root, "x.safetensors"))
        self.assertEqual(self.code(), NOT_FOUND)
        os.mkfifo(os.path.join(self.root, "y.safetensors"))
        self.assertEqual(self.code(), UNSUPPORTED)

    def test_what_lies_beside(self):
        self.assertEqual(self.code(), NOT_FOUND)
        self.put("model.gguf", b"")
        self.assertEqual(self.code(), UNSUPPORTED)
        self.weights(PAIR, 13)
        self.assertEqual(self.code(), 0)
        self.weights(PAIR, 13, "model-00001-of-00002.safetensors")
        self.assertEqual(self.code(), CORRUPT)
        os.unlink(os.path.join(self.root, "model-00001-of-00002.safetensors"))
        os.unlink(os.path.join(self.root, "config.json"))
        self.assertEqual(self.code(), NOT_FOUND)


if __name__ == "__main__":
    unittest.main()
