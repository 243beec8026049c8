#include "core/redact.hpp"

#include <gtest/gtest.h>

namespace shardweld {
namespace {

TEST(WithoutSecrets, hides_tokens_but_no_names) {
    EXPECT_EQ(without_secrets("token=hf_abcdefghijklmnopqrstuvwxyzABCDEFGH."), "token=***.");
    EXPECT_EQ(without_secrets("hf_xet hf_hub_download"), "hf_xet hf_hub_download");
    EXPECT_EQ(without_secrets("hf_a hf_0123456789abcdef hf_0123456789abcdefg"), "hf_a *** ***");
}

TEST(WithoutSecrets, hides_headers) {
    EXPECT_EQ(without_secrets("{'Authorization': 'Bearer xyz', 'a': 'b'}"), "{'Authorization':***");
    EXPECT_EQ(without_secrets("authorization: Basic eDp5"), "authorization:***");
    EXPECT_EQ(without_secrets("sent BEARER abc.def to it, bearer x"),
              "sent BEARER *** to it, bearer ***");
    EXPECT_EQ(without_secrets("needs authorization by the owner"),
              "needs authorization by the owner");
}

TEST(WithoutSecrets, hides_what_addresses_carry) {
    EXPECT_EQ(without_secrets("PUT https://s3/x?X-Amz-Signature=12&b=3 failed"),
              "PUT https://s3/x?*** failed");
    EXPECT_EQ(without_secrets("via http://me:pw@proxy:3128/ (http://h/?t=1)"),
              "via http://***@proxy:3128/ (http://h/?***)");
    EXPECT_EQ(without_secrets("http://h/a@b is it?"), "http://h/a@b is it?");
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
