"""What must not be shown, in every form that clients print it."""
import pathlib
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "python" / "commands"))
from shardweld_commands.redact import redacted, without_secrets  # noqa: E402

TOKEN = "hf_SECRETsecretSECRETsecretSECRET12"


class Redacted(unittest.TestCase):
    def test_known_secrets_headers_tokens_and_addresses(self):
        for line, shown in (
                ("open sesame, open sesame!open", "***, ***!open"),
                ("token=hf_abcdefghijklmnopqrstuvwxyzABCDEFGH.", "token=***."),
                ("hf_xet hf_hub_download", "hf_xet hf_hub_download"),
                ("hf_a hf_0123456789abcdef hf_0123456789abcdefg", "hf_a *** ***"),
                ("{'Authorization': 'Bearer xyz', 'a': 'b'}", "{'Authorization':***"),
                ("authorization: Basic eDp5", "authorization:***"),
                ("sent BEARER abc.def to it, bearer x", "sent BEARER *** to it, bearer ***"),
                ("needs authorization by the owner", "needs authorization by the owner"),
                ("PUT https://s3/x?X-Amz-Signature=12&b=3 failed", "PUT https://s3/x?*** failed"),
                ("via http://me:pw@proxy:3128/ (http://h/?t=1)", "via http://***@proxy:3128/ (http://h/?***)"),
                ("http://h/a@b is it?", "http://h/a@b is it?")):
            self.assertEqual(redacted(line, ["open sesame"]), shown)

    def test_any_encoding(self):
        for line in ("aGZfU0VDUkVUc2VjcmV0U0VDUkVUc2VjcmV0U0VDUkVUMTI=", "dTpoZl9TRUNSRVRzZWNyZXRTRUNSRVRzZWNyZXRTRUNSRVQxMg==",
                     "dXM6aGZfU0VDUkVUc2VjcmV0U0VDUkVUc2VjcmV0U0VDUkVUMTI", "dXNlOmhmX1NFQ1JFVHNlY3JldFNFQ1JFVHNlY3JldFNFQ1JFVDEy"):
            text = redacted(line, [TOKEN])
            self.assertLess(len(text), 14, text)
            self.assertIn("***", text)
        for form in ("%%%02X", "%%%02x", "\\x%02x", "\\u%04x", "\\%03o", "&#%d;", "&#x%x;", "%02x", "%02X", "%%25%02X", "\\\\x%02x"):
            line = "token=" + "".join(form % ord(letter) for letter in TOKEN)
            self.assertEqual(redacted(line + "!", [TOKEN]), "token=***!", line)
        self.assertEqual(redacted(r'"hf_SECRET\u0073ecretSECRETsecretSECRET12"', [TOKEN]), '"***"')
        odd = 'a/b+c"d=e&f/g'
        self.assertEqual(redacted(r'{"t": "a\/b+c\"d=e&f\/g"}', [odd]), '{"t": "***"}')
        self.assertEqual(redacted("x a%2Fb%2Bc%22d%3De%26f%2Fg y", [odd]), "x *** y")

    def test_wrapped_over_lines(self):
        self.assertEqual(redacted("| the token hf_SECRETse |", [TOKEN]), "| the token *** |")
        self.assertEqual(redacted("| cretSECRETsecretSE    |", [TOKEN]), "| ***    |")
        self.assertEqual(redacted("| CRET12 is wrong       |", [TOKEN]), "| CRET12 is wrong       |")  # six letters tell nothing
        self.assertEqual(redacted("with kurz!", ["kurz"]), "with ***!")


class WithoutSecrets(unittest.TestCase):
    def test_what_names_call_secret(self):
        for text, shown in (
                ("mpirun -x HF_TOKEN=abc -n 2", "mpirun -x HF_TOKEN=*** -n 2"),
                ("'AWS_SECRET_ACCESS_KEY=a/b+c' --api-key=k", "'AWS_SECRET_ACCESS_KEY=***' --api-key=***"),
                ("put to https://me:pass@host/x?X-Amz-Signature=1 now", "put to https://***@host/x?*** now"),
                ("Authorization: a\nnext\nauthorization=b", "Authorization:***\nnext\nauthorization=***")):
            self.assertEqual(without_secrets(text), shown)
        for text in ("pad_token_id=0, num_key_value_heads=2", "TOKENIZERS_PARALLELISM=false", "--max_shard_size=5GB", "an authorization is needed"):
            self.assertEqual(without_secrets(text), text)

    def test_what_the_environment_calls_secret(self):
        with mock.patch.dict("os.environ", {"MY_SECRET": "of the environment", "MY_KEY": "/", "A_TOKEN": "short", "OTHER": "is not secret"}):
            self.assertEqual(without_secrets("of the environment, / short is not secret"), "***, / short is not secret")


if __name__ == "__main__":
    unittest.main()
