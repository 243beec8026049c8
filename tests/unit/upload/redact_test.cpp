#include "../../../src/upload/redact.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace shardweld::upload {
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

}  // namespace
}  // namespace shardweld::upload
