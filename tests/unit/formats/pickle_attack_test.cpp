// Pickles made to hurt: each must be refused with a reason, in bounded time and memory. Short ones
// are rows of tests/vectors/pickles.txt.
#include <random>
#include <string>

#include <sys/resource.h>

#include <gtest/gtest.h>

#include "formats/containers/pickle.hpp"
#include "support/error_text.hpp"

namespace shardweld::formats {
namespace {

using namespace std::string_literals;
using test::error_text;

Pickle parse_attack(const std::string& text, std::string_view skipped_key = {}) {
    const auto bytes = std::as_bytes(std::span(text));
    return Pickle::parse({bytes.begin(), bytes.end()}, skipped_key);
}

std::string attack_error(const std::string& text) {
    return error_text([&] { parse_attack(text); });
}

/// Such a file is not to be copied again.
constexpr const char* kDoNotLoad = "; do not open this file with torch.load; find out who wrote it";

TEST(PickleAttack, denied_globals_are_found_in_what_is_skipped) {
    EXPECT_NE(error_text([] {
                  parse_attack("cm\nMetadata\n)\x81}(X\5\0\0\0plans](cos\nsystem\neub."s, "plans");
              }).find("disallowed global"),
              std::string::npos);
}

TEST(PickleAttack, open_containers_and_waiting_values_are_bounded) {
    EXPECT_EQ(attack_error(std::string(10'000, '(') + std::string(10'000, '1') + "N."), "no error");
    EXPECT_EQ(attack_error(std::string(10'001, '(') + "N."),
              "corrupt: pickle: more than 10000 containers are open inside one another (opcode at "
              "byte 10000)" +
                  std::string(kDoNotLoad));
    constexpr std::size_t kMost = std::size_t{1} << 23U;
    EXPECT_EQ(attack_error("(" + std::string(kMost, 'N') + "t."), "no error");
    EXPECT_EQ(attack_error(std::string(kMost + 1, ']') + "."),
              "corrupt: pickle: more than 8388608 values wait for their container (opcode at byte "
              "8388608)" +
                  std::string(kDoNotLoad));
}

TEST(PickleAttack, nesting_is_bounded) {
    const std::string lists = std::string(300000, ']') + std::string(299999, 'a') + ".";
    EXPECT_EQ(attack_error(lists),
              "corrupt: pickle: nesting too deep: more than 2000 levels (opcode at byte 302000)" +
                  std::string(kDoNotLoad));
    EXPECT_NE(attack_error(std::string(3000, '(') + std::string(3000, 't') + "\x85.").find("deep"),
              std::string::npos);
    EXPECT_EQ(attack_error("]" + std::string(1900, '\x85') + "."), "no error");
}

// A chain grown at its far end never looks deep while it is built; freeing it must not recurse.
TEST(PickleAttack, long_chains_are_freed_without_recursion) {
    std::string text = "]q\1";
    for (int i = 0; i < 200000; ++i) {
        text += "h\1]q\1a0";
    }
    EXPECT_EQ(attack_error(text + "h\1."), "no error");
}

TEST(PickleAttack, sharing_is_never_expanded) {
    std::string text = "]q\1";
    for (int i = 0; i < 1000; ++i) {
        text += "h\1\x86q\1"s.insert(0, "h\1");  // (x, x)
    }
    EXPECT_EQ(attack_error(text + "h\1."), "no error");
}

// One large value named again and again costs its reference, not its size: otherwise each of
// these takes hundreds of gigabytes, and more minutes than a test may.
TEST(PickleAttack, large_shared_values_cost_their_reference) {
    constexpr int kTimes = 200000;
    std::string tuple = "(";
    std::string encode = "c_codecs\nencode\nq\3X\6\0\0\0latin1q\2"s + "X\x40\x0d\x03\0"s;
    for (int i = 0; i < 100000; ++i) {
        tuple += "K\1";
        encode += "\xc3\xbf";
    }
    tuple += "tq\1(";
    encode += "q\1(";
    std::string objects = tuple + "cm\nC\nq\2";
    for (int i = 0; i < kTimes; ++i) {
        tuple += "h\1\x85";
        objects += "h\2h\1R";
        encode += "h\3h\1h\2\x86R";
    }
    EXPECT_EQ(attack_error(tuple + "t."), "no error");
    EXPECT_EQ(attack_error(objects + "t."), "no error");
    EXPECT_EQ(attack_error(encode + "t."), "no error");
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    EXPECT_LT(usage.ru_maxrss, 2L << 20) << "KiB";
}

TEST(PickleAttack, random_bytes_give_errors_only) {
    std::mt19937 random(20240607);
    const std::string opcodes =
        "(.012FGIJKLMNRSTUVXabcdeghjlpqrstu}])Q\x80\x81\x85\x86\x87\x88\x8a\x8c\x8f\x90\x91\x93"
        "\x94";
    int accepted = 0;
    for (int i = 0; i < 20000; ++i) {
        std::string text;
        const std::size_t size = random() % 40;
        for (std::size_t k = 0; k < size; ++k) {
            const bool is_opcode = random() % 3 != 0;
            text +=
                is_opcode ? opcodes[random() % opcodes.size()] : static_cast<char>(random() % 8);
        }
        const std::string text_answer = attack_error(text + ".");
        accepted += text_answer == "no error" ? 1 : 0;
        ASSERT_TRUE(text_answer == "no error" || text_answer.starts_with("corrupt: pickle: "))
            << text_answer;
    }
    EXPECT_GT(accepted, 0);
}

// Many objects can share one state: what one look-up costs, each of them costs.
TEST(PickleAttack, objects_with_more_attributes_than_any_real_one_are_not_searched) {
    const auto object = [](int n_attributes) {
        std::string text = "\x80\2cx\ny\n)\x81}("s;
        for (int i = 0; i < n_attributes; ++i) {
            text += "X\1\0\0\0aN"s;
        }
        return parse_attack(text + "ub.");
    };
    const Pickle most = object(4096);
    EXPECT_EQ(most.root().attribute("a")->kind, PickleKind::none);
    EXPECT_EQ(most.root().attribute("b"), nullptr);
    const Pickle more = object(4097);
    EXPECT_EQ(error_text([&] { (void)more.root().attribute("a"); }),
              "corrupt: a pickled object has 4097 attributes");
}

}  // namespace
}  // namespace shardweld::formats
