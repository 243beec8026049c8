#include "core/redact.hpp"

#include <array>
#include <cstdio>
#include <vector>

#include <gtest/gtest.h>

namespace shardweld {
namespace {

std::string shown(std::string_view line) {
    const std::vector<std::string> secrets = {"open sesame"};
    return redacted(line, secrets);
}

TEST(Redacted, hides_what_is_known_to_be_secret) {
    EXPECT_EQ(shown("open sesame, open sesame!open"), "***, ***!open");
}

TEST(Redacted, hides_tokens_but_no_names) {
    EXPECT_EQ(shown("token=hf_abcdefghijklmnopqrstuvwxyzABCDEFGH."), "token=***.");
    EXPECT_EQ(shown("hf_xet hf_hub_download"), "hf_xet hf_hub_download");
    EXPECT_EQ(shown("hf_a hf_0123456789abcdef hf_0123456789abcdefg"), "hf_a *** ***");
}

TEST(Redacted, hides_headers) {
    EXPECT_EQ(shown("{'Authorization': 'Bearer xyz', 'a': 'b'}"), "{'Authorization':***");
    EXPECT_EQ(shown("authorization: Basic eDp5"), "authorization:***");
    EXPECT_EQ(shown("sent BEARER abc.def to it, bearer x"), "sent BEARER *** to it, bearer ***");
    EXPECT_EQ(shown("needs authorization by the owner"), "needs authorization by the owner");
}

TEST(Redacted, hides_what_addresses_carry) {
    EXPECT_EQ(shown("PUT https://s3/x?X-Amz-Signature=12&b=3 failed"),
              "PUT https://s3/x?*** failed");
    EXPECT_EQ(shown("via http://me:pw@proxy:3128/ (http://h/?t=1)"),
              "via http://***@proxy:3128/ (http://h/?***)");
    EXPECT_EQ(shown("http://h/a@b is it?"), "http://h/a@b is it?");
}

TEST(Redacted, hides_secrets_in_any_encoding) {
    const std::vector<std::string> secrets = {"hf_SECRETsecretSECRETsecretSECRET12"};
    const auto hidden = [&](std::string_view line) { return redacted(line, secrets); };
    // base64 at each of three places, both alphabets, as Basic authentication sends it.
    EXPECT_EQ(hidden("b'aGZfU0VDUkVUc2VjcmV0U0VDUkVUc2VjcmV0U0VDUkVUMTI='").rfind("b'***", 0), 0U);
    for (const char* line : {"aGZfU0VDUkVUc2VjcmV0U0VDUkVUc2VjcmV0U0VDUkVUMTI=",
                             "dTpoZl9TRUNSRVRzZWNyZXRTRUNSRVRzZWNyZXRTRUNSRVQxMg==",
                             "dXM6aGZfU0VDUkVUc2VjcmV0U0VDUkVUc2VjcmV0U0VDUkVUMTI",
                             "dXNlOmhmX1NFQ1JFVHNlY3JldFNFQ1JFVHNlY3JldFNFQ1JFVDEy"}) {
        const std::string text = hidden(line);
        EXPECT_LT(text.size(), 14U) << text;
        EXPECT_NE(text.find("***"), std::string::npos) << text;
    }
    // Every byte written as a number.
    for (const char* form : {"%%%02X", "%%%02x", "\\x%02x", "\\u%04x", "\\%03o", "&#%d;", "&#x%x;",
                             "%02x", "%02X", "%%25%02X", "\\\\x%02x"}) {
        std::string line = "token=";
        for (const char letter : secrets[0]) {
            std::array<char, 20> text{};
            (void)std::snprintf(text.data(), text.size(), form, letter);
            line += text.data();
        }
        EXPECT_EQ(hidden(line + "!"), "token=***!") << line;
    }
    EXPECT_EQ(hidden(R"("hf_SECRET\u0073ecretSECRETsecretSECRET12")"), R"("***")");
    const std::vector<std::string> odd = {"a/b+c\"d=e&f/g"};
    EXPECT_EQ(redacted(R"({"t": "a\/b+c\"d=e&f\/g"})", odd), R"({"t": "***"})");
    EXPECT_EQ(redacted("x a%2Fb%2Bc%22d%3De%26f%2Fg y", odd), "x *** y");
}

TEST(Redacted, hides_secrets_that_are_wrapped) {
    const std::vector<std::string> secrets = {"hf_SECRETsecretSECRETsecretSECRET12"};
    EXPECT_EQ(redacted("| the token hf_SECRETse |", secrets), "| the token *** |");
    EXPECT_EQ(redacted("| cretSECRETsecretSE    |", secrets), "| ***    |");
    EXPECT_EQ(redacted("| CRET12 is wrong       |", secrets), "| CRET12 is wrong       |")
        << "six letters tell nothing";
}

TEST(WithoutSecrets, hides_what_names_call_secret) {
    EXPECT_EQ(without_secrets("mpirun -x HF_TOKEN=abc -n 2"), "mpirun -x HF_TOKEN=*** -n 2");
    EXPECT_EQ(without_secrets("'AWS_SECRET_ACCESS_KEY=a/b+c' --api-key=k"),
              "'AWS_SECRET_ACCESS_KEY=***' --api-key=***");
    EXPECT_EQ(without_secrets("put to https://me:pass@host/x?X-Amz-Signature=1 now"),
              "put to https://***@host/x?*** now");
    // What config.json and options of this program call so is no secret.
    for (const char* const text :
         {"pad_token_id=0, num_key_value_heads=2", "TOKENIZERS_PARALLELISM=false",
          "--max_shard_size=5GB", "an authorization is needed"}) {
        EXPECT_EQ(without_secrets(text), text);
    }
}

TEST(WithoutSecrets, hides_each_header_to_the_end_of_its_line) {
    EXPECT_EQ(without_secrets("Authorization: a\nnext\nauthorization=b"),
              "Authorization:***\nnext\nauthorization=***");
}

}  // namespace
}  // namespace shardweld
