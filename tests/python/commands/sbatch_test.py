"""What a job script asks for, of a plan's JSON."""
import subprocess
import unittest

from shardweld_commands.command import Given
from shardweld_commands.sbatch import clock, script_of, seconds_in

PLAN = {"input": {"dir": "/in\n#SBATCH --wrap", "format": "huggingface"}, "total_bytes": 5000, "ranks": 5, "peak_bytes": 1 << 30, "read_by_rank": [10 ** 11] * 5,
        "written_by_rank": [0] * 5, "advice": {"rate": 10 ** 9, "is_stated": True, "forecasts": [{"ranks": 5, "total_s": 20.0, "slow_s": 502.0}]}, "metadata_s": 1.5, "target": "/o u't", "merge_words": ["--local_dir", "/in", "--exclude=-x"]}


class SbatchTest(unittest.TestCase):
    def test_reads_times(self):
        for text, seconds in (("30:00", 1800), ("1-02:30:00", 95400), ("15", 15), ("infinite", None), ("", None), ("1:2:3:4", None), ("-1", None)):
            self.assertEqual(seconds_in(text), seconds, text)
        self.assertEqual((clock(300), clock(95400)), ("00:05:00", "26:30:00"))

    def test_asks_for_what_the_plan_needs(self):
        lines = script_of(PLAN, 3, None, Given({"account": ["me"], "module": ["mpi"]})).split("\n")
        for line in ("#SBATCH --nodes=3", "#SBATCH --ntasks=5", "#SBATCH --ntasks-per-node=2", "#SBATCH --mem-per-cpu=704M", "#SBATCH --account=me", "#SBATCH --output=shardweld-%j.out", "module load mpi", "#SBATCH --time=00:15:00",
                     "target='/o u'\"'\"'t'", "    --if_complete verify", "    --exclude=-x \\"):
            self.assertIn(line, lines)
        self.assertFalse([line for line in lines if line.startswith("#SBATCH --wrap") or "@" in line and "USR1@120" not in line and '"$@"' not in line and "[@]" not in line])
        self.assertIn("#SBATCH --time=00:10:00", script_of(PLAN, 3, 600, Given()))
        self.assertEqual(subprocess.run(["bash", "-n"], input=script_of(PLAN, 3, 600, Given()).encode(), check=False).returncode, 0)


if __name__ == "__main__":
    unittest.main()
