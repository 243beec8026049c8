"""scripts/budget.py fails on what is one too many, and on limits that were raised without a reason."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class BudgetTest(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        self.root = pathlib.Path(self.place.name)
        for part in ("src/core", "src/app/settings", "python/commands"):
            shutil.copytree(ROOT / part, self.root / part)
        (self.root / "scripts").mkdir()
        self.limits = self.root / "scripts/budget.json"
        self.assertEqual(self.budget("--lower")[0], 0)

    def budget(self, *words):
        done = subprocess.run([sys.executable, "-B", str(ROOT / "scripts/budget.py"), "--root", str(self.root), *words], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)
        return done.returncode, done.stderr.decode()

    def append(self, path, text):
        with open(self.root / path, "a", encoding="utf-8") as file:
            file.write(text)

    def test_what_is_one_too_many(self):
        self.assertEqual(self.budget(), (0, ""))
        long_file = self.root / "src/core/long.cpp"
        for path, text, name in (("src/core/text.hpp", "\nstruct OneMore final : Base<int> {};\n", "named types"), ("src/core/text.hpp", "\nint f();\n", "C++ tokens"),
                                 ("src/core/index.hpp", "\nenum class Character : int { a };\n", "names defined twice"),
                                 ("python/commands/shardweld_commands/text.py", "# a line\n", "lines of Python in commands"),
                                 ("src/core/long.cpp", "\n" * 501, "files of more than 500 lines")):
            before = (self.root / path).read_text(encoding="utf-8") if (self.root / path).exists() else ""
            self.append(path, text)
            code, said = self.budget()
            self.assertEqual(code, 1, name)
            self.assertIn(f"{name}: ", said)
            (self.root / path).write_text(before, encoding="utf-8")
        long_file.unlink()
        table = self.root / "src/app/settings/option_table.cpp"
        row = '{"local_dir", '
        text = table.read_text(encoding="utf-8")
        table.write_text(text.replace(row, '{"one_more", "", kMerge},\n' + row, 1), encoding="utf-8")
        self.assertIn("options: ", self.budget()[1])
        table.write_text(text, encoding="utf-8")
        # A comment and an empty line are free.
        self.append("src/core/text.hpp", "\n// struct Comment {};\n/* struct Other {}; */\n")
        self.assertEqual(self.budget(), (0, ""))

    def test_a_raised_limit_has_a_reason(self):
        def git(*words):
            subprocess.run(["git", "-C", str(self.root), "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, stdout=subprocess.DEVNULL)

        def write(limit, raised):
            budget["limits"]["named types"], budget["raised"] = limit, raised
            self.limits.write_text(json.dumps(budget), encoding="utf-8")

        budget = json.loads(self.limits.read_text(encoding="utf-8"))
        at = budget["limits"]["named types"]
        git("init", "-q")
        git("add", "scripts")
        git("commit", "-qm", "limits")
        write(at + 1, [])
        self.assertIn(f"raised from {at} to {at + 1}", self.budget()[1])
        write(at + 1, [["named types", at, at + 1, " "]])
        self.assertEqual(self.budget()[0], 1)
        write(at + 1, [["named types", at, at + 1, "a reader of another format"]])
        self.assertEqual(self.budget(), (0, ""))
        # Also when it has been committed.
        write(at + 1, [])
        git("commit", "-qam", "raised")
        self.assertEqual(self.budget()[0], 1)


if __name__ == "__main__":
    unittest.main()
