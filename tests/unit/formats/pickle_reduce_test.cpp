// Objects taken out of a pickle while it is read: what others still refer to must stay what it was.
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "formats/containers/pickle.hpp"
#include "support/error_text.hpp"

namespace shardweld::formats {
namespace {

using namespace std::string_literals;

/// Takes objects "m C" that have a part `at`; notes the numbers in it.
class Taker final : public PickleReducer {
  public:
    std::vector<std::vector<Index>> taken;

    std::optional<std::uint32_t> takes(std::string_view class_name) override {
        return class_name == "m C" ? std::optional(7U) : std::nullopt;
    }
    std::optional<std::int64_t> reduce(std::uint32_t number, const PickleValue& object) override {
        EXPECT_EQ(number, 7U);
        const PickleValue* const at = object.attribute("at");
        if (at == nullptr) {
            return std::nullopt;
        }
        auto& numbers = taken.emplace_back();
        for (const PickleValue* const part : at->elements()) {
            numbers.push_back(part->integer);
        }
        return static_cast<std::int64_t>(taken.size());
    }
    void restart() override { taken.clear(); }
};

Pickle parse_reduced(const std::string& text, Taker& taker, std::string_view skipped_key = {}) {
    const auto bytes = std::as_bytes(std::span(text));
    return Pickle::parse({bytes.begin(), bytes.end()}, skipped_key, &taker);
}

const std::string kAt = "X\2\0\0\0at"s;
const std::string kNew = "cm\nC\n)\x81"s;

// (1000 + i, 2000 + i)
std::string pair_of(int i) {
    const auto number = [](int value) {
        return "M"s + static_cast<char>(value & 0xff) + static_cast<char>(value >> 8);
    };
    return number(1000 + i) + number(2000 + i) + "\x86";
}

std::string object_of(const std::string& at) {
    return kNew + "}" + kAt + at + "sb";
}

std::string many(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
        text += object_of(pair_of(i));
    }
    return text;
}

TEST(PickleReduce, objects_become_what_the_reducer_answers) {
    Taker taker;
    const Pickle pickle = parse_reduced("(" + many(3) + "cm\nD\n)\x81}b" + kNew + "}bl.", taker);
    const auto parts = pickle.root().elements();
    ASSERT_EQ(parts.size(), 5U);
    EXPECT_EQ(parts[2]->kind, PickleKind::reduced);
    EXPECT_EQ(parts[2]->integer, 3);
    EXPECT_EQ(parts[2]->size, 7U);
    EXPECT_EQ(parts[3]->class_name(), "m D");
    EXPECT_EQ(parts[4]->class_name(), "m C");  // not taken: it has no `at`
    EXPECT_EQ(taker.taken,
              (std::vector<std::vector<Index>>{{1000, 2000}, {1001, 2001}, {1002, 2002}}));
}

// Memory is used again: hundreds of objects later a part that was kept must be as it was.
TEST(PickleReduce, what_is_fetched_again_is_kept) {
    const std::string kept = kNew + "q\1}q\2" + kAt + "q\3" + pair_of(500) + "q\4sb";
    for (const auto& [fetch, kind] :
         {std::pair("h\1"s, PickleKind::reduced), std::pair("h\2"s, PickleKind::dict),
          std::pair("h\3"s, PickleKind::text), std::pair("h\4"s, PickleKind::tuple)}) {
        Taker taker;
        const Pickle pickle = parse_reduced("(" + kept + many(400) + fetch + "l.", taker);
        ASSERT_EQ(taker.taken.size(), 401U);
        EXPECT_EQ(taker.taken[0], (std::vector<Index>{1500, 2500}));
        EXPECT_EQ(taker.taken[400], (std::vector<Index>{1399, 2399}));
        const PickleValue& value = *pickle.root().elements().back();
        ASSERT_EQ(value.kind, kind);
        const PickleValue* const pair = kind == PickleKind::dict    ? value.find("at")
                                        : kind == PickleKind::tuple ? &value
                                                                    : nullptr;
        if (pair != nullptr) {
            ASSERT_EQ(pair->elements().size(), 2U);
            EXPECT_EQ(pair->elements()[0]->integer, 1500);
            EXPECT_EQ(pair->elements()[1]->integer, 2500);
        }
    }
}

// torch.Size((x, y)) is the tuple (x, y): what holds it may be fetched again.
TEST(PickleReduce, the_arguments_of_a_size_keep_it) {
    Taker taker;
    const std::string size = "ctorch\nSize\n" + pair_of(500) + "\x85q\1R";
    const Pickle pickle = parse_reduced("(" + object_of(size) + many(400) + "h\1l.", taker);
    EXPECT_EQ(taker.taken[0], (std::vector<Index>{1500, 2500}));
    const auto arguments = pickle.root().elements().back()->elements();
    ASSERT_EQ(arguments.size(), 1U);
    ASSERT_EQ(arguments[0]->kind, PickleKind::tuple);
    ASSERT_EQ(arguments[0]->elements().size(), 2U);
    EXPECT_EQ(arguments[0]->elements()[0]->integer, 1500);
    EXPECT_EQ(arguments[0]->elements()[1]->integer, 2500);
}

TEST(PickleReduce, shared_without_the_memo) {
    // DUP: the same tuple is the object's part and the list's.
    Taker taker;
    const Pickle pickle = parse_reduced(
        "(" + pair_of(9) + "2\x85" + "0" + kNew + "2}" + kAt + pair_of(5) + "sb" + many(100) + "l.",
        taker);
    EXPECT_EQ(pickle.root().elements()[0]->elements()[0]->integer, 1009);
    EXPECT_EQ(pickle.root().elements()[1], pickle.root().elements()[2]);
}

TEST(PickleReduce, objects_that_hold_themselves) {
    Taker taker;
    // {at: self} and {at: (1, 2)}, x: self.
    const std::string self = kNew + "q\1}" + kAt + "h\1s" + "X\1\0\0\0xh\1sb"s;
    const Pickle pickle = parse_reduced("(" + self + many(50) + "h\1l.", taker);
    EXPECT_EQ(pickle.root().elements().front(), pickle.root().elements().back());
    EXPECT_EQ(pickle.root().elements().front()->kind, PickleKind::reduced);
}

TEST(PickleReduce, built_twice) {
    Taker taker;
    EXPECT_EQ(test::error_text([&] { parse_reduced(object_of(pair_of(1)) + "}b.", taker); }),
              "corrupt: pickle: BUILD on a reduced object (opcode at byte 25)");
}

}  // namespace
}  // namespace shardweld::formats
