// Pickles made to hurt: each must be refused with a reason, in bounded time and memory.
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

TEST(PickleAttack, denied_globals_are_named) {
    EXPECT_EQ(attack_error("cos\nsystem\n."s),
              "corrupt: pickle: disallowed global os.system; the file tries to run code and was "
              "not made by a trainer (opcode at byte 0)" +
                  std::string(kDoNotLoad));
    for (const std::string module :
         {"os", "posix", "nt", "subprocess", "sys", "socket", "shutil", "importlib", "runpy",
          "ctypes", "pty", "os.path", "importlib.util", "ctypes.util"}) {
        EXPECT_EQ(attack_error("c" + module + "\nx\n."),
                  "corrupt: pickle: disallowed global " + module +
                      ".x; the file tries to run code and was not made by a trainer (opcode at "
                      "byte 0)" +
                      kDoNotLoad);
    }
    for (const std::string name : {"eval", "exec", "compile", "open", "__import__"}) {
        for (const std::string module : {"builtins", "__builtin__"}) {
            EXPECT_NE(attack_error("c" + module + "\n" + name + "\n.").find("disallowed global"),
                      std::string::npos)
                << module << " " << name;
        }
    }
}

TEST(PickleAttack, denied_globals_are_found_in_every_disguise) {
    const std::string denied = "disallowed global";
    // STACK_GLOBAL with texts from the memo, a dotted path, below an unused value, in skipped
    // parts.
    EXPECT_NE(attack_error("\x8c\2os\x94\x8c\6system\x94"
                           "00h\0h\1\x93."s)
                  .find(denied),
              std::string::npos);
    EXPECT_NE(attack_error("\x8c\5torch\x8c\25serialization.os.open\x93."s).find(denied),
              std::string::npos);
    EXPECT_NE(attack_error("K\1cposix\nsystem\n0."s).find(denied), std::string::npos);
    EXPECT_NE(error_text([] {
                  parse_attack("cm\nMetadata\n)\x81}(X\5\0\0\0plans](cos\nsystem\neub."s, "plans");
              }).find(denied),
              std::string::npos);
}

TEST(PickleAttack, names_that_only_look_denied_pass) {
    EXPECT_EQ(attack_error("cosmium\nsystem\n."s), "no error");
    EXPECT_EQ(attack_error("cbuiltins\nset\n."s), "no error");
    EXPECT_EQ(attack_error("cbuiltins\ngetattr\n."s), "no error");
    EXPECT_EQ(attack_error("csignal\nSignals\n."s), "no error");
}

TEST(PickleAttack, refuses_opcodes_no_trainer_writes) {
    EXPECT_EQ(attack_error("(S'x'\nios\nsystem\n."s),
              "corrupt: pickle: disallowed opcode INST (0x69): no trainer writes it (opcode at "
              "byte 6)" +
                  std::string(kDoNotLoad));
    EXPECT_EQ(attack_error("(o."s),
              "corrupt: pickle: disallowed opcode OBJ (0x6f): no trainer writes it (opcode at "
              "byte 1)" +
                  std::string(kDoNotLoad));
    EXPECT_NE(attack_error("Pid\n."s).find("PERSID (0x50)"), std::string::npos);
    for (const char opcode : {'\x82', '\x83', '\x84'}) {
        EXPECT_NE(attack_error(std::string(1, opcode)).find("disallowed opcode EXT"),
                  std::string::npos);
    }
    EXPECT_NE(attack_error("\x97."s).find("NEXT_BUFFER (0x97)"), std::string::npos);
    EXPECT_EQ(attack_error("\xff."s), "corrupt: pickle: unknown opcode 0xff (opcode at byte 0)");
    EXPECT_EQ(attack_error("\x80\x06."s),
              "corrupt: pickle: protocol 6, known are 0 to 5 (opcode at byte 0)");
}

TEST(PickleAttack, lengths_are_checked_before_use) {
    EXPECT_EQ(attack_error("X\xfe\xff\xff\xff"
                           "ab."s),
              "corrupt: pickle: BINUNICODE runs past the end: 4294967294 bytes at byte 5, 3 left");
    EXPECT_EQ(attack_error("\x8e\xff\xff\xff\xff\xff\xff\xff\xff"
                           "ab."s),
              "corrupt: pickle: BINBYTES8 runs past the end: 18446744073709551615 bytes at byte 9, "
              "3 left");
    EXPECT_EQ(attack_error("\x8b\xff\xff\xff\xff."s),
              "corrupt: pickle: LONG4 has the negative length -1 (opcode at byte 0)");
    EXPECT_EQ(attack_error("T\xff\xff\xff\xff."s),
              "corrupt: pickle: BINSTRING has the negative length -1 (opcode at byte 0)");
    EXPECT_EQ(attack_error("\x95\xff\0\0\0\0\0\0\0."s),
              "corrupt: pickle: FRAME runs past the end: 255 bytes at byte 9, 1 left");
    EXPECT_EQ(attack_error("I12"s), "corrupt: pickle: INT at byte 1 has no end of line");
    EXPECT_EQ(attack_error("J\1\2"s),
              "corrupt: pickle: BININT runs past the end: 4 bytes at byte 1, 2 left");
}

TEST(PickleAttack, the_stack_never_underflows) {
    EXPECT_EQ(attack_error("."s),
              "corrupt: pickle: stack underflow: STOP takes more than there is (opcode at byte 0)");
    EXPECT_EQ(attack_error("K\1(s."s),
              "corrupt: pickle: stack underflow: SETITEM takes more than there is (opcode at byte "
              "3)");
    EXPECT_EQ(
        attack_error("t."s),
        "corrupt: pickle: stack underflow: TUPLE takes more than there is (opcode at byte 0)");
    EXPECT_EQ(
        attack_error("K\1(\x85."s),
        "corrupt: pickle: stack underflow: TUPLE1 takes more than there is (opcode at byte 3)");
    for (const std::string tail : {"0", "1", "2", "a", "e", "u", "R", "b", "Q", "\x81", "\x93",
                                   "\x90", "\x94", "p0\n", "d", "l", "(e", "(u", "(\x90"}) {
        EXPECT_NE(attack_error(tail + ".").find("stack underflow"), std::string::npos) << tail;
    }
    EXPECT_EQ(attack_error("K\1(K\2."s),
              "corrupt: pickle: STOP behind an open mark (opcode at byte 5)");
    EXPECT_EQ(attack_error("K\1"s), "corrupt: pickle: ends without STOP after 2 bytes");
    EXPECT_EQ(attack_error(""s), "corrupt: pickle: it is empty");
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

TEST(PickleAttack, values_of_the_wrong_kind_are_refused) {
    EXPECT_EQ(attack_error("K\1K\2a."s),
              "corrupt: pickle: elements are appended to an integer (opcode at byte 4)");
    EXPECT_EQ(attack_error("]K\1K\2s."s),
              "corrupt: pickle: items are set on a list (opcode at byte 5)");
    EXPECT_EQ(attack_error("}(K\1u."s),
              "corrupt: pickle: a key without a value (opcode at byte 4)");
    EXPECT_EQ(attack_error("]K\1b."s), "corrupt: pickle: BUILD on a list (opcode at byte 3)");
    EXPECT_EQ(attack_error("K\1)R."s),
              "corrupt: pickle: an integer is called as a class or function (opcode at byte 3)");
    EXPECT_EQ(attack_error("cm\nC\nK\1R."s),
              "corrupt: pickle: the arguments of m C are an integer, expected a tuple (opcode at "
              "byte 7)");
    EXPECT_EQ(attack_error("K\1K\2\x93."s),
              "corrupt: pickle: STACK_GLOBAL needs two texts (opcode at byte 4)");
    EXPECT_EQ(attack_error("cm\nC\n)R(K\1eK\1K\2s."s),
              "corrupt: pickle: items are set on an object (opcode at byte 15)");
    EXPECT_EQ(attack_error("c\nx\n."s),
              "corrupt: pickle: ' x' is not the name of a global (opcode at byte 0)");
    EXPECT_EQ(attack_error("ca b\nx\n."s),
              "corrupt: pickle: 'a b x' is not the name of a global (opcode at byte 0)");
}

TEST(PickleAttack, memo_indices_are_bounded) {
    EXPECT_EQ(attack_error("K\1r\xff\xff\xff\xff."s),
              "corrupt: pickle: memo index 4294967295 is out of range (opcode at byte 2)");
    EXPECT_EQ(attack_error("h\5."s),
              "corrupt: pickle: memo index 5 was never set (opcode at byte 0)");
    EXPECT_EQ(attack_error("K\1p99999999999999999999\n."s),
              "corrupt: pickle: PUT holds no 64-bit number (opcode at byte 2)");
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
