// Assembled elements become what is written, handed out, summed and noted in the journal, whatever
// rounds they come in.
#include "execute/writer.hpp"

#include <csignal>
#include <cstring>
#include <random>

#include <sys/resource.h>

#include <gtest/gtest.h>

#include "core/text.hpp"
#include "execute/round.hpp"
#include "numeric/convert.hpp"
#include "numeric/quantise.hpp"
#include "plan/bind/quantise.hpp"
#include "plan/plan.hpp"
#include "support/error_text.hpp"
#include "support/flat_target.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::execute {
namespace {

using plan::Target;

constexpr Index kRows = 300, kColumns = 256;

/// A weight of f32 as codes in strips of 128 rows, scales and a constant.
Target encoded() {
    Target target = test::flat_target("w", DType::f32, kRows * kColumns);
    const EncodingFacts& facts = facts_of(encoding_from("fp8-block").value());
    target.encode = plan::Encode{{encoding_from("fp8-block").value(), kRows, kColumns, 128}};
    target.dtype = facts.codes;
    target.shape = {kRows, kColumns};
    target.beside.push_back({"w_scale", DType::f32, {3, 2}});
    const std::array<float, 2> values{1, 2};
    target.beside.push_back(
        plan::constant("w_known", DType::f32, 2, std::as_bytes(std::span(values))));
    return target;
}

/// One rank that writes a plan's output from made-up elements.
class WriterExample {
  public:
    explicit WriterExample(std::vector<Target> targets)
        : the_plan(
              plan::make_plan(std::move(targets), files, plan::Visibility::everywhere(1, 1), {})) {
        fs::create_directory(place.path() / "out");
        fs::create_directory(place.path() / "journal");
        for (const outputs::PlacedFile& file : the_plan.placement.files) {
            place.put("out/" + file.name, std::string(static_cast<std::size_t>(file.size), '.'));
        }
        options.sync = false;
        options.digests = true;
        options.on_slice = [this](const plan::Slice& slice, std::span<const std::byte> bytes) {
            EXPECT_EQ(bytes.size(), the_plan.bytes_of(slice));
            output.insert(output.end(), bytes.begin(), bytes.end());
        };
    }

    /// The stored elements of a target, as they are.
    static std::vector<std::byte> stored(const Target& target) {
        const auto n = static_cast<std::size_t>(target.sources(0, target.volume()).extent);
        std::vector<std::byte> bytes(n * size_of(target.stored));
        if (!is_float(target.stored)) {
            for (std::size_t i = 0; i < bytes.size(); ++i) {
                bytes[i] = static_cast<std::byte>(i % 251);
            }
            return bytes;
        }
        std::mt19937 random(3);
        std::vector<float> values(n);
        for (float& value : values) {
            value = static_cast<float>(random() % 2000) / 16 - 50;
        }
        numeric::convert(DType::f32, std::as_bytes(std::span(values)), target.stored, bytes);
        return bytes;
    }

    /// Puts a part of the output space as one round of a term.
    void put(Writer& writer, plan::OutputRange range, std::uint32_t term = 0) {
        Round round;
        round.term = term;
        std::vector<std::byte> buffer;
        std::vector<Bytes> ends{0};
        const auto work = plan::work_of(the_plan, range);
        for (const plan::Slice& slice : work) {
            const Target& target = the_plan.target_of(slice.tensor);
            const layout::Range wanted = the_plan.sources(slice);
            const auto all = stored(target);
            const auto size = static_cast<Index>(size_of(target.stored));
            buffer.insert(buffer.end(), all.begin() + wanted.lo * size,
                          all.begin() + (wanted.lo + wanted.extent) * size);
            ends.push_back(buffer.size());
        }
        for (std::size_t i = 0; i < work.size(); ++i) {
            round.slices.push_back(
                {work[i], std::span(buffer).subspan(ends[i], ends[i + 1] - ends[i])});
        }
        writer.write_round(round, range);
    }

    /// All of it, each piece of work as a round or everything at once.
    void put_all(Writer& writer, bool is_at_once) {
        const plan::OutputRange all{0, the_plan.space.begins.back()};
        if (is_at_once) {
            put(writer, all);
            return;
        }
        for (const plan::Slice& slice : plan::work_of(the_plan, all)) {
            put(writer, plan::range_of(the_plan, slice));
        }
    }

    [[nodiscard]] Writer writer() { return {the_plan, source, place.path() / "out", options, 0}; }

    /// A tensor's bytes in its file.
    [[nodiscard]] std::string written(std::uint32_t tensor) const {
        const outputs::Slot& slot = the_plan.placement.slots[tensor];
        return test::content_of(place.path() / "out" / the_plan.placement.files[slot.file].name)
            .substr(slot.offset, the_plan.tensor(tensor).bytes());
    }

    test::TemporaryDirectory place;
    std::vector<catalogue::File> files = {{"file", 1 << 30}};
    SourceFiles source{place.path(), &files};
    plan::Plan the_plan;
    RunOptions options;
    std::vector<std::byte> output;  ///< what was handed out
};

std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Writer, writes_what_is_stored_as_it_is) {
    WriterExample example(
        {test::flat_target("a", DType::bf16, 1000), test::flat_target("b", DType::u8, 3)});
    Writer writer = example.writer();
    example.put(writer, {0, 7 * 2});
    example.put(writer, {7 * 2, 2003});
    writer.close();
    EXPECT_EQ(example.written(0), text_of(WriterExample::stored(example.the_plan.targets[0])));
    EXPECT_EQ(example.written(1), text_of(WriterExample::stored(example.the_plan.targets[1])));
    EXPECT_EQ(text_of(example.output), example.written(0) + example.written(1));
    EXPECT_EQ(writer.bytes_written(), 2003U);
    EXPECT_EQ(writer.tally(5).parts, (std::vector<plan::OutputRange>{{0, 2003}}));
}

TEST(Writer, casts_and_adds_in_the_wider_type) {
    for (const auto& [stored, written] : {std::pair(DType::f32, DType::bf16),
                                          {DType::bf16, DType::f32},
                                          {DType::f16, DType::f16}}) {
        Target target = test::flat_target("a", stored, 5000);
        target.dtype = written;
        target.add = 1;
        WriterExample example({target});
        Writer writer = example.writer();
        example.put_all(writer, true);
        writer.close();
        const auto bytes = WriterExample::stored(target);
        std::vector<float> sums(5000);
        numeric::convert(stored, bytes, DType::f32, std::as_writable_bytes(std::span(sums)));
        for (float& sum : sums) {
            sum += 1;
        }
        std::vector<std::byte> expected(example.written(0).size());
        numeric::convert(DType::f32, std::as_bytes(std::span(sums)), written, expected);
        EXPECT_EQ(example.written(0), text_of(expected));
    }
}

TEST(Writer, makes_codes_scales_and_constants_of_one_weight_in_any_rounds) {
    const Target target = encoded();
    std::vector<std::byte> codes(target.bytes());
    std::vector<std::byte> scales(target.output(1).bytes());
    std::vector<std::byte> values(static_cast<std::size_t>(kRows * kColumns) * 2);
    numeric::convert(DType::f32, WriterExample::stored(target), DType::bf16, values);
    numeric::quantise({encoding_from("fp8-block").value(), DType::bf16, kRows, kColumns}, values,
                      codes, scales);
    std::string quality;
    for (const bool is_at_once : {true, false}) {
        WriterExample example({test::flat_target("a", DType::u8, 5), target});
        ASSERT_EQ(example.the_plan.tensors.size(), 4U);
        Writer writer = example.writer();
        example.put_all(writer, is_at_once);
        writer.close();
        EXPECT_EQ(example.written(1), text_of(codes));
        EXPECT_EQ(example.written(2), text_of(scales));
        EXPECT_EQ(example.written(3), text_of(target.output(2).literal));
        EXPECT_EQ(example.output.size(), example.the_plan.placement.tensor_bytes);
        const auto comm = mpi::serial_comm();
        EXPECT_EQ(writer.gather_quality(*comm).begin()->first, 1U);
        const auto digests = writer.gather_digests(*comm);
        ASSERT_EQ(digests.size(), 4U);
        const std::string all = joined(digests, " ");
        EXPECT_TRUE(quality.empty() || quality == all);
        quality = all;
    }
}

TEST(Writer, adds_terms_up_before_it_writes) {
    Target target = test::flat_target("a", DType::f32, 100);
    target.operands.push_back(target.operands.front());
    target.operands.own().back().term = 1;
    target.mix = plan::Mix{plan::MixKind::sum, {{DType::f32, 0, 0.5F}, {DType::f32, 0, 2}}};
    WriterExample example({target});
    Writer writer = example.writer();
    example.put(writer, {0, 200}, 0);
    EXPECT_EQ(writer.bytes_written(), 0U);
    example.put(writer, {0, 200}, 1);
    writer.close();
    std::vector<float> sums(50);
    std::memcpy(sums.data(), WriterExample::stored(target).data(), 200);
    for (float& sum : sums) {
        sum = sum * 0.5F + sum * 2;
    }
    EXPECT_EQ(example.written(0).substr(0, 200), text_of(std::as_bytes(std::span(sums))));
    EXPECT_EQ(example.written(0).substr(200), std::string(200, '.'));
}

TEST(Writer, notes_whole_blocks_that_are_on_the_disk) {
    WriterExample example({test::flat_target("a", DType::u8, 3 * kMiB / 2), encoded()});
    example.options.resumption.journal = example.place.path() / "journal";
    Writer writer = example.writer();
    // The constant comes first in the output space, then the bytes.
    const Bytes part = 8 + kMiB + 1;
    example.put(writer, {0, part});
    writer.flush();
    const auto blocks = [&] {
        return read_journal(example.options.resumption.journal, example.the_plan).blocks;
    };
    ASSERT_EQ(blocks().size(), 2U);
    const auto bytes = WriterExample::stored(example.the_plan.targets[0]);
    EXPECT_EQ(blocks()[1].digest, digest_of(std::span(bytes).first(kMiB)));
    example.put(writer, {part, example.the_plan.space.begins.back()});
    writer.close();
    EXPECT_EQ(blocks().size(), BlockPlaces(example.the_plan).count());
    EXPECT_EQ(blocks().size(), 2U + 2 * 3 + 1);
}

TEST(Writer, notes_nothing_more_after_a_write_has_failed) {
    WriterExample example({test::flat_target("a", DType::u8, 5 * kMiB)});
    example.options.resumption.journal = example.place.path() / "journal";
    Writer writer = example.writer();
    example.put(writer, {0, kMiB});
    const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
    struct rlimit old {};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
    struct rlimit small = old;
    small.rlim_cur = 2 * kMiB;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const std::string refused = test::error_text([&] { example.put(writer, {kMiB, 4 * kMiB}); });
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old), 0);
    (void)std::signal(SIGXFSZ, old_handler);
    EXPECT_EQ(refused.substr(0, 7), "space: ");
    writer.keep();
    example.put(writer, {4 * kMiB, 5 * kMiB});
    writer.close();
    EXPECT_EQ(read_journal(example.options.resumption.journal, example.the_plan).blocks.size(), 1U);
}

TEST(Writer, takes_over_what_an_earlier_run_has_done) {
    WriterExample example(
        {test::flat_target("a", DType::bf16, 100), test::flat_target("b", DType::u8, 3)});
    std::vector<std::string> seen;
    example.options.on_seen = [&](const plan::Slice& slice, const numeric::Census& census) {
        seen.push_back(std::to_string(slice.tensor) + " " + std::to_string(census.n_nan));
    };
    example.options.resumption.journal = example.place.path() / "journal";
    Writer writer = example.writer();
    const auto bytes = WriterExample::stored(example.the_plan.targets[0]);
    const BlockPlaces places(example.the_plan);
    const DoneBlock done{0, 0, digest_of(bytes)};
    numeric::Census census;
    census.n_nan = 4;
    writer.put_done(done, places.slice(done), bytes);
    writer.put_kept({0, 1, {}}, places.slice({0, 1, {}}), census);
    EXPECT_EQ(example.output, bytes);
    EXPECT_EQ(seen, std::vector<std::string>{"1 4"});
    writer.close();
    EXPECT_EQ(writer.bytes_written(), 0U);
    EXPECT_EQ(writer.take_written().blocks.size(), 2U);
    // It says so to a third run: what was read back need not be again.
    const JournalRead read = read_journal(example.options.resumption.journal, example.the_plan);
    EXPECT_TRUE(read.blocks.empty());
    EXPECT_EQ(read.last_session, 1);
}

TEST(Writer, writes_nothing_where_bytes_are_only_looked_at) {
    WriterExample example({test::flat_target("a", DType::u8, 50)});
    example.options.write = false;
    example.options.digests = false;
    Writer writer = example.writer();
    EXPECT_TRUE(writer.is_wanted());
    example.put_all(writer, true);
    writer.close();
    EXPECT_EQ(example.output.size(), 50U);
    EXPECT_EQ(example.written(0), std::string(50, '.'));
    example.options.on_slice = {};
    EXPECT_FALSE(example.writer().is_wanted());
}

}  // namespace
}  // namespace shardweld::execute
