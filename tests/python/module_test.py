#!/usr/bin/env python3
"""The Python module on every checkpoint of tests/data, with NumPy alone.

    module_test.py DATA MAKE_CHECKPOINT [unittest's options]

`import shardweld` must find the module. Types that NumPy lacks are read as integers of their width here."""
import contextlib
import dataclasses
import io
import json
import logging
import os
import pathlib
import pickle
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import zipfile
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np

import shardweld
from shardweld import _errors, _open, _results

DATA, MAKE_CHECKPOINT = (pathlib.Path(sys.argv.pop(1)) for _ in range(2)) if __name__ == "__main__" else (None, None)
logging.getLogger("shardweld").setLevel(logging.ERROR)
_open._NUMPY.update(BF16="u2", F8_E4M3="u1", F8_E5M2="u1", F8_E8M0="u1")


def tensors_in(directory):
    """The tensors of a model's safetensors files as arrays, read without any library."""
    found = {}
    for path in sorted(pathlib.Path(directory).glob("*.safetensors")):
        data = path.read_bytes()
        size = int.from_bytes(data[:8], "little")
        for name, one in json.loads(data[8:8 + size]).items():
            if name != "__metadata__":
                begin, end = (8 + size + offset for offset in one["data_offsets"])
                found[name] = np.frombuffer(data[begin:end], _open._NUMPY[one["dtype"]]).reshape(one["shape"])
    return found


def cases():
    """Each checkpoint of tests/data, and the options that its merge needs."""
    for source in sorted(DATA.rglob("source")):
        if source.is_dir():
            yield source, {} if any(source.rglob("huggingface")) else {"hf_config": source.parent / "hf"}


def small():
    """A checkpoint of several shards that merges at once."""
    source = DATA / "torch" / "fsdp1_w2_fp32_llama" / "source"
    return next(one for one in cases() if one[0] == source)


class BesideMerge(unittest.TestCase):
    """What is read is what a merge writes."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = pathlib.Path(self.folder.name) / "model"

    def tearDown(self):
        self.folder.cleanup()

    def assert_equals_merge(self, source, options):
        try:
            shardweld.merge(source, self.out, no_fsync=True, report=None, lora="drop", **options)
        except shardweld.Error as error:
            with self.assertRaises(shardweld.Error) as raised:
                shardweld.safe_open(source, lora="drop", **options)
            self.assertEqual(raised.exception.code, error.code)
            return False
        written = tensors_in(self.out)
        with shardweld.safe_open(source, lora="drop", **options) as opened:
            self.assertEqual(opened.keys(), sorted(written))
            for name, array in written.items():
                read = opened.get_tensor(name)
                self.assertEqual(read.shape, array.shape, name)
                self.assertEqual(read.tobytes(), array.tobytes(), name)
                self.assert_slices(opened.get_slice(name), array, name)
        return True

    def assert_slices(self, part, array, name):
        self.assertEqual(part.get_shape(), list(array.shape))
        for _ in range(4):
            box = []
            for size in array.shape:
                begin, end = sorted((random.randint(0, size), random.randint(0, size)))
                box.append(random.choice([slice(begin, end), slice(None), slice(begin, end, 2), slice(-end or None, None)]
                                         + ([random.randrange(size)] if size else [])))
            key = tuple(box[:random.randint(0, len(box))])
            got, expected = part[key], array[key]
            self.assertEqual(got.shape, expected.shape, (name, key))
            self.assertEqual(got.tobytes(), expected.tobytes(), (name, key))


class Reading(BesideMerge):
    def test_every_checkpoint_reads_as_it_merges(self):
        random.seed(20)
        n_merged = 0
        for source, options in cases():
            with self.subTest(source=str(source.relative_to(DATA))):
                self.out = pathlib.Path(self.folder.name) / "-".join(source.relative_to(DATA).parts)
                n_merged += self.assert_equals_merge(source, options)
        self.assertGreater(n_merged, 50)

    def test_a_cast_is_merges(self):
        source, options = small()
        for dtype in ("fp32", "fp16"):
            self.out = pathlib.Path(self.folder.name) / dtype
            self.assertTrue(self.assert_equals_merge(source, dict(options, dtype=dtype)))

    def test_an_average_is_merges(self):
        source, options = small()
        self.assertTrue(self.assert_equals_merge([source, source], dict(options, average_weights=[0.25, 0.5])))

    def test_a_model_is_read_as_a_checkpoint(self):
        source, options = small()
        shardweld.merge(source, self.out, **options)
        for more in ({}, {"backend": "hf"}):
            self.assertEqual({name: one.tobytes() for name, one in shardweld.load_file(self.out, **more).items()},
                             {name: one.tobytes() for name, one in tensors_in(self.out).items()})
        with self.assertRaises(shardweld.NotFound):  # below it there is one, and may be others
            shardweld.safe_open(self.out.parent)
        for path in self.out.glob("*.safetensors"):
            path.unlink()
        with self.assertRaises(shardweld.Error):
            shardweld.safe_open(self.out)

    def test_hdf5_is_written_and_read(self):
        source, options = small()
        try:
            shardweld.merge(source, self.out, output_format="hdf5", **options)
        except shardweld.Unsupported as error:
            self.skipTest(str(error))
        self.assertEqual({name: one.tobytes() for name, one in shardweld.load_file(self.out, backend="hdf5").items()},
                         {name: one.tobytes() for name, one in shardweld.load_file(source, **options).items()})

    def test_threads_and_a_forked_process_read_the_same(self):
        source, options = small()
        with shardweld.safe_open(source, **options) as opened:
            names = opened.keys() * 4
            expected = [opened.get_bytes(name) for name in names]
            with ThreadPoolExecutor(8) as pool:
                self.assertEqual(list(pool.map(opened.get_bytes, names)), expected)
            child = os.fork()
            if child == 0:
                os._exit(0 if [opened.get_bytes(name) for name in names] == expected else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_bad_indices(self):
        source, options = small()
        with shardweld.safe_open(source, **options) as opened:
            part = opened.get_slice(opened.keys()[0])
            for key in ((0,) * 9, (..., ...), part.get_shape()[0], slice(part.get_shape()[0] + 1), slice(-part.get_shape()[0] - 1, None), slice(None, None, -1), [0, 1], np.array([0]), np.array([[0, 1]]), True, "a", 0.5, None):
                with self.subTest(key=key), self.assertRaises(IndexError):
                    part[key]
            for kind in (shardweld.UsageError, KeyError):
                with self.assertRaises(kind):
                    opened["none"]
        with self.assertRaises(shardweld.UsageError):
            opened.get_tensor("none")

    def test_it_is_a_mapping_that_closes(self):
        source, options = small()
        opened = shardweld.safe_open(source, **options)
        names = list(opened)
        self.assertEqual((names, len(opened)), (opened.keys(), len(names)))
        self.assertTrue(names[0] in opened and "none" not in opened and names[0])
        part = opened.get_slice(names[0])
        self.assertEqual((part.shape, part[[]].shape[0]), (tuple(part.get_shape()), 0))
        self.assertEqual({name: one.tobytes() for name, one in opened.get_tensors().items()}, {name: opened[name].tobytes() for name in names})
        opened.close()
        for call in (opened.keys, lambda: opened[names[0]], lambda: part[:]):
            with self.assertRaises(shardweld.UsageError):
                call()
        with self.assertRaises(FileNotFoundError) as raised:
            shardweld.safe_open("/nowhere")
        self.assertEqual(raised.exception.filename, "/nowhere")
        with self.assertRaises(shardweld.NotFound) as raised:
            shardweld.safe_open("Qwen/No-Such-Model")
        self.assertIn("hf download Qwen/No-Such-Model --local-dir", str(raised.exception))

    def test_a_file_is_read_as_it_is(self):
        source, options = small()
        shardweld.merge(source, self.out, **options)
        path = next(self.out.glob("*.safetensors"))
        expected = tensors_in(self.out)
        with open(path, "rb") as file, shardweld.safe_open(file) as opened:
            self.assertEqual(opened.metadata(), {"format": "pt"})
            self.assertEqual(opened.keys(), sorted(expected))
            for name, array in expected.items():
                self.assertEqual(opened[name].tobytes(), array.tobytes())
                self.assertEqual(opened.get_bytes(name), array.tobytes())
                self.assert_slices(opened.get_slice(name), array, name)
        odd = pathlib.Path(self.folder.name) / "odd"
        header = json.dumps({"a": {"dtype": "C64", "shape": [1], "data_offsets": [0, 8]}, "b": {"dtype": "F4", "shape": [2, 4], "data_offsets": [8, 12]}})
        odd.write_bytes(len(header).to_bytes(8, "little") + header.encode() + bytes(range(12)))
        with shardweld.safe_open(odd) as opened:
            self.assertEqual((opened["a"].dtype, opened["a"].tobytes(), opened.get_bytes("b")), (np.complex64, bytes(range(8)), bytes(range(8, 12))))
            with self.assertRaises(shardweld.UsageError):  # NumPy's has one in a byte
                opened["b"]
        cut = pathlib.Path(self.folder.name) / "cut"
        for data in (path.read_bytes()[:-1], b"\x05\0\0\0\0\0\0\0hello", b""):
            cut.write_bytes(data)
            with self.assertRaises(shardweld.Corrupt):
                shardweld.load_file(cut)
        theirs = types.ModuleType("safetensors")
        theirs.SafetensorError = type("SafetensorError", (Exception,), {})
        with mock.patch.dict(sys.modules, safetensors=theirs), shardweld.safe_open(path) as opened:
            for wrong, ours in ((lambda: shardweld.load_file(cut), shardweld.Corrupt), (lambda: opened["no"], shardweld.UnknownName),
                                (lambda: opened.get_slice(name)[1000000], IndexError)):
                with self.assertRaises(theirs.SafetensorError) as raised:
                    wrong()
                self.assertIsInstance(raised.exception, ours)
                self.assertEqual(str(pickle.loads(pickle.dumps(raised.exception))), str(raised.exception))

    def test_the_notebook_of_the_documents_runs(self):
        page = (DATA.resolve().parents[1] / "docs/using/python.md").read_text(encoding="utf-8")
        cells = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
        self.assertGreater(len(cells), 5)
        before = os.getcwd()
        shutil.copytree(DATA / "megatron/verl-qwen3-tp2-pp2-torchdist-bf16/source/global_step_10", pathlib.Path(self.folder.name) / "global_step_10")
        os.chdir(self.folder.name)
        try:
            with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.redirect_stderr(io.StringIO()):
                names = {}
                for cell in cells:
                    exec(cell, names)
            self.assertIn("model", shown.getvalue())
            self.assertTrue(os.path.exists("report.html") and os.path.exists("model/shardweld_report.json"))
            self.assertIn("<table>", shardweld.inspect("global_step_10/actor")._repr_html_())
            self.assertIn("qwen3", repr(shardweld.plan("global_step_10/actor")))
        finally:
            os.chdir(before)

    def test_several_checkpoints_are_not_guessed_at(self):
        source, options = small()
        with self.assertRaises(shardweld.UsageError):
            shardweld.merge([source, source], self.out, **options)


def bytes_read(call):
    """What a call gives, and how many bytes this process read from files meanwhile."""
    with open("/proc/self/io", "rb", buffering=0) as counters:
        before = counters.read()
        given = call()
        counters.seek(0)
        behind = counters.read()
    return given, int(behind.split()[1]) - int(before.split()[1]) - len(before)


class Large(BesideMerge):
    """Tensors of megabytes, which several threads read together, in pieces of two tensor and two pipeline ranks or of two ranks."""

    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory()
        cls.checkpoints = {}
        for layout in ("torch_dist", "legacy", "fsdp"):
            path = pathlib.Path(cls.made.name) / layout
            subprocess.run([MAKE_CHECKPOINT, "--gb", "0.05", "--format", layout, "--tp", "2", "--pp", "2", path], check=True, capture_output=True)
            cls.checkpoints[layout] = path / "source", {"hf_config": path / "hf"}

    @classmethod
    def tearDownClass(cls):
        cls.made.cleanup()

    def test_is_read_as_it_merges(self):
        random.seed(33)
        for layout, (source, options) in self.checkpoints.items():
            for more in ({}, {"dtype": "fp32"}):
                with self.subTest(layout=layout, **more):
                    self.out = pathlib.Path(self.folder.name) / "-".join([layout, *more])
                    self.assertTrue(self.assert_equals_merge(source, dict(options, **more)))

    def test_slices_read_their_bytes_only(self):
        for layout, (source, options) in self.checkpoints.items():
            with shardweld.safe_open(source, **options) as opened:
                for name in opened.keys():
                    part = opened.get_slice(name)
                    n_rows = part.get_shape()[0]
                    for box in (slice(n_rows // 8), slice(n_rows // 3, n_rows // 2)):
                        array, n_bytes = bytes_read(lambda: part[box])
                        self.assertEqual(n_bytes, array.nbytes, (layout, name, box))

    def test_columns_of_one_rank_are_read_from_it_alone(self):
        for layout in ("torch_dist", "legacy"):
            source, options = self.checkpoints[layout]
            with shardweld.safe_open(source, **options) as opened:
                part = opened.get_slice("model.layers.1.mlp.down_proj.weight")
                array, n_bytes = bytes_read(lambda: part[:, part.get_shape()[1] // 2:])
                self.assertEqual(n_bytes, array.nbytes, layout)

    def test_a_process_forked_while_threads_read_can_read(self):
        source, options = self.checkpoints["fsdp"]
        for _ in range(8):
            with shardweld.safe_open(source, **options) as opened:
                threads = [threading.Thread(target=lambda: [opened.get_bytes(name) for name in opened.keys()]) for _ in range(4)]
                for thread in threads:
                    thread.start()
                child = os.fork()
                if child == 0:
                    signal.alarm(60)
                    os._exit(0 if all(opened.get_bytes(name) for name in opened.keys()) else 1)
                self.assertEqual(os.waitpid(child, 0)[1], 0)
                for thread in threads:
                    thread.join()

    def test_a_file_that_changes_ends_the_next_read_of_it(self):
        source, options = self.checkpoints["torch_dist"]
        with shardweld.safe_open(source, **options) as opened:
            name = "model.layers.0.mlp.down_proj.weight"
            opened.get_tensor(name)
            for path in source.rglob("*.distcp"):
                os.utime(path, (0, 0))
            with self.assertRaises(shardweld.IoError):
                opened.get_tensor(name)


class Calls(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = pathlib.Path(self.folder.name) / "model"
        self.source, self.options = small()

    def tearDown(self):
        self.folder.cleanup()

    def test_training_checkpoints_are_written_alone_and_beside_a_model(self):
        beside, alone = self.out.parent / "beside", self.out.parent / "alone"
        both = shardweld.merge(self.source, self.out, also=[shardweld.Output(beside, to="fsdp:world=2")],
                               report=self.out.parent / "report.json", **self.options)
        one = shardweld.merge(self.source, alone, to="fsdp:world=2", report=self.out.parent / "alone.json", **self.options)
        self.assertEqual(both.outputs[1].root, one.outputs[0].root)
        self.assertTrue(shardweld.verify(beside, report=self.out.parent / "report.also-1.json"))
        with self.assertRaises(shardweld.UsageError):
            shardweld.safe_open(self.source, to="fsdp:world=2", **self.options)

    def test_what_was_written_is_told_and_verified(self):
        report = self.out.parent / "report.json"
        phases = []
        written = shardweld.merge(self.source, self.out, report=report, on_progress=lambda *one: phases.append(one),
                                  **self.options)
        self.assertEqual(written.outputs[0].directory, str(self.out))
        self.assertEqual(written.outputs[0].tensors, len(tensors_in(self.out)))
        self.assertTrue(phases and all(len(one) == 3 for one in phases))
        self.assertTrue(shardweld.verify(self.out, report=report))
        self.assertTrue(shardweld.diff(self.out, self.out))
        self.assertTrue(shardweld.check(self.out).found)
        self.assertEqual(shardweld.inspect(self.source).format, written.outputs[0].report["input"]["format"])
        self.assertTrue(shardweld.plan(self.source, ranks=4, **self.options)["ledger"])

    def test_results_have_what_their_types_declare(self):
        written = shardweld.merge(self.source, self.out, **self.options)
        plan = shardweld.plan(self.source, ranks=2, also=[shardweld.Output(self.out, dtype="fp16")], **self.options)
        inspection = shardweld.inspect(self.source)
        harmed = self.out.with_name("harmed")
        shutil.copytree(self.out, harmed)
        (harmed / "config.json").write_text("{}")
        weights = next(harmed.glob("*.safetensors"))
        weights.write_bytes(weights.read_bytes()[:-1] + b"!")
        for result, kind, is_good in (
                (inspection, shardweld.Inspection, True), (plan, shardweld.Plan, True), (shardweld.diff(self.out, self.out), shardweld.Comparison, True),
                (shardweld.diff(self.out, harmed), shardweld.Comparison, False), (shardweld.verify(self.out), shardweld.Verification, True),
                (shardweld.verify(harmed), shardweld.Verification, False), (shardweld.check(self.out), shardweld.CheckResult, True),
                (shardweld.check(harmed, target="vllm"), shardweld.CheckResult, False)):
            with self.subTest(kind, is_good=is_good):
                self.assertIs(type(result), kind)
                self.assertEqual((bool(result), bool(result.why)), (is_good, not is_good))
                for one in dataclasses.fields(kind):
                    if one.name not in kind.parts and one.name not in ("is_good", "why", "found", "steps"):
                        self.assertEqual((getattr(result, one.name), result[one.name]), (result.found[one.name],) * 2)
                self.assertEqual(json.loads(json.dumps(result.found)), result.found)
                for text in (repr(result), result._repr_html_()):
                    self.assertTrue(all(part in text for part in ("good", "yes" if is_good else "NO")), text)
        for tensor, kind, raw in ((inspection.tensors[0], _results.StoredTensor, inspection["tensors"][0]), (plan.tensors[0], _results.PlannedTensor, plan["tensors"][0])):
            self.assertEqual(dataclasses.asdict(tensor), {name: raw[name] for name in dataclasses.asdict(tensor)})
            self.assertEqual((type(tensor), tensor["name"]), (kind, tensor.name))
        self.assertIn("fatal", repr(shardweld.check(harmed).findings[0]))
        self.assertEqual(shardweld.inspect(weights).tensors[0].shape, list(tensors_in(self.out)[shardweld.inspect(weights).tensors[0].name].shape))
        self.assertTrue(shardweld.inspect(self.source.parent, steps=True).steps is not None)
        self.assertIsInstance(written.outputs[0], shardweld.WrittenOutput)
        self.assertIn(str(self.out), repr(written))

    def test_a_difference_is_no_exception(self):
        shardweld.merge(self.source, self.out, **self.options)
        other = self.out.with_name("other")
        shardweld.merge(self.source, other, dtype="fp16", **self.options)
        found = shardweld.diff(self.out, other, strict_dtype=True)
        self.assertFalse(found)
        self.assertTrue(found.why)

    def test_paths_are_not_cut_and_not_guessed(self):
        source, out, options = self.source, self.out, self.options
        for path in (f"{source}\0/other", b"/tmp/\xff"):
            for call in (lambda: shardweld.merge(path, out), lambda: shardweld.merge([source, path], out), lambda: shardweld.merge(source, path, **options),
                         lambda: shardweld.merge(source, out, hf_config=path), lambda: shardweld.merge(source, out, report=path, **options),
                         lambda: shardweld.merge(source, out, also=[shardweld.Output(path, dtype="fp16")], **options),
                         lambda: shardweld.merge(source, out, recipe=path, **options), lambda: shardweld.inspect(path), lambda: shardweld.plan(path),
                         lambda: shardweld.diff(source, path), lambda: shardweld.verify(out, report=path), lambda: shardweld.check(path),
                         lambda: shardweld.safe_open(path), lambda: shardweld.load_file(path)):
                with self.assertRaises(ValueError) as raised:
                    call()
                self.assertEqual(raised.exception.code, 2)
        self.assertFalse(out.exists())

    def test_errors_have_code_place_and_hint(self):
        with self.assertRaises(shardweld.NotFound) as raised:
            shardweld.merge("/nowhere", self.out)
        self.assertEqual(raised.exception.code, 3)
        self.assertTrue(raised.exception.hint)
        with self.assertRaises(shardweld.UsageError):
            shardweld.merge(self.source, self.out, no_such_option=1)
        self.out.mkdir()
        (self.out / "file").write_text("mine")
        with self.assertRaises(shardweld.TargetRefused):
            shardweld.merge(self.source, self.out, **self.options)
        self.assertEqual((self.out / "file").read_text(), "mine")

    def test_errors_are_told_in_pythons_words(self):
        shardweld.merge(self.source, self.out, **self.options)
        with self.assertRaises(FileExistsError) as raised:
            shardweld.merge(self.source, self.out, **self.options)
        self.assertIn("overwrite=True", raised.exception.hint)
        with self.assertRaises(ValueError) as raised:
            shardweld.safe_open(DATA / "megatron" / "llama-tp4-legacy-bf16" / "source")
        self.assertRegex(raised.exception.hint, r"(^|\s)hf_config=DIR")
        self.assertEqual(_errors.python_words("`shardweld merge --strict` or --strict, --local_dir DIR, a--b, --dtype bf"),
                         "`shardweld merge --strict` or strict=True, src=DIR, a--b, dtype bf")

    def test_every_exit_code_has_its_class(self):
        for code in range(2, 16):
            error = _errors.error_of({"code": code, "what": "what", "where": ["file a"], "hint": "do"})
            self.assertEqual((error.code, type(error) is shardweld.Error), (code, code == 10))
            self.assertEqual((str(error), error.where, error.hint), ("what [file a]; hint: do", ["file a"], "do"))
            self.assertTrue(type(error).__name__ in shardweld.__all__ and isinstance(error, shardweld.Error))

    def test_damage_is_corrupt(self):
        damaged = self.out.with_name("damaged")
        shutil.copytree(self.source, damaged)
        shard = sorted(damaged.glob("model*.pt"))[0]
        shard.write_bytes(shard.read_bytes()[:5000])
        for call in (shardweld.safe_open, shardweld.inspect, shardweld.plan, lambda one: shardweld.merge(one, self.out)):
            with self.assertRaises(shardweld.Corrupt) as raised:
                call(damaged)
            self.assertIn(shard.name, str(raised.exception))

    def test_a_wrong_checksum_names_its_file(self):
        damaged = self.out.with_name("flipped")
        shutil.copytree(self.source, damaged)
        shard = sorted(damaged.glob("model*.pt"))[0]
        largest = max(zipfile.ZipFile(shard).infolist(), key=lambda record: record.file_size)
        data = bytearray(shard.read_bytes())
        data[largest.header_offset + largest.file_size // 2] ^= 1
        shard.write_bytes(data)
        with self.assertRaises(shardweld.Corrupt) as raised:
            shardweld.merge(damaged, self.out, **self.options)
        self.assertEqual(raised.exception.where, [f"file {shard}"])

    def test_paths_and_dtypes_of_all_kinds(self):
        class Bf16:  # as PyTorch's
            def __str__(self):
                return "torch.bfloat16"

        written = shardweld.merge(os.fsencode(self.source), str(self.out), dtype=Bf16(), **self.options)
        self.assertEqual({one["dtype"] for one in written.outputs[0].report["tensors"]}, {"bfloat16"})
        self.assertTrue(shardweld.verify(os.fsencode(self.out)))

    def test_the_stub_has_what_the_extension_has(self):
        stub = (pathlib.Path(shardweld.__file__).parent / "_core.pyi").read_text()
        declared = set(re.findall(r"^(?:def )?([a-z]\w*|__version__)[(:]", stub, re.MULTILINE))
        found = {name for name in dir(shardweld._core) if not name.startswith("__") or name == "__version__"}
        self.assertEqual(declared, found)
        self.assertEqual(shardweld.__version__, shardweld._core.__version__)
        self.assertRegex(shardweld.__version__, r"^\d+\.\d+\.\d+$")

    def test_the_module_is_the_program(self):
        done = subprocess.run([sys.executable, "-W", "error", "-m", "shardweld", "--version"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(shardweld.__version__, done.stdout)

    def test_an_exception_of_on_progress_ends_the_merge(self):
        def fail(*_):
            raise KeyError("mine")

        with self.assertRaises(KeyError):
            shardweld.merge(self.source, self.out, on_progress=fail, **self.options)

    def test_ctrl_c_stops_and_the_next_merge_ends_it(self):
        sent = []

        def interrupt(*_):
            if not sent:
                sent.append(os.kill(os.getpid(), signal.SIGINT))
                time.sleep(0.5)  # the merge waits here; the thread that called it sees the signal

        with self.assertRaises(KeyboardInterrupt):
            shardweld.merge(self.source, self.out, on_progress=interrupt, **self.options)
        self.assertFalse(self.out.exists())
        shardweld.merge(self.source, self.out, **self.options)
        self.assertTrue(shardweld.verify(self.out))

    def test_nothing_is_printed_and_no_mpi_starts(self):
        code = ("import logging, os, sys, shardweld\n"
                "if len(sys.argv) > 3: logging.disable()\n"
                "src, out = sys.argv[1:3]\n"
                "report = out + '.json'\n"
                "shardweld.merge(src, out, report=report, on_progress=lambda *_: None, overwrite=True)\n"
                "shardweld.load_file(src), shardweld.inspect(src), shardweld.plan(src, ranks=4)\n"
                "shardweld.diff(out, out), shardweld.verify(out, report=report), shardweld.check(out, target='vllm', tp=8)\n"
                "assert not {'torch', 'ctypes', 'mpi4py'} & set(sys.modules) - before\n")
        code = "import sys, numpy\nbefore = set(sys.modules)\n" + code
        # A rank's variables, which would make MPI start, and, were there none of its launcher, fail.
        rank = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "1", "PMIX_RANK": "1", "PMI_RANK": "1", "PMI_SIZE": "4"}
        for more in ([], ["quiet"]):
            done = subprocess.run([sys.executable, "-c", code, str(self.source), str(self.out), *more], capture_output=True,
                                  env={**os.environ, **rank})
            self.assertEqual((done.returncode, done.stdout), (0, b""), done.stderr)
        self.assertEqual(done.stderr, b"")


if __name__ == "__main__":
    unittest.main()
