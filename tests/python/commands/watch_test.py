"""What a watch knows of a run's steps and of its own diary: looks at a run over time, signs by framework, lines of earlier watches."""
import json
import os
import pathlib
import re
import tempfile
import unittest
from unittest import mock

from shardweld_commands.command import IO, LOCKED, USAGE, Failed, Given
from shardweld_commands.watch import books, steps
from shardweld_commands.watch.request import words_of

SECOND = 10**9
TRACKER = "latest_checkpointed_iteration.txt"


def told_of(run):
    """What `inspect --steps` would say of directories that are called step-N, checkpoint-N or global_step_N."""
    rows = [{"number": int(re.sub(r"\D", "", path.name)), "name": path.name, "directory": str(path.parent), "has_tracker": path.name.startswith("global_step_")}
            for path in pathlib.Path(run).rglob("*") if re.fullmatch(r"(step-|checkpoint-|global_step_)\d+", path.name)]
    trackers = [{"directory": str(path.parent), "file": path.name, "number": None, "modified_ns": path.stat().st_mtime_ns} for path in pathlib.Path(run).glob(TRACKER)]
    return {"number": None, "steps": sorted(rows, key=lambda row: (row["number"], row["directory"])), "trackers": trackers}


class LookoutTest(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        patched = mock.patch.object(steps, "ask", told_of)
        patched.start()
        self.addCleanup(patched.stop)
        self.run_of()

    def run_of(self, every=1, first=0, left=(), last_news=None):
        self.lookout = steps.Lookout(self.place.name, [os.path.join(self.place.name, "out")], 30, every, first, dict(left), last_news)

    def put(self, name, text="x"):
        path = pathlib.Path(self.place.name, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def save(self, step, text="x"):
        self.put(step + "/__0_0.distcp", text)
        self.put(step + "/.metadata", text)

    def next(self, now):
        self.look = self.lookout.look(now)
        return self.look.next.step.name if self.look.next else ""

    def test_waits_until_files_have_been_quiet_for_two_intervals(self):
        self.save("step-1")
        self.assertEqual(self.next(100), "")
        self.assertTrue(self.look.is_awaited)
        self.assertEqual(self.next(159), "")
        self.put("step-1/more.json")
        self.assertEqual((self.next(161), self.next(220), self.next(221)), ("", "", "step-1"))
        self.lookout.settle(self.look.next, "made", 221)
        self.assertEqual((self.next(1000), self.look.n_waiting, self.look.idle_s), ("", 0, 779))

    def test_takes_the_lowest_number_and_holds_no_step_up_for_another(self):
        self.put("step-9/__0_0.distcp")
        for step in ("step-10", "step-100", "out/step-1"):
            self.save(step)
        self.next(0)
        self.assertEqual(self.look.news, [("step-9", "waiting for .metadata")])
        self.assertEqual((self.next(60), self.look.news), ("step-10", []))
        self.lookout.settle(self.look.next, "refused", 60)
        self.assertEqual(self.next(61), "step-100")
        self.assertEqual(self.lookout.waiting(), {"step-9": "waiting for .metadata", "step-100": "it was not its turn"})

    def test_takes_the_newest_where_that_is_asked_for(self):
        self.lookout = steps.Lookout(self.place.name, [], 30, 1, 0, {}, None, is_newest_next=True)
        for step in ("step-9", "step-10", "step-100"):
            self.save(step)
        self.put("step-8/__0_0.distcp")
        self.next(0)
        self.assertEqual(self.next(60), "step-100")
        self.lookout.settle(self.look.next, "refused", 60)
        self.assertEqual(self.next(61), "step-10")
        self.lookout.settle(self.look.next, "made", 61)
        self.lookout.first = 10
        self.assertEqual((self.next(62), self.look.news, self.lookout.waiting()), ("", [], {}))

    def test_takes_only_what_is_asked_for(self):
        self.run_of(every=10, first=20)
        for step in ("step-10", "step-20", "step-25"):
            self.save(step)
        self.next(0)
        self.assertEqual((self.next(60), self.look.n_steps), ("step-20", 1))

    def test_tells_once_of_steps_of_one_name(self):
        self.save("a/step-3")
        self.save("b/step-3")
        self.next(0)
        self.assertEqual(self.look.doubles, [os.path.join(self.place.name, "b", "step-3")])
        self.assertEqual((self.next(60), self.look.doubles), ("step-3", []))

    def test_takes_a_step_again_once_it_is_another(self):
        self.save("step-1")
        self.next(0)
        self.assertEqual(self.next(60), "step-1")
        first = self.look.next
        self.assertFalse(first.was_made)
        self.lookout.settle(first, "made", 60)
        self.save("step-1", "another")
        self.assertEqual((self.next(100), self.next(160)), ("", "step-1"))
        self.assertTrue(self.look.next.was_made)
        self.lookout.settle(first, "made", 160)  # written to while it was merged: what was made is not of these files
        self.assertEqual((self.next(161), self.next(221)), ("", "step-1"))

    def test_leaves_what_was_removed_while_it_is_the_same(self):
        self.save("step-1")
        self.next(0)
        self.run_of(left={"step-1": self.lookout.print_of("step-1")})
        self.assertEqual((self.next(0), self.next(60)), ("", ""))
        self.save("step-1", "another")
        self.assertEqual((self.next(61), self.next(121)), ("", "step-1"))

    def test_tries_what_failed_once_more_after_a_while(self):
        self.save("step-1")
        self.next(0)
        self.next(60)
        self.lookout.settle(self.look.next, "failed", 60)
        self.assertEqual((self.next(600), self.next(660)), ("", "step-1"))

    def test_takes_a_copy_without_signs_when_it_was_quiet_for_long(self):
        self.put("global_step_5/actor/model_world_size_1_rank_0.pt")
        self.next(0)
        self.assertFalse(self.look.is_awaited)
        self.assertEqual((self.next(599), self.next(600)), ("", "global_step_5"))
        self.assertFalse(self.look.next.has_signs)
        self.put("global_step_6/actor/model_world_size_1_rank_0.pt")
        self.put(TRACKER)  # it names none
        self.next(700)
        self.assertEqual(self.next(5000), "")

    def test_says_when_a_step_is_gone(self):
        self.put("step-1/__0_0.distcp")
        self.next(0)
        pathlib.Path(self.place.name, "step-1", "__0_0.distcp").unlink()
        pathlib.Path(self.place.name, "step-1").rmdir()
        self.next(1)
        self.assertEqual(self.look.news, [("step-1", "it was deleted before it was complete")])
        self.assertEqual(self.lookout.waiting(), {})

    def test_goes_on_with_a_clock_that_old_files_do_not_set_back(self):
        self.save("step-1")
        for name in ("__0_0.distcp", ".metadata"):
            os.utime(os.path.join(self.place.name, "step-1", name), (1, 1))
        self.run_of(last_news=-5000.0)
        self.next(0)
        self.assertEqual(self.look.idle_s, 5000)
        self.save("step-2")
        self.next(1)
        self.assertEqual(self.look.idle_s, 0)


class SignsTest(unittest.TestCase):
    def verdict(self, name, paths, trackers=()):
        """Files in the order in which they are written, a second apart."""
        step = steps.Step(int(re.sub(r"\D", "", name)), name, "/run", name.startswith(("global_step", "iter_")))
        files = dict(sorted((path, (1, at * SECOND)) for at, path in enumerate(paths, 1)))
        return steps.verdict_on(step, files, dict(trackers), SECOND // 10)

    def test_are_the_last_file_of_each_framework(self):
        for name, files in (("step-5", ["__0_0.distcp", "__1_0.distcp", ".metadata"]), ("checkpoint-5", ["model.safetensors", "trainer_state.json"]),
                            ("checkpoint-5", ["model.safetensors", "random_states_0.pkl"]),
                            ("checkpoint-5", ["global_step5/mp_rank_00_model_states.pt", "latest", "trainer_state.json"]),
                            ("checkpoint_5", ["pytorch_model_fsdp_0/__0_0.distcp", "pytorch_model_fsdp_0/.metadata", "random_states_0.pkl"]),
                            ("checkpoint_5", ["random_states_0.pkl", "pytorch_model/mp_rank_00_model_states.pt", "latest"]),
                            ("checkpoint-5", ["trainer_state.json", "iter_0000005/__0_0.distcp", "iter_0000005/.metadata", TRACKER])):
            self.assertEqual(self.verdict(name, files).waits_for, "", files)
            begun = self.verdict(name, files[:-1])
            self.assertEqual(begun.waits_for, "trainer_state.json" if files[-1] == "random_states_0.pkl" else files[-1])
            self.assertFalse(begun.is_unfinished)

    def test_include_what_megatron_and_verl_write_last(self):
        tracker = {TRACKER: (5, 1000 * SECOND)}
        self.assertEqual(self.verdict("iter_0000005", ["common.pt", "__0_0.distcp", ".metadata"], tracker).waits_for, "metadata.json")
        files = ["actor/model/dist_ckpt/__0_0.distcp", "actor/model/dist_ckpt/.metadata"]
        self.assertEqual(self.verdict("global_step_5", files, tracker).waits_for, "actor/ckpt_contents.json")

    def test_are_trackers_that_name_the_step_or_a_later_one(self):
        files = ["actor/model_world_size_1_rank_0.pt"]
        for trackers, waits_for, is_unfinished in (({}, TRACKER, False), ({TRACKER: (4, 1000 * SECOND)}, TRACKER + " to name it", True),
                                                   ({TRACKER: (5, 1000 * SECOND)}, "", False), ({TRACKER: (6, 1000 * SECOND)}, "", False)):
            found = self.verdict("global_step_5", files, trackers)
            self.assertEqual((found.waits_for, found.is_unfinished), (waits_for, is_unfinished))
        states = ["mp_rank_00_model_states.pt"]
        self.assertEqual(self.verdict("global_step5", states, {TRACKER: (5, 9 * SECOND)}).waits_for, "latest")
        self.assertEqual(self.verdict("global_step5", states, {"latest": (5, 9 * SECOND)}).waits_for, "")

    def test_are_none_once_weights_are_written_behind_them(self):
        self.assertFalse(self.verdict("step-5", ["__0_0.distcp", ".metadata"]).is_old)
        self.assertTrue(self.verdict("step-5", [".metadata", "__0_0.distcp"]).is_old)
        self.assertTrue(self.verdict("global_step_5", ["a.json", "b.json", "actor/model.pt"], {TRACKER: (5, 2 * SECOND)}).is_old)
        self.assertFalse(self.verdict("checkpoint-5", ["a.safetensors", "trainer_state.json", "rng_state_1.pth"]).is_old)  # other ranks' come whenever they come

    def test_are_unknown_of_some_steps_and_missing_of_empty_ones(self):
        self.assertFalse(self.verdict("step-5", ["model.safetensors"]).has_signs)
        self.assertTrue(self.verdict("step-5", ["__0_0.distcp"]).has_signs)
        self.assertTrue(self.verdict("step-5", []).is_unfinished)


class DiaryTest(unittest.TestCase):
    def earlier(self, *rows):
        earlier = books.Earlier()
        for row in rows:
            earlier.read(row if isinstance(row, bytes) else json.dumps(row).encode())
        return earlier

    def test_tells_the_next_watch_what_was_removed_and_what_is_owed(self):
        found = self.earlier({"event": "merging", "step": "a", "number": 1, "owes": ["upload", "then"]}, {"event": "uploaded", "step": "a", "owes": ["then"]},
                             {"event": "removed", "step": "d", "inputs": "12"}, {"event": "removed", "step": "e", "inputs": "34"}, {"event": "merging", "step": "e", "owes": []},
                             {"event": "merging", "step": "$(x)", "owes": ["then"]}, b"null", b'{"event": "removed", "st')
        self.assertEqual((found.owed, found.removed, found.numbers), ({"a": ["then"], "e": []}, {"d": "12"}, {"a": 1}))

    def test_tells_which_steps_have_deltas_and_where_the_last_one_leads(self):
        delta = {"event": "delta", "number": 1, "directory": "/d"}
        found = self.earlier(dict(delta, step="a", version="000000"), dict(delta, step="b", number=2, version="000001"), dict(delta, step="c", number=3, version="000002"),
                             dict(delta, step="a", directory="/e", version="000007"), {"event": "merging", "step": "b"}, {"event": "made", "step": "a"},
                             {"event": "delta_begun", "step": "x", "directory": "/d", "version": "000003"})
        chain = found.chains["/d"]
        self.assertEqual((chain.step, chain.number, chain.version, chain.done, chain.begun["step"]), ("c", 3, 2, {"c"}, "x"))
        self.assertEqual(found.chains["/e"].version, 7)

    def test_has_one_writer_and_goes_on_behind_a_line_that_was_cut_off(self):
        with tempfile.TemporaryDirectory() as out:
            path = os.path.join(out, books.DIARY)
            pathlib.Path(path).write_text('{"event": "removed"')
            first = books.Diary(out, None, self.fail)
            first.write("removed", step="a", inputs="1")
            with self.assertRaises(Failed) as refused:
                books.Diary(out, None, self.fail)
            self.assertEqual(refused.exception.code, LOCKED)
            os.close(first._file)
            self.assertEqual(books.Diary(out, None, self.fail).earlier.removed, {"a": "1"})
            os.unlink(path)
            os.mkfifo(path)
            with self.assertRaises(Failed) as refused:
                books.Diary(out, None, self.fail)
            self.assertEqual(refused.exception.code, IO)

    def test_writes_metrics_as_prometheus_text(self):
        with tempfile.TemporaryDirectory() as place:
            path = os.path.join(place, "metrics")
            counts = books.Counts()
            counts.update(steps_made_total=3, bytes_written_total=10**12)
            counts.write(path)
            text = pathlib.Path(path).read_text()
        for line in ("# TYPE shardweld_watch_steps_made_total counter\nshardweld_watch_steps_made_total 3\n", "\nshardweld_watch_bytes_written_total 1000000000000\n",
                     "# TYPE shardweld_watch_last_step gauge\nshardweld_watch_last_step -1\n"):
            self.assertIn(line, text)


class ValuesTest(unittest.TestCase):
    def test_are_words_of_a_posix_shell(self):
        for text, words in (("env 'b  c' \"d\\$e \\x\" f\\ g h''", ("env", "b  c", "d$e \\x", "f g", "h")), ("sh -c 'echo $X'", ("sh", "-c", "echo $X")), ("  env\n x ", ("env", "x"))):
            self.assertEqual(words_of(Given({"then": [text]}), "then"), words)
        for text in ("env 'b", 'env "b', "env \\", "", " ", "no-such-program x"):
            with self.assertRaises(Failed) as refused:
                words_of(Given({"then": [text]}), "then")
            self.assertEqual(refused.exception.code, USAGE)


if __name__ == "__main__":
    unittest.main()
