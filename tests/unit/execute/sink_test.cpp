// Parts of the output space go to their places in the files, and a file that is another one, or
// cannot take them, ends the run.
#include "execute/sink.hpp"

#include <csignal>
#include <numeric>

#include <sys/resource.h>

#include <gtest/gtest.h>

#include "io/written.hpp"
#include "plan/plan.hpp"
#include "support/error_text.hpp"
#include "support/flat_target.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::execute {
namespace {

/// Tensors of 20, 4000 and 7 bytes in two files; in the output space a, b, c.
class SinkTest : public testing::Test {
  protected:
    SinkTest() {
        plan::JobPlan choice;
        choice.max_shard_size = 4020;
        the_plan = plan::make_plan(
            {test::flat_target("a", DType::u8, 20), test::flat_target("b", DType::u8, 4000),
             test::flat_target("c", DType::u8, 7)},
            {{"file", 1 << 20}}, plan::Visibility::everywhere(1, 1), choice);
        for (const outputs::PlacedFile& file : the_plan.placement.files) {
            place.put(file.name, std::string(static_cast<std::size_t>(file.size), '.'));
            made.push_back(*io::identity_at(place.path(), file.name));
        }
        output.resize(static_cast<std::size_t>(the_plan.space.begins.back()));
        for (std::size_t i = 0; i < output.size(); ++i) {
            output[i] = static_cast<std::byte>('A' + i % 23);
        }
    }

    void write(Sink& sink, Bytes begin, Bytes end) const {
        sink.write({begin, end}, std::span(output).subspan(begin, end - begin));
    }
    /// What the files have to hold when the output space is in them up to `end`.
    void expect_written(Bytes end) const {
        for (std::uint32_t at = 0; at < 3; ++at) {
            const outputs::Slot& slot = the_plan.placement.slots[at];
            const std::string text =
                test::content_of(place.path() / the_plan.placement.files[slot.file].name);
            for (Bytes i = 0; i < the_plan.tensor(at).bytes(); ++i) {
                const Bytes position = the_plan.space.begins[at] + i;
                ASSERT_EQ(text[slot.offset + i],
                          position < end ? static_cast<char>(output[position]) : '.')
                    << at << " " << i;
            }
        }
        for (const outputs::PlacedFile& file : the_plan.placement.files) {
            const std::string text = test::content_of(place.path() / file.name);
            EXPECT_EQ(text.size(), file.size);
            EXPECT_EQ(text[0], '.');  // the header is others' work
        }
    }

    test::TemporaryDirectory place;
    plan::Plan the_plan;
    std::vector<io::Identity> made;
    std::vector<std::byte> output;
    RunOptions options;
    SourceFiles source;
};

TEST_F(SinkTest, writes_parts_of_any_size_over_tensors_and_files) {
    ASSERT_EQ(the_plan.placement.files.size(), 2U);
    for (const Bytes step : {Bytes{1}, Bytes{19}, Bytes{20}, Bytes{21}, Bytes{4019}, Bytes{9999}}) {
        for (const bool syncs : {false, true}) {
            std::vector<std::string> opened;
            source.on_open = [&](const fs::path& path) { opened.push_back(path.filename()); };
            options.sync = syncs;
            options.made = made;
            Sink sink(the_plan, place.path(), options, source);
            for (Bytes at = 0; at < output.size(); at += step) {
                write(sink, at, std::min<Bytes>(at + step, output.size()));
            }
            sink.finish();
            EXPECT_EQ(sink.bytes_written(), output.size());
            EXPECT_EQ(opened.size(), 2U);
            EXPECT_EQ(sink.take_held().size(), 2U);
            expect_written(output.size());
        }
    }
}

TEST_F(SinkTest, writes_whole_blocks_past_the_cache_where_addresses_allow) {
    options.direct = true;
    Sink sink(the_plan, place.path(), options, source);
    const std::string refused = test::error_text([&] { write(sink, 0, 4020); });
    if (refused != "no error") {
        GTEST_SKIP() << refused;
    }
    write(sink, 4020, output.size());
    sink.finish();
    expect_written(output.size());
}

TEST_F(SinkTest, leaves_what_comes_later_alone) {
    options.made = made;
    Sink sink(the_plan, place.path(), options, source);
    write(sink, 0, 25);
    sink.finish();
    expect_written(25);
}

TEST_F(SinkTest, refuses_a_file_that_is_not_the_one_that_was_made) {
    const std::string name = the_plan.placement.files[0].name;
    fs::rename(place.path() / name, place.path() / "other");
    fs::copy_file(place.path() / "other", place.path() / name);
    options.made = made;
    Sink sink(the_plan, place.path(), options, source);
    EXPECT_EQ(test::error_text([&] { write(sink, 0, 20); }).substr(0, 4), "io: ");
    EXPECT_EQ(sink.bytes_written(), 0U);
}

TEST_F(SinkTest, notices_a_file_that_is_cut_while_it_is_open) {
    options.made = made;
    Sink sink(the_plan, place.path(), options, source);
    write(sink, 0, 10);
    fs::resize_file(place.path() / the_plan.placement.files[0].name, 30);
    EXPECT_EQ(test::error_text([&] {
                  write(sink, 10, 20);
                  sink.finish();
              }).substr(0, 4),
              "io: ");
}

TEST_F(SinkTest, notices_another_directory_of_the_name) {
    const fs::path inside = place.path() / "in";
    fs::create_directory(inside);
    Sink sink(the_plan, inside, options, source);
    fs::remove(inside);
    fs::create_directory(inside);
    EXPECT_EQ(test::error_text([&] { write(sink, 0, 20); }).substr(0, 8), "target: ");
}

TEST_F(SinkTest, says_space_when_the_system_takes_no_more) {
    // A limit of the process stands for a full disk; it counts from the begin of the file.
    const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
    struct rlimit old {};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
    struct rlimit small = old;
    small.rlim_cur = the_plan.placement.slots[1].offset + 100;
    Sink sink(the_plan, place.path(), options, source);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const std::string refused = test::error_text([&] { write(sink, 0, 4020); });
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
    (void)std::signal(SIGXFSZ, old_handler);
    EXPECT_EQ(refused.substr(0, 7), "space: ");
    EXPECT_NE(refused.find(the_plan.placement.files[0].name), std::string::npos);
}

}  // namespace
}  // namespace shardweld::execute
