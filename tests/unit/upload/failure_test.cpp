// Words as huggingface_hub 0.30 (requests), 2.4 (httpx) and hf_xet (reqwest) print them.
#include "upload/failure.hpp"

#include <gtest/gtest.h>

namespace shardweld::upload {
namespace {

TEST(FailureOf, reads_the_status_in_every_library_s_words) {
    EXPECT_EQ(failure_of("401 Client Error: Unauthorized for url: http://h/api/repos/create").code,
              ErrorCode::no_rights);
    EXPECT_EQ(
        failure_of("Error: Client error '401 Unauthorized' for url 'http://h/api/repos/create' "
                   "(Request ID: x)\n\nInvalid username or password.")
            .what,
        "the Hub refused the token or its rights (401)");
    EXPECT_EQ(failure_of("403 Forbidden: you have no rights.\nHTTP status client error (403 "
                         "Forbidden) for url (https://cas/v1/shards)")
                  .code,
              ErrorCode::no_rights);
    EXPECT_EQ(failure_of("Error: 403 Forbidden: None.\nCannot access content at: http://h/x.").what,
              "the Hub refused the token or its rights (403)");
    EXPECT_EQ(failure_of("404 Client Error. (Request ID: y)\n\nNot there.").code,
              ErrorCode::no_repository);
    EXPECT_EQ(failure_of("Error: Server error '503 Service Unavailable' for url").what,
              "the Hub does not answer as it should (503)");
    EXPECT_EQ(failure_of("429 Client Error: Too Many Requests").code, ErrorCode::no_network);
    EXPECT_EQ(failure_of("Client error '413 Payload Too Large'").what,
              "the Hub refused the upload (413)");
}

TEST(FailureOf, takes_no_other_number_for_a_status) {
    EXPECT_EQ(failure_of("client error at http://127.0.0.1:404/x").what, "the client gave up");
    EXPECT_EQ(failure_of("503 files, client error 5031, http error 40").what, "the client gave up");
}

TEST(FailureOf, tells_networks_that_are_absent_from_ones_that_broke) {
    EXPECT_EQ(failure_of("httpx.ConnectError: [Errno 111] Connection refused").code,
              ErrorCode::no_network);
    EXPECT_EQ(failure_of("[Errno -3] Temporary failure in name resolution").code,
              ErrorCode::no_network);
    EXPECT_EQ(failure_of("Error: Cannot reach http://h/: offline mode is enabled.").code,
              ErrorCode::no_network);
    EXPECT_EQ(failure_of("'Server disconnected without sending a response.' thrown while "
                         "requesting PUT http://h/blobs")
                  .code,
              ErrorCode::interrupted);
    EXPECT_EQ(failure_of("[Errno 104] Connection reset by peer").code, ErrorCode::interrupted);
}

TEST(FailureOf, believes_the_last_words) {
    EXPECT_EQ(failure_of("[Errno 104] Connection reset by peer\nRetrying in 1s [Retry 1/5].\n"
                         "[Errno 111] Connection refused")
                  .code,
              ErrorCode::no_network);
    const std::string retries(2000, '.');
    EXPECT_EQ(failure_of("HTTP Error 503 thrown while requesting PUT\n" + retries +
                         "\nError: Model 'me/x' not found.")
                  .code,
              ErrorCode::no_repository);
}

TEST(FailureOf, knows_the_other_ways_to_fail) {
    EXPECT_EQ(failure_of("Error: Not logged in. Run 'hf auth login' first.").code,
              ErrorCode::no_token);
    EXPECT_EQ(
        failure_of("Error: Model 'me/x' not found.\nIf the repo is private, make sure you are "
                   "authenticated and your token has the required permissions.")
            .code,
        ErrorCode::no_repository);
    EXPECT_EQ(failure_of("ModuleNotFoundError: No module named 'huggingface_hub'").code,
              ErrorCode::no_client);
    EXPECT_EQ(failure_of("").code, ErrorCode::interrupted);
}

}  // namespace
}  // namespace shardweld::upload
