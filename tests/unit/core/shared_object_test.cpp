#include "core/process/shared_object.hpp"

#include <gtest/gtest.h>

#include "shardweld/error.hpp"

namespace shardweld {
namespace {

SharedObject load(const fs::path& path) {
    return SharedObject::load(path, {"the part", "build it"});
}

std::string text_of_failure(const fs::path& path) {
    try {
        (void)load(path).function<int()>("shardweld_part");
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::unsupported);
        return error.full_text();
    }
    return "no error";
}

TEST(SharedObject, says_why_it_cannot_be_loaded) {
    EXPECT_EQ(text_of_failure("/nonexistent/part.so"),
              "cannot load the part /nonexistent/part.so: /nonexistent/part.so: cannot open shared "
              "object file: No such file or directory; build it");
    // A library, but not ours.
    EXPECT_EQ(text_of_failure("libc.so.6"), "the part has no function shardweld_part; build it");
}

TEST(SharedObject, has_functions) {
    EXPECT_EQ(load("libc.so.6").function<int(int)>("abs")(-7), 7);
}

}  // namespace
}  // namespace shardweld
