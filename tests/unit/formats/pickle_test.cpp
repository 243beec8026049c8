#include "formats/containers/pickle.hpp"

#include <fstream>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "core/process/stop_point.hpp"
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

/// `\xHH`, `\n` and `\\` as the bytes that they stand for.
std::string bytes_of_row(std::string_view text) {
    std::string bytes;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] != '\\') {
            bytes += text[at];
        } else if (text[++at] == 'x') {
            bytes += static_cast<char>(std::stoi(std::string(text.substr(at + 1, 2)), nullptr, 16));
            at += 2;
        } else {
            bytes += text[at] == 'n' ? '\n' : text[at];
        }
    }
    return bytes;
}

/// Takes nothing: with it the memo is kept otherwise, and all answers are the same.
class Idle final : public PickleReducer {
  public:
    std::optional<std::uint32_t> takes(std::string_view) override { return std::nullopt; }
    std::optional<std::int64_t> reduce(std::uint32_t, const PickleValue&) override {
        return std::nullopt;
    }
    void restart() override {}
};

/// The value, or the error.
std::string answer(const std::string& text, PickleReducer* reducer) {
    std::string value;
    const std::string error = error_text([&] {
        const auto bytes = std::as_bytes(std::span(text));
        value = shown(Pickle::parse({bytes.begin(), bytes.end()}, {}, reducer).root());
    });
    return value.empty() ? error : value;
}

TEST(Pickle, is_what_the_vectors_say) {
    constexpr std::string_view kMark = " => ";
    std::ifstream file(SHARDWELD_TEST_VECTORS "/pickles.txt");
    int n_rows = 0;
    for (std::string line; std::getline(file, line);) {
        const std::size_t mark = line.rfind(kMark);
        if (line.starts_with('#') || mark == std::string::npos) {
            continue;
        }
        const std::string wanted = bytes_of_row(std::string_view(line).substr(mark + kMark.size()));
        Idle idle;
        for (PickleReducer* const reducer :
             {static_cast<PickleReducer*>(nullptr), static_cast<PickleReducer*>(&idle)}) {
            const std::string found = answer(bytes_of_row(line.substr(0, mark)), reducer);
            const bool fits = wanted == "no error" ? !found.starts_with("corrupt")
                              : wanted.starts_with('~')
                                  ? found.find(wanted.substr(1)) != std::string::npos
                                  : found == wanted;
            EXPECT_TRUE(fits) << line << "\n" << found;
        }
        ++n_rows;
    }
    EXPECT_GT(n_rows, 130);
}

TEST(Pickle, keeps_calls_inert) {
    const Pickle pickle = parse("cargparse\nNamespace\n)\x81}X\1\0\0\0aK\1sb."s);
    EXPECT_EQ(shown(pickle.root()), "<argparse Namespace () state {'a':1}>");
    EXPECT_EQ(pickle.root().attribute("a")->integer, 1);
    EXPECT_EQ(pickle.root().attribute("b"), nullptr);
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
