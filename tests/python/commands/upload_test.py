"""What is checked before anything is uploaded, and what a failed client's words mean."""
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "python" / "commands"))
from shardweld_commands import upload  # noqa: E402
from shardweld_commands.command import (CORRUPT, INTERRUPTED, NO_CLIENT, NO_NETWORK, NO_REPOSITORY, NO_RIGHTS, NO_TOKEN,  # noqa: E402
                                        NOT_FOUND, USAGE, Failed)


def verdict(check, *arguments):
    """The code and the message of what is refused; 0 for what is not."""
    try:
        check(*arguments)
        return 0, ""
    except Failed as failed:
        return failed.code, failed.what


class Directory(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.root = os.path.realpath(self.scratch.name)

    def put(self, name, text="x"):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def remove(self, name):
        os.unlink(os.path.join(self.root, name))


class Names(unittest.TestCase):
    def test_the_hub_s_names_only(self):
        for name in ("me/model", "My-Org/a_b.c-1", "0/1"):
            self.assertEqual(verdict(upload.check_repository, name), (0, ""), name)
        for name in ("", "model", "a/b/c", "/model", "me/", "-me/model", "me/model.", "me/mo del", "me/a--b", "me/a..b", "me/x.git", "me/\u00e4",
                     "https://huggingface.co/me/model", "me/" + 97 * "x"):
            self.assertEqual(verdict(upload.check_repository, name)[0], USAGE, name)

    def test_branches(self):
        for name in ("", "main", "step-100", "a/b"):
            self.assertEqual(verdict(upload.check_branch, name)[0], 0, name)
        for name in ("-x", "/x", "x/", "x.lock", "a..b", "a b"):
            self.assertEqual(verdict(upload.check_branch, name)[0], USAGE, name)

    def test_a_command_that_a_shell_understands(self):
        self.assertEqual(upload.Upload("out", "me/model", False, "", "", mock.Mock()).retry(), "shardweld upload out --hf_upload_path me/model")
        self.assertEqual(upload.Upload("it is here", "me/model", True, "b", "/x/hf", mock.Mock()).retry(),
                         "shardweld upload 'it is here' --hf_upload_path me/model --private --revision b --hf_cli /x/hf")


class CheckModel(Directory):
    def setUp(self):
        super().setUp()
        self.put("config.json", "{}")
        self.put("model-00001-of-00002.safetensors")
        self.put("model-00002-of-00002.safetensors")
        self.put("model.safetensors.index.json",
                 '{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}')

    def fault(self):
        code, what = verdict(upload.check_model, self.root)
        begin = f"{self.root} is not a finished model: "
        self.assertIn(code, (0, NOT_FOUND))
        return what[len(begin):] if what.startswith(begin) else what

    def test_a_whole_model(self):
        self.assertEqual(self.fault(), "")

    def test_an_adapter(self):
        for name in ("config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"):
            self.remove(name)
        self.put("lora_adapter/adapter_config.json", "{}")
        self.put("lora_adapter/adapter_model.safetensors")
        self.assertEqual(self.fault(), "")
        self.root += "/lora_adapter"
        self.assertEqual(self.fault(), "")

    def test_a_part_that_is_missing(self):
        self.remove("model-00002-of-00002.safetensors")
        self.assertEqual(self.fault(), "model.safetensors.index.json names model-00002-of-00002.safetensors, which is missing or empty")
        self.put("model-00002-of-00002.safetensors", "")
        self.assertEqual(self.fault(), "model-00002-of-00002.safetensors is empty or dangling")
        self.remove("config.json")
        self.remove("model-00002-of-00002.safetensors")
        self.assertEqual(self.fault(), "it has no config.json")
        self.put("config.json", "{}")
        self.remove("model-00001-of-00002.safetensors")
        self.assertEqual(self.fault(), "it has no weights (*.safetensors)")

    def test_a_damaged_index(self):
        for text in ("", "{", "[]", "{}", '{"weight_map": 1}', '{"weight_map": {}}', "[" * 100000):
            self.put("model.safetensors.index.json", text)
            self.assertEqual(self.fault(), "model.safetensors.index.json is not a JSON object with a weight_map of tensors", text[:20])
        self.put("model.safetensors.index.json", '{"weight_map": {"a": 1}}')
        self.assertEqual(self.fault(), "model.safetensors.index.json gives the tensor a no file name")
        for outside in ("/etc/hostname", "../../etc/hostname", "a/../../x"):
            self.put("model.safetensors.index.json", f'{{"weight_map": {{"a": "{outside}"}}}}')
            self.assertEqual(self.fault(), f"model.safetensors.index.json names the file {outside}, which leaves the directory")

    def test_outputs_that_are_still_written(self):
        self.put(".shardweld-partial/x")
        self.assertEqual(self.fault(), "it holds .shardweld-partial, left by a run that has not finished")
        self.put(".out.shardweld-partial/config.json", "{}")
        self.root += "/.out.shardweld-partial/"
        self.assertEqual(self.fault(), "it is the partial output of a run")
        self.root = "/nonexistent/model"
        self.assertEqual(self.fault(), "/nonexistent/model is not a readable directory")


class FilesSent(Directory):
    def refused(self):
        code, what = verdict(upload.files_sent, self.root, [])
        self.assertIn(code, (0, CORRUPT))
        return what.partition(":")[0]

    def test_what_nobody_means_to_publish(self):
        here = self.root
        secret = self.put("../" + os.path.basename(here) + "-secret")
        self.addCleanup(os.unlink, secret)
        for name, to, why in (("notes.txt", secret, f"leads out of the model's directory, to {os.path.realpath(secret)}"),
                              ("tokenizer", "/usr", "leads out of the model's directory, to /usr"), ("gone", "nowhere", "is a dangling link"),
                              ("loop", "loop", "is a dangling link"), ("again", ".", "is a link to a directory")):
            os.symlink(to, os.path.join(here, name))
            self.assertEqual(self.refused(), f"{here}/{name} {why}")
            self.remove(name)
        os.mkfifo(os.path.join(here, "fifo"))
        self.assertEqual(self.refused(), f"{here}/fifo is not a regular file")
        self.remove("fifo")
        for name in (".env", ".cache/x", ".ssh/id", "sub/.netrc"):
            path = self.put(name)
            self.assertIn("begins with a dot", self.refused(), name)
            os.unlink(path)
            if "/" in name:
                os.rmdir(os.path.dirname(path))
        for name in (".gitattributes", ".git/config", ".cache/huggingface/download/x.lock", "sub/x.json", "shardweld_report.json"):
            self.put(name)
        self.put("config.json", "{}")
        os.symlink("config.json", os.path.join(here, "alias.json"))
        self.assertEqual(upload.files_sent(here, ["shardweld_report.json"]), {".gitattributes": 1, "alias.json": 2, "config.json": 2, "sub/x.json": 1})

    def test_a_snapshot_of_the_hub_s_cache(self):
        self.put("models--a--b/blobs/123", "{}")
        snapshot = os.path.join(self.root, "models--a--b/snapshots/main")
        os.makedirs(snapshot)
        os.symlink("../../blobs/123", os.path.join(snapshot, "config.json"))
        self.assertEqual(upload.files_sent(snapshot, []), {"config.json": 2})


class FindTokens(Directory):
    def test_where_the_client_looks(self):
        home = self.root
        self.assertEqual(upload.find_tokens({"HOME": home}), (False, [], pathlib.Path(home, ".cache/huggingface/token")))
        self.assertFalse(upload.find_tokens({"HOME": home, "HF_TOKEN": " \n"})[0])
        self.assertEqual(upload.find_tokens({"HOME": home, "HF_TOKEN": " abcdef\n"})[:2], (True, ["abcdef"]))
        self.assertTrue(upload.find_tokens({"HOME": home, "HUGGING_FACE_HUB_TOKEN": "abcdef"})[0])
        self.put("mine/token", "in_hf_home\n")
        self.assertEqual(upload.find_tokens({"HOME": home, "HF_HOME": "~/mine"})[1], ["in_hf_home"])
        self.assertEqual(upload.find_tokens({"HOME": home, "XDG_CACHE_HOME": "/x"})[2], pathlib.Path("/x/huggingface/token"))
        self.assertEqual(upload.find_tokens({"HF_HOME": "/x", "HF_TOKEN_PATH": home + "/mine/token"})[1], ["in_hf_home"])
        self.assertEqual(upload.find_tokens({"HOME": home, "HF_TOKEN": "abc"})[:2], (True, []))  # too short to be hidden


class FailureOf(unittest.TestCase):
    """Words as huggingface_hub 0.30 (requests), 2.4 (httpx) and hf_xet (reqwest) print them."""

    def test_the_status_in_every_library_s_words(self):
        for words, code, what in (
                ("401 Client Error: Unauthorized for url: http://h/api/repos/create", NO_RIGHTS, "(401)"),
                ("Error: Client error '401 Unauthorized' for url 'http://h/api/repos/create' (Request ID: x)\n\nInvalid username or password.", NO_RIGHTS,
                 "the Hub refused the token or its rights (401)"),
                ("403 Forbidden: you have no rights.\nHTTP status client error (403 Forbidden) for url (https://cas/v1/shards)", NO_RIGHTS, "(403)"),
                ("Error: 403 Forbidden: None.\nCannot access content at: http://h/x.", NO_RIGHTS, "the Hub refused the token or its rights (403)"),
                ("404 Client Error. (Request ID: y)\n\nNot there.", NO_REPOSITORY, "(404)"),
                ("Error: Server error '503 Service Unavailable' for url", NO_NETWORK, "the Hub does not answer as it should (503)"),
                ("429 Client Error: Too Many Requests", NO_NETWORK, "(429)"),
                ("Client error '413 Payload Too Large'", INTERRUPTED, "the Hub refused the upload (413)"),
                ("client error at http://127.0.0.1:404/x", INTERRUPTED, "the client gave up"),
                ("503 files, client error 5031, http error 40", INTERRUPTED, "the client gave up"), ("", INTERRUPTED, "the client gave up")):
            found = upload.failure_of(words)
            self.assertEqual(found[0], code, words)
            self.assertIn(what, found[1])

    def test_other_ways_to_fail(self):
        for words, code in (
                ("httpx.ConnectError: [Errno 111] Connection refused", NO_NETWORK), ("[Errno -3] Temporary failure in name resolution", NO_NETWORK),
                ("Error: Cannot reach http://h/: offline mode is enabled.", NO_NETWORK),
                ("'Server disconnected without sending a response.' thrown while requesting PUT http://h/blobs", INTERRUPTED),
                ("[Errno 104] Connection reset by peer", INTERRUPTED), ("Error: Not logged in. Run 'hf auth login' first.", NO_TOKEN),
                ("Error: Model 'me/x' not found.\nIf the repo is private, make sure you are authenticated and your token has the permissions.", NO_REPOSITORY),
                ("ModuleNotFoundError: No module named 'huggingface_hub'", NO_CLIENT),
                # The last words count.
                ("[Errno 104] Connection reset by peer\nRetrying in 1s [Retry 1/5].\n[Errno 111] Connection refused", NO_NETWORK),
                ("HTTP Error 503 thrown while requesting PUT\n" + 2000 * "." + "\nError: Model 'me/x' not found.", NO_REPOSITORY)):
            self.assertEqual(upload.failure_of(words)[0], code, words)


class Bars(unittest.TestCase):
    def test_what_they_add_up_to(self):
        bars = upload.Bars({"a.safetensors": 1000, "b.safetensors": 3000})
        for line, sent in (("Computing sha256 for 2 files.", 0), ("Upload 2 LFS files:  50%|     | 1/2 [00:00<?, ?it/s]", 0),
                           ("a.safetensors:  50%|#####     | 500/1.00k [00:00<?, ?B/s]", 500), ("b.safetensors:  10%|#  | 300/3.00k", 800),
                           ("a.safetensors:  40%|####      | tried again", 800), ("a.safetensors: 100%|##########| 1.00k/1.00k", 1300),
                           ("b.safetensors: 101%|", 1300), ("b.safetensors: x%|", 1300), ("c.safetensors: 10%|", 1300), ("%|", 1300), ("", 1300),
                           ("Processing Files (0 / 1):  42%|####2     |  420B /  1.00kB", 1680), ("New Data Upload:  80%|########  |", 1680)):
            self.assertEqual(bars.read(line), sent, line)


if __name__ == "__main__":
    unittest.main()
