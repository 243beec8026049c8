"""What the figures stand on: the arithmetic of pairs, records that stay, a page that is made of them, and a page cache that is what it is said to be."""
import json
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

import arithmetic
import page
import page_cache
import pairs
import plain_io
import process
import records

MACHINE = {"cores": 2, "cpu": "x", "file_system": "ext4", "kernel": "6", "memory_gib": 8, "mpi": "m"}


def merge_record(ranks, walls):
    return {"kind": "merge", "input": "fsdp", "dtype": "bf16", "ranks": ranks, "strategy": "direct", "did": "direct", "cache": "warm", "fsync": "no",
            "gb": 4, "bytes_read": 4e9, "bytes_written": 4e9, "bytes_sent": 0, "rounds": 1, "pairs": len(walls), "peak_bytes": 30 << 20,
            "tool": {"git": "a", "version": "1"},
            "samples": {"merge": {"wall_s": walls, "cpu_s": walls, "gbs": [1.0] * len(walls), "whole_gbs": [0.5] * len(walls)},
                        "copy": {"wall_s": [2.0, 4.0, 8.0], "cpu_s": [1.0] * 3}, "roof": {"wall_s": [1.0] * 3, "gbs": [2.0, 1.25, 1.0]}}}


class Arithmetic(unittest.TestCase):
    def test_quartiles_are_interpolated(self):
        self.assertEqual(arithmetic.quartiles([4, 1, 3, 2]), (1.75, 2.5, 3.25))
        self.assertEqual(arithmetic.quartiles([7]), (7, 7, 7))

    def test_ratios_are_formed_pair_by_pair(self):
        """The median of the ratios, 1.0, is not the ratio of the medians, 0.5."""
        text = page.render("<!-- figures: merge -->\n<!-- end -->", content_of(merge_record(2, [2.0, 1.0, 12.0])))
        self.assertIn("| 4.00 | 2.00 | 1.00 (0.62 - 1.25) | 80 | 30 |", text)

    def test_orders_change_and_each_side_runs_once(self):
        orders = [tuple(pairs.order_of(["a", "b", "c"], pair)) for pair in range(6)]
        self.assertEqual(len(set(orders)), 6)
        self.assertTrue(all(sorted(order) == ["a", "b", "c"] for order in orders))


def content_of(*given):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "p.json")
        for record in given:
            records.put(path, record, MACHINE)
        return records.load(path)


class Records(unittest.TestCase):
    def test_a_new_record_takes_the_place_of_its_case_only(self):
        content = content_of(merge_record(1, [1.0, 1.0, 1.0]), merge_record(2, [1.0, 1.0, 1.0]), merge_record(2, [5.0, 5.0, 5.0]))
        self.assertEqual({record["ranks"]: record["samples"]["merge"]["wall_s"][0] for record in content["records"].values()}, {1: 1.0, 2: 5.0})
        self.assertEqual(records.text_of(json.loads(records.text_of(content))), records.text_of(content))

    def test_another_schema_is_refused(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write('{"schema": 2}')
            file.flush()
            self.assertRaises(SystemExit, records.load, file.name)


class Page(unittest.TestCase):
    def test_prose_stays_and_rendering_again_changes_nothing(self):
        page_text = "before\n<!-- figures: merge -->\nold\n<!-- end -->\nbetween\n<!-- figures: launch -->\n<!-- end -->\nbehind\n"
        once = page.render(page_text, content_of(merge_record(2, [2.0, 1.0, 12.0])))
        self.assertTrue(once.startswith("before\n") and "\nbetween\n" in once and once.endswith("\nbehind\n") and "old" not in once)
        self.assertEqual(page.render(once, content_of(merge_record(2, [2.0, 1.0, 12.0]))), once)

    def test_worst_case_of_a_bound_is_named(self):
        text = page.render("<!-- figures: bounds -->\n<!-- end -->", content_of(merge_record(2, [2.0, 1.0, 12.0])))
        self.assertIn("| merge / `cp -r`, 2 ranks, warm, no fsync | <= 0.7 | 1.00 | 1.00 | fsdp, bf16, direct, warm, no fsync, 4 GB |", text)


    def test_auto_is_held_against_the_better_strategy(self):
        """1.2 beside direct's 1.0 and collective's 4.0."""
        known = [dict(merge_record(2, [wall] * 3), strategy=name) for name, wall in (("direct", 1.0), ("collective", 4.0), ("auto", 1.2))]
        text = page.render("<!-- figures: bounds -->\n<!-- end -->", content_of(*known))
        self.assertIn("| `auto` / the better strategy | <= 1.15 | 1.20 | 1.20 |", text)

    def test_what_ran_at_another_time_is_not_compared(self):
        direct, auto = (dict(merge_record(2, [1.0] * 3), strategy=name) for name in ("direct", "auto"))
        direct["samples"]["copy"] = {"wall_s": [2.0, 2.0, 2.0], "cpu_s": [1.0] * 3}
        text = page.render("<!-- figures: bounds -->\n<!-- end -->", content_of(direct, auto))
        self.assertNotIn("`auto` / the better strategy", text)

    def peer_row(self, work_s, difference):
        record = dict(merge_record(2, [2.0, 2.0, 2.0]), kind="peer-x", peer="X 1", input_bytes=4e9, peer_peak_bytes=60 << 20, difference=difference)
        record["samples"]["peer"] = {"work_s": work_s, "wall_s": [4.0] * 3}
        return page.render("<!-- figures: peers -->\n<!-- end -->", content_of(record))

    def test_a_peer_that_is_faster_is_said_to_be(self):
        self.assertIn("| 1.0 (0.8 - 1.2) | 60 | 30 | equal |", self.peer_row([1.0, 2.0, 3.0], {"tensors": 2, "different": 0}))
        self.assertIn("| 0.9 (0.7 - 1.1), slower |", self.peer_row([0.9, 1.8, 2.7], {}))

    def test_what_differs_is_counted(self):
        self.assertIn("| 25 % of elements differ |", self.peer_row([1.0] * 3, {"tensors": 2, "different": 1, "elements": 8, "different_elements": 2}))

    def test_small_merges_are_held_against_nothing(self):
        text = page.render("<!-- figures: bounds -->\n<!-- end -->", content_of(dict(merge_record(2, [2.0, 1.0, 12.0]), gb=1)))
        self.assertNotIn("cp -r", text)


class PageCache(unittest.TestCase):
    def test_cold_is_cold_and_warm_is_warm(self):
        with tempfile.TemporaryDirectory(dir=os.environ.get("FIGURES_DIR")) as folder:
            path = os.path.join(folder, "file")
            with open(path, "wb") as file:
                file.write(os.urandom(5 * 4096 + 1))
                file.flush()
                os.fsync(file.fileno())
            if page_cache.cached_pages(path) != (6, 6):
                self.skipTest("the file system does not say what is cached")
            page_cache.make_cold([path])
            self.assertEqual(page_cache.cached_pages(path), (0, 6))
            with open(path, "rb", buffering=0) as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
                os.pread(file.fileno(), 1, 0)
            self.assertEqual(page_cache.cached_pages(path), (1, 6))
            page_cache.make_warm([path])
            self.assertEqual(page_cache.cached_pages(path), (6, 6))

    def test_what_stays_cached_is_an_error(self):
        """Pages of tmpfs cannot be dropped."""
        if not os.path.isdir("/dev/shm"):
            self.skipTest("no /dev/shm")
        with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
            file.write(b"x" * 4096)
            file.flush()
            with unittest.mock.patch.object(page_cache, "N_TRIES", 1):  # no need to drop the whole machine's cache
                self.assertRaises(process.Failed, page_cache.make_cold, [file.name])


class PlainIo(unittest.TestCase):
    """Files with sizes at, below and above pages, and empty files among them."""
    EXAMPLES = [plain_io.Files([("a", 1)]), plain_io.Files([("a", 0), ("b", 100_000), ("c", 0), ("d", 4096), ("e", 12_289)]),
                plain_io.Files([("a", 4095), ("b", 1), ("c", 1_000_000), ("d", 3)]), plain_io.files_in("d", 20_000_001, 7_000_000)]

    def test_makes_files_of_at_most_the_size_asked_for(self):
        self.assertEqual(plain_io.files_in("d", 25, 10).files, [("d/0", 10), ("d/1", 10), ("d/2", 5)])
        self.assertEqual(plain_io.Files([]).size, 0)

    def test_shares_tile_all_bytes_and_begin_at_pages(self):
        for files in self.EXAMPLES:
            for n_ranks in (1, 2, 3, 7, 64):
                cuts = [files.cut(rank, n_ranks) for rank in range(n_ranks + 1)]
                self.assertEqual((cuts[0], cuts[-1]), (0, files.size))
                for begin, end in zip(cuts, cuts[1:]):
                    self.assertTrue(0 <= end - begin < files.size / n_ranks + 4098)
                    self.assertTrue(begin == end or next(files.parts(begin, end))[1] % 4096 == 0)

    def test_parts_end_at_multiples_of_the_extent_in_their_file(self):
        for files in self.EXAMPLES:
            for extent in (1000, 4096, 1 << 20):
                at = files.size // 3
                for file, offset, size, position in files.parts(at, files.size, extent):
                    self.assertEqual(position, at)
                    self.assertTrue(0 < size <= extent and offset + size <= files.files[file][1])
                    self.assertTrue((offset + size) % extent == 0 or offset + size == files.files[file][1])
                    at += size
                self.assertEqual(at, files.size)
        self.assertEqual(list(plain_io.Files([("a", 10), ("b", 0), ("c", 5)]).parts(8, 12, 100)), [(0, 8, 2, 8), (2, 0, 2, 10)])

    def test_what_is_copied_are_the_bytes(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(plain_io, "shutil") as kept:
            inputs = []
            for name, size in (("a", 3_000_000), ("b", 5), ("c", 1 << 20)):
                inputs.append(os.path.join(folder, name))
                with open(inputs[-1], "wb") as file:
                    file.write(os.urandom(size))
            for how in ("copy", "copy_behind", "write", "read"):
                found = plain_io.measure(folder, 3, inputs, (how,))
                self.assertAlmostEqual(found["gbs"] * found["wall_s"], (3_000_005 + (1 << 20)) / 1e9)
                target = kept.rmtree.call_args[0][0]
                if how.startswith("copy"):
                    with open(os.path.join(target, "0"), "rb") as file:
                        self.assertEqual(file.read(), b"".join(pathlib.Path(path).read_bytes() for path in inputs))
                else:
                    self.assertEqual(os.listdir(target), ["0"] if how == "write" else [])
            os.truncate(inputs[0], 100)
            files = plain_io.Files([(path, size) for path, size in zip(inputs, (3_000_000, 5, 1 << 20))])
            self.assertRaises(process.Failed, plain_io.Reader(files).read, 0, memoryview(bytearray(1000)))


class Processes(unittest.TestCase):
    def run_python(self, program, sampled=False):
        with tempfile.NamedTemporaryFile() as log:
            return process.run([sys.executable, "-c", program], log.name, sampled)

    def test_memory_of_children_counts_together(self):
        """Parent and child hold 40 MiB each at the same time."""
        hold = "x = bytearray(40 << 20); x[::4096] = b'1' * len(x[::4096]); import time; time.sleep(0.5)"
        taken = self.run_python(f"import subprocess, sys; c = subprocess.Popen([sys.executable, '-c', {hold!r}]); {hold}; c.wait()", True)
        self.assertTrue(80 << 20 < taken.peak_bytes < 140 << 20, taken.peak_bytes)

    def test_cpu_of_children_counts(self):
        work = "import time\nwhile time.process_time() < 0.3: pass"
        taken = self.run_python(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}])")
        self.assertGreaterEqual(taken.cpu_s, 0.3)

    def test_failures_say_what_was_printed(self):
        with self.assertRaisesRegex(process.Failed, "(?s)exit code 3.*why"):
            self.run_python("print('why'); raise SystemExit(3)")


if __name__ == "__main__":
    unittest.main()
