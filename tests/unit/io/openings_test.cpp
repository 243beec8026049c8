#include "io/openings.hpp"

#include <gtest/gtest.h>

#include "io/input_file.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::io {
namespace {

using test::TemporaryDirectory;

TEST(Openings, keep_what_a_file_was_when_it_was_first_opened) {
    const TemporaryDirectory place;
    const fs::path file = place.put("file", "12345");
    const fs::path unopened = place.put("unopened");
    (void)InputFile::open(file);
    const Openings outer;
    EXPECT_FALSE(outer.stamp_of(file)) << "it was opened before";
    FileStamp first;
    {
        const Openings inner;
        first = InputFile::open(file).stamp();
        place.put("file", "123456");
        (void)InputFile::open(file);
        ASSERT_TRUE(inner.stamp_of(file));
        EXPECT_EQ(*inner.stamp_of(file), first);
        EXPECT_EQ(inner.stamp_of(file)->size, 5U);
        EXPECT_FALSE(inner.stamp_of(unopened));
    }
    EXPECT_EQ(*outer.stamp_of(file), first);
    EXPECT_ANY_THROW((void)InputFile::open(place.path() / "absent"));
    EXPECT_FALSE(outer.stamp_of(place.path() / "absent"));
}

}  // namespace
}  // namespace shardweld::io
