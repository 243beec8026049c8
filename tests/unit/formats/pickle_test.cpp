#include "formats/containers/pickle.hpp"

#include <string>

#include <gtest/gtest.h>

#include "core/stop_point.hpp"
#include "support/error_text.hpp"

namespace shardweld::formats {
namespace {

using namespace std::string_literals;
using test::error_text;

Pickle parse(const std::string& text, std::string_view skipped_key = {}) {
    const auto bytes = std::as_bytes(std::span(text));
    return Pickle::parse({bytes.begin(), bytes.end()}, skipped_key);
}

// A value as text, to compare whole structures.
std::string shown(const PickleValue& value);

std::string shown_all(std::span<const PickleValue* const> values) {
    std::string text;
    for (const PickleValue* const value : values) {
        text += (text.empty() ? "" : " ") + shown(*value);
    }
    return text;
}

std::string shown_pairs(const PickleValue& value) {
    std::string text;
    for (std::size_t i = 0; i < value.pair_count(); ++i) {
        text += (i == 0 ? "" : " ") + shown(value.key(i)) + ":" + shown(value.value(i));
    }
    return text;
}

std::string shown_object(const PickleValue& value) {
    std::string text =
        "<" + std::string(value.class_name()) + " (" + shown_all(value.arguments()) + ")";
    if (value.state() != nullptr) {
        text += " state " + shown(*value.state());
    }
    if (value.pair_count() > 0) {
        text += " {" + shown_pairs(value) + "}";
    } else if (!value.elements().empty()) {
        text += " [" + shown_all(value.elements()) + "]";
    }
    return text + ">";
}

std::string shown(const PickleValue& value) {
    switch (value.kind) {
        case PickleKind::none:
            return "None";
        case PickleKind::boolean:
            return value.integer == 0 ? "False" : "True";
        case PickleKind::integer:
            return std::to_string(value.integer);
        case PickleKind::real:
            return std::to_string(value.real);
        case PickleKind::text:
            return "'" + std::string(value.text()) + "'";
        case PickleKind::bytes:
            return "b'" + std::string(value.text()) + "'";
        case PickleKind::tuple:
            return "(" + shown_all(value.elements()) + ")";
        case PickleKind::list:
            return "[" + shown_all(value.elements()) + "]";
        case PickleKind::set:
            return "{" + shown_all(value.elements()) + "}";
        case PickleKind::dict:
            return "{" + shown_pairs(value) + "}";
        case PickleKind::global:
            return "<" + std::string(value.text()) + ">";
        case PickleKind::object:
            return shown_object(value);
        case PickleKind::reduced:
            return "reduced(" + std::to_string(value.integer) + ")";
        case PickleKind::persistent:
            return "@" + shown(*value.persistent_id());
        case PickleKind::big_integer:
            return "big(" + std::to_string(value.text().size()) + ")";
    }
    return "?";
}

std::string parsed(const std::string& text) {
    return shown(parse(text).root());
}

TEST(Pickle, reads_numbers) {
    EXPECT_EQ(parsed("K\x07."s), "7");
    EXPECT_EQ(parsed("M\xff\xff."s), "65535");
    EXPECT_EQ(parsed("J\xfe\xff\xff\xff."s), "-2");
    EXPECT_EQ(parsed("\x8a\x00."s), "0");
    EXPECT_EQ(parsed("\x8a\x01\xff."s), "-1");
    EXPECT_EQ(parsed("\x8a\x02\xff\x00."s), "255");
    EXPECT_EQ(parsed("\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80."s), "-9223372036854775808");
    EXPECT_EQ(parsed("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00."s), "big(9)");
    EXPECT_EQ(parsed("\x8b\x03\x00\x00\x00\x01\x02\x03."s), "197121");
    EXPECT_EQ(parsed("G\x3f\xf8\x00\x00\x00\x00\x00\x00."s), "1.500000");
    EXPECT_EQ(parsed("(NI00\nI01\n\x88\x89I-12\nL34L\nF-2.5\nFinf\nt."s),
              "(None False True True False -12 34 -2.500000 inf)");
}

TEST(Pickle, reads_text_and_bytes) {
    EXPECT_EQ(parsed("(X\x02\0\0\0abU\x01xT\x02\0\0\0yz\x8c\x03t\xc3\xa9\x8d\1\0\0\0\0\0\0\0wt."s),
              "('ab' 'x' 'yz' 't\xc3\xa9' 'w')");
    EXPECT_EQ(parsed("(C\x02\0\xff"
                     "B\1\0\0\0a\x8e\1\0\0\0\0\0\0\0"
                     "b\x96\1\0\0\0\0\0\0\0"
                     "ct."s),
              "(b'\0\xff' b'a' b'b' b'c')"s);
    EXPECT_EQ(parsed("(S'a\\'b\\n\\x41\\xe9'\nS\"q\"\nVx\\u00e9\\U0001F600\xe9\nt."s),
              "('a'b\nA\xc3\xa9' 'q' 'x\xc3\xa9\xf0\x9f\x98\x80\xc3\xa9')");
}

TEST(Pickle, reads_containers) {
    EXPECT_EQ(parsed("]."s), "[]");
    EXPECT_EQ(parsed(")."s), "()");
    EXPECT_EQ(parsed("](K\1K\2eK\3a."s), "[1 2 3]");
    EXPECT_EQ(parsed("(K\1K\2l."s), "[1 2]");
    EXPECT_EQ(parsed("(K\1K\2t."s), "(1 2)");
    EXPECT_EQ(parsed("K\1\x85."s), "(1)");
    EXPECT_EQ(parsed("K\1K\2\x86."s), "(1 2)");
    EXPECT_EQ(parsed("K\1K\2K\3\x87."s), "(1 2 3)");
    EXPECT_EQ(parsed("}(K\1K\2K\3K\4uK\5K\6s."s), "{1:2 3:4 5:6}");
    EXPECT_EQ(parsed("(K\1K\2d."s), "{1:2}");
    EXPECT_EQ(parsed("\x8f(K\1K\2\x90."s), "{1 2}");
    EXPECT_EQ(parsed("(K\1\x91."s), "{1}");
}

TEST(Pickle, reads_stack_and_memo) {
    EXPECT_EQ(parsed("K\1K\2"
                     "0."s),
              "1");
    EXPECT_EQ(parsed("K\1(K\2K\3"
                     "1."s),
              "1");
    EXPECT_EQ(parsed("K\1"
                     "2\x86."s),
              "(1 1)");
    EXPECT_EQ(parsed("K\1(0."s), "1");
    EXPECT_EQ(parsed("\x80\x04\x95\x07\0\0\0\0\0\0\0K\1\x94h\0\x86."s), "(1 1)");
    EXPECT_EQ(parsed("(K\1q\0h\0K\2r\1\0\0\0j\1\0\0\0K\3p2\ng2\nt."s), "(1 1 2 2 3 3)");
}

TEST(Pickle, keeps_calls_inert) {
    const Pickle pickle = parse("cargparse\nNamespace\n)\x81}X\1\0\0\0aK\1sb."s);
    EXPECT_EQ(shown(pickle.root()), "<argparse Namespace () state {'a':1}>");
    EXPECT_EQ(pickle.root().attribute("a")->integer, 1);
    EXPECT_EQ(pickle.root().attribute("b"), nullptr);
    EXPECT_EQ(parsed("\x8c\5torch\x8c\10bfloat16\x93."s), "<torch bfloat16>");
    EXPECT_EQ(parsed("cany.where\nF\nK\1\x85R."s), "<any.where F (1)>");
    EXPECT_EQ(parsed("cm\nC\nK\1\x85}\x92."s), "<m C (1)>");
    EXPECT_EQ(parsed("ccopyreg\n_reconstructor\n(cm\nC\nc__builtin__\nobject\nNtR."s), "<m C ()>");
    EXPECT_EQ(parsed("X\1\0\0\0kQ."s), "@'k'");
}

TEST(Pickle, slots_are_attributes_too) {
    const Pickle pickle = parse(
        "cm\nC\n)\x81N}X\1\0\0\0aK\1s\x86"
        "b."s);
    EXPECT_EQ(pickle.root().attribute("a")->integer, 1);
}

TEST(Pickle, an_ordered_dict_is_a_mapping) {
    const Pickle pickle =
        parse("ccollections\nOrderedDict\n)R(X\1\0\0\0aK\1X\1\0\0\0bK\2X\1\0\0\0aK\3u."s);
    EXPECT_TRUE(pickle.root().is_mapping());
    EXPECT_EQ(shown(pickle.root()), "<collections OrderedDict () {'a':1 'b':2 'a':3}>");
    EXPECT_EQ(pickle.root().find("a")->integer, 3);
    EXPECT_EQ(pickle.root().find("c"), nullptr);
    const Pickle old = parse("ccollections\nOrderedDict\n](](X\1\0\0\0aK\1ee\x85R."s);
    EXPECT_EQ(old.root().find("a")->integer, 1);
    const Pickle empty = parse("ccollections\nOrderedDict\n)R."s);
    EXPECT_TRUE(empty.root().is_mapping());
    EXPECT_EQ(empty.root().pair_count(), 0U);
    EXPECT_EQ(error_text([&] { std::ignore = empty.root().key(0); }),
              "internal: a pickled mapping has no such pair");
}

TEST(Pickle, sequence_classes_have_elements) {
    EXPECT_EQ(parsed("ctorch\nSize\nK\1K\2\x86\x85R."s), "(1 2)");
    EXPECT_EQ(parsed("c__builtin__\nset\n](K\1K\2e\x85R."s), "<__builtin__ set ([1 2]) [1 2]>");
    EXPECT_EQ(parsed("cm\nListLike\n)R(K\1K\2e."s), "<m ListLike () [1 2]>");
}

TEST(Pickle, codecs_encode_becomes_bytes) {
    EXPECT_EQ(parsed("c_codecs\nencode\nX\2\0\0\0abX\6\0\0\0latin1\x86R."s), "b'ab'");
    EXPECT_EQ(parsed("c_codecs\nencode\nX\4\0\0\0\xc2\x80\xc3\xbfX\6\0\0\0latin1\x86R."s),
              "b'\x80\xff'");
    EXPECT_EQ(parsed("c_codecs\nencode\nX\1\0\0\0aX\5\0\0\0utf-8\x86R."s),
              "<_codecs encode ('a' 'utf-8')>");
    EXPECT_EQ(
        error_text([] { parse("c_codecs\nencode\nX\2\0\0\0\xc4\x80X\6\0\0\0latin1\x86R."s); }),
        "corrupt: pickle: text of _codecs.encode is not Latin-1 (opcode at byte 35)");
}

TEST(Pickle, values_stay_shared) {
    const Pickle pickle = parse("]q\0(h\0h\0K\1e."s);
    const PickleValue& root = pickle.root();
    ASSERT_EQ(root.elements().size(), 3U);
    EXPECT_EQ(root.elements()[0], &root);  // a list that holds itself
    EXPECT_EQ(root.elements()[1], &root);
}

TEST(Pickle, tells_where_it_ends) {
    EXPECT_EQ(parse("K\1.K\2."s).consumed(), 3U);
}

TEST(Pickle, outlives_moves) {
    Pickle first = parse("(X\2\0\0\0abcm\nC\nt."s);
    const Pickle second = std::move(first);
    EXPECT_EQ(shown(second.root()), "('ab' <m C>)");
}

TEST(Pickle, reports_globals_it_does_not_know) {
    const Pickle pickle = parse(
        "(cmegatron.core.enums\nModelType\nctorch\nbfloat16\ncbuiltins\ngetattr\n"
        "ccollections\nOrderedDict\ncmegatron.core.enums\nModelType\nt."s);
    EXPECT_EQ(pickle.inert_globals(),
              (std::set<std::string>{"builtins getattr", "megatron.core.enums ModelType"}));
}

TEST(Pickle, collects_persistent_values) {
    const Pickle pickle = parse("(K\1QK\2Qt."s);
    ASSERT_EQ(pickle.persistents().size(), 2U);
    EXPECT_EQ(shown_all(pickle.persistents()), "@1 @2");
}

// Metadata with state {"a": [1], "all_local_plans": [...], "b": 2}.
const std::string kWithPlans =
    "cm\nMetadata\n)\x81}(X\1\0\0\0aX\1\0\0\0xq\1X\5\0\0\0plans](K\1X\1\0\0\0tq\2}"
    "K\1K\2seX\1\0\0\0b"
    "h\2ub."s;

TEST(Pickle, skips_the_named_key_only) {
    EXPECT_EQ(parsed(kWithPlans), "<m Metadata () state {'a':'x' 'plans':[1 't' {1:2}] 'b':'t'}>");
    EXPECT_EQ(shown(parse(kWithPlans, "plans").root()),
              "<m Metadata () state {'a':'x' 'plans':None 'b':'t'}>");
    EXPECT_EQ(shown(parse(kWithPlans, "other").root()), parsed(kWithPlans));
}

TEST(Pickle, keeps_what_later_parts_refer_to) {
    // The list inside the skipped value is named again behind it: nothing may be lost.
    const std::string text = "cm\nMetadata\n)\x81}(X\5\0\0\0plans](]K\1aq\2eX\1\0\0\0bh\2ub."s;
    EXPECT_EQ(shown(parse(text, "plans").root()), "<m Metadata () state {'plans':[[1]] 'b':[1]}>");
}

TEST(Pickle, a_key_from_the_memo_ends_what_is_skipped) {
    const std::string text =
        "cm\nMetadata\n)\x81}(X\1\0\0\0bq\1K\1X\5\0\0\0plans](K\1K\2eh\1K\3ub."s;
    EXPECT_EQ(shown(parse(text, "plans").root()),
              "<m Metadata () state {'b':1 'plans':None 'b':3}>");
}

TEST(Pickle, skips_a_list_of_one) {
    const std::string text =
        "cm\nMetadata\n)\x81}(X\5\0\0\0plans]q\1\x8c\1m\x8c\1P\x93)\x81}X\1\0\0\0iK\1sbaX\1\0\0\0bK\7ub."s;
    EXPECT_EQ(parse(text, "plans").root().attribute("b")->integer, 7);
    EXPECT_EQ(parse(text, "plans").root().attribute("plans")->kind, PickleKind::none);
}

TEST(Pickle, of_many_values_is_left_when_the_process_is_asked_to_end) {
    std::string text = "(";
    for (int i = 0; i < 100'000; ++i) {
        text += "K\1"s;
    }
    text += "l.";
    set_why_stopped([] { return std::string("asked to end"); });
    EXPECT_NE(error_text([&] { parse(text); }).find("asked to end"), std::string::npos);
    set_why_stopped(nullptr);
    EXPECT_EQ(parse(text).root().elements().size(), 100'000U);
}

}  // namespace
}  // namespace shardweld::formats
