"""How commands read their command lines."""
import unittest

from shardweld_commands.command import USAGE, Command, Failed


class CommandLineTest(unittest.TestCase):
    def parse(self, *words, name="check"):
        command = Command(name, lambda given: 0, {"usage": "", "summary": "", "about": [], "arguments": ["local_dir"], "options": [
            {"name": "local_dir", "value": "DIR"}, {"name": "tp", "value": "N"}, {"name": "target", "value": "NAME", "words": ["vllm", "tgi"]}, "json",
            {"name": "all", "letter": "a"}, {"name": "crc", "value": "[before|off]"}, {"name": "also", "value": "DIR", "is_repeated": True}]})
        return command._parse(list(words)).values

    def test_takes_names_letters_and_values(self):
        for words, values in ((("a", "--tp", "8"), {"local_dir": ["a"], "tp": ["8"]}), (("--tp=8", "-a"), {"tp": ["8"], "all": ["true"]}),
                              (("--also", "x", "--also=y"), {"also": ["x", "y"]}), (("--crc", "b"), {"crc": ["before"], "local_dir": ["b"]}),
                              (("--crc", "off"), {"crc": ["off"]}), (("--", "--tp"), {"local_dir": ["--tp"]})):
            self.assertEqual(self.parse(*words), values)

    def test_takes_what_other_tools_call_it(self):
        for words in (("-tp", "8"), ("-tp=8",), ("--tp-size", "8"), ("--tensor-parallel-size", "8"), ("--tensor_parallel_size=8",), ("--num-shard", "8")):
            self.assertEqual(self.parse(*words), {"tp": ["8"]}, words)

    def test_says_what_is_meant(self):
        for words, hint in ((("--gpus", "8"), "did you mean --tp N?"), (("--jsn",), "did you mean --json?"), (("--vllm",), "did you mean --target vllm?"),
                            (("--target", "x"), "shardweld check --help lists the options"), (("-z",), "shardweld check --help lists the options")):
            with self.assertRaises(Failed) as refused:
                self.parse(*words)
            self.assertEqual((refused.exception.code, refused.exception.hint), (USAGE, hint))


if __name__ == "__main__":
    unittest.main()
