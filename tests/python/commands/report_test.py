"""What `shardweld report` takes from a report, and what its page and its text may hold."""
import json
import os
import re
import tempfile
import unittest

from shardweld_commands import text
from shardweld_commands.command import CORRUPT, UNSUPPORTED, Failed
from shardweld_commands.report import Record, read_report, report_text
from shardweld_commands.report_page import escaped, page_of

# Every place of the schema holds what does not belong there.
HOSTILE = r"""{"schema":1,"tool":[1],"command":"<script>alert(1)</script>",
"exit":{"code":"x","name":{},"message":"<img src=x onerror=alert(1)>"},
"environment":{"hosts":[1,{},"<b>"],"ranks":-4,"command_line":["<i>",7,"\u001b[31m"],"<u>":["\u202e"],"half":"\ud800"},
"input":{"dir":"\"><script>","format":[],"facts":{"<tp>":1e400}},"provenance":7,
"phases":[{"name":"<p>","wall_s":1e308},{"wall_s":-1},5,{"name":"b","wall_s":"x"},{"wall_s":NaN}],
"crc":{"records":-1},"base":{"equal":[]},
"ranks":[{"rank":1e99,"host":"<h>","bytes_read":18446744073709551615,"phases":[{"name":"<q>"}]},3,{"rank":true,"bytes_sent":1234567890123456789012345678901234567890}],
"ledger":{"stored":18446744073709551615,"consumed":18446744073709551615,"replica":-1,"padding":"x",
"ignored":[{"pattern":"<g>","reason":"</small>","bytes":18446744073709551615},9]},
"files":[{"name":"<f>"},8],"tensors":[{"name":"<t>","bytes":18446744073709551615},{"bytes":1}],
"sanity":[],"warnings":[{"code":"<c>","tensor":5,"text":"<x>"},2]}"""


def read(content):
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "r.json")
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return read_report(path)


def record(**members):
    return Record({"command": "merge", "ledger": {}, "phases": [], **members})


class ReportTest(unittest.TestCase):
    def test_takes_only_reports_of_runs(self):
        for content, code, why in (
                ("{", CORRUPT, "no JSON object"), ("[]", CORRUPT, "no JSON object"), ("", CORRUPT, "no JSON object"),
                (b'{"schema":1,"ledger":{},"phases":[],"a":"\xff"}', CORRUPT, "no JSON object"), ("\ufeff{}", CORRUPT, "no JSON object"),
                ("[" * 100, CORRUPT, "no JSON object"), ("[" * 1000000, CORRUPT, "no JSON object"), ('{"a":' * 1000000, CORRUPT, "no JSON object"),
                ('{"schema":1,"command":"other"}', CORRUPT, "no ledger and no phases"), ('{"schema":2,"ledger":{},"phases":[]}', UNSUPPORTED, "schema 2"),
                ('{"ledger":{},"phases":[]}', UNSUPPORTED, "schema null")):
            with self.assertRaises(Failed) as refused:
                read(content)
            self.assertEqual(refused.exception.code, code, content[:50])
            self.assertIn(why, refused.exception.what)

    def test_escapes_everything(self):
        hostile = read(HOSTILE)
        page = page_of(hostile)
        tags = set(re.findall(r"<([^ >]*)", page))
        self.assertFalse(tags & {"script", "img", "b>", "u", "tp", "q", "h", "g", "f", "t", "c", "x"}, tags)
        self.assertFalse(re.search("[\x1b\u202e\ud800]|nan|inf", page))
        self.assertIn("default-src 'none'", page)
        self.assertIn("&lt;script&gt;alert(1)&lt;/script&gt;", page)
        self.assertRegex(report_text(hostile), r"\A[\n -~]*\Z")
        self.assertEqual(escaped("<b a=\"1\" c='2'>&amp;"), "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;")
        self.assertEqual(escaped("a\x1b\x7f\x9b\u202e\u2066z\n"), "a\ufffd\ufffd\ufffd\ufffd\ufffdz\n")
        self.assertEqual(escaped("na\xefve \u20ac"), "na\xefve \u20ac")

    def test_says_what_was_taken_up_and_fits_a_terminal(self):
        shown = report_text(record(input={"facts": {"t": 2, "te": 1, "tp": 2}}, resume={"bytes_reused": 659000000},
                                   provenance={"standing": "consistent", "evidence": ["x" * 200, "y" * 60]}))
        self.assertIn("parallel sizes  tp 2\n", shown)
        self.assertIn("taken up        659 MB that an earlier merge had written\n", shown)
        self.assertIn("x,\n           yyy", shown)

    def test_has_the_command_with_its_launcher_or_says_what_is_not_known(self):
        own = "shardweld merge a b"
        for launcher, ranks, unseen, command, note in (
                ("mpirun -n 2 /x/shardweld merge a b", 2, None, "mpirun -n 2 /x/shardweld merge a b", ""),
                ("mpirun -n 2 ./job.sh", 2, None, own, "started by mpirun -n 2 ./job.sh"), ("", 2, "started by srun", own, "started by srun"),
                (None, 2, None, own, "how the ranks were started is not known"), (None, 1, None, own, "")):
            found = record(environment={"ranks": ranks, "command_line": own, "launcher": launcher, "launcher_unseen": unseen})
            self.assertEqual((found.command, found.command_note), (command, note))

    def test_is_headed_by_model_and_output(self):
        for told, headline in (({"model_class": "A", "target": "/x/merged/"}, "A in merged"), ({"target": "merged"}, "merge into merged"),
                               ({"model_class": "A"}, "A"), ({}, "merge")):
            self.assertEqual(record(**told).headline(), headline)
        self.assertEqual(record(environment={"started": "2026-02-28T23:59:59Z"}).started, "2026-02-28 23:59 UTC")
        self.assertEqual(record(environment={"started": "<b>2026-02-28T23:59"}).started, "")

    def test_counts_what_several_checkpoints_leave_aside_together(self):
        rows = [{"pattern": "rng", "reason": "state", "bytes": 2}, {"pattern": "x", "reason": "state", "bytes": 4},
                {"pattern": "rng", "reason": "state", "bytes": 3}]
        found = record(mixed=[{"dir": "/a"}, {"dir": "/b"}], ledger={"stored": 9, "ignored": rows})
        self.assertEqual([row.bytes for row in found.ledger], [0, 0, 0, 5, 4])
        self.assertEqual(found.input, "2 checkpoints: /a, /b")

    def test_shows_some_of_many_ranks_and_the_slowest_among_them(self):
        many = record(ranks=[{"rank": at, "phases": [{"name": "execute", "wall_s": 2.0 if at == 777 else 1.0}]} for at in range(1000)])
        shown = [rank.rank for rank in many.shown_ranks(48)]
        self.assertLessEqual(len(shown), 49)
        self.assertIn(777, shown)
        self.assertEqual(record().shown_ranks(48), [])

    def test_bounds_what_is_shown(self):
        long = record(tensors=[{"name": "n" * 100000, "bytes": at} for at in range(1000)], warnings=[{"code": "c", "text": "t " * 100000}] * 1000,
                      phases=[{"name": "=" * 100000, "wall_s": 1}] * 1000, ledger={"stored": 1, "ignored": [{"pattern": str(at)} for at in range(100000)]})
        self.assertEqual((len(long.largest), long.largest[0][1], len(long.warnings), len(long.phases)), (12, 999, 200, 64))
        self.assertLess(len(page_of(long)), 10 << 20)


class TextTest(unittest.TestCase):
    def test_numbers_are_short(self):
        for seconds, shown in ((0.046, "0.05 s"), (12.3, "12 s"), (600, "10.0 min"), (10000, "2.8 h")):
            self.assertEqual(text.duration(seconds), shown)
        for count, shown in ((0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (4310000000, "4.31 GB"), (10 ** 19, "10000 PB")):
            self.assertEqual(text.human_bytes(count), shown)
        self.assertEqual((text.percent(1, 8), text.percent(1, 0)), ("12.5 %", "0.0 %"))
        self.assertEqual((text.bar(1, 1000000), text.bar(5, 10), text.bar(0, 10)), ("#", "#" * 12, ""))

    def test_lines_are_as_broad_as_columns(self):
        self.assertEqual(text.fitted("a  训练训练 run", 10), "a\n  训练训练\n  run")
        self.assertEqual(text.fitted("  shardweld merge 训练 b\nshort  line", 18), "  shardweld \\\n    merge 训练 b\nshort  line")
        self.assertEqual(text.wrapped("训练 训练 ab", 2, 8), "训练\n  训练\n  ab\n")

    def test_nothing_unseen_is_printed(self):
        self.assertEqual(text.printable("a\x1b\u202e\xe9"), "a\\x1b\\xe2\\x80\\xae\xe9")
        self.assertEqual(text.printable("abcdef", 3), "abc...")


if __name__ == "__main__":
    unittest.main()
