#include "core/shared_text.hpp"

#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/codec.hpp"
#include "core/fingerprint.hpp"

using namespace shardweld;

namespace {

TEST(SharedText, is_one_copy_however_it_is_made) {
    const std::string text = "decoder.layers.7.mlp.linear_fc1.weight";
    const SharedText first = text;
    const SharedText again = std::string_view(text);
    EXPECT_EQ(first, again);
    EXPECT_EQ(&first.text(), &again.text());
    EXPECT_EQ(first.text(), text);
    EXPECT_NE(&first.text(), &text);
    EXPECT_EQ(SharedText(), SharedText(""));
    EXPECT_NE(first, SharedText("decoder"));
}

TEST(SharedText, is_ordered_as_a_text) {
    const std::set<SharedText> texts{"b", "a", "c", "a"};
    const std::vector<std::string> sorted(texts.begin(), texts.end());
    EXPECT_EQ(sorted, (std::vector<std::string>{"a", "b", "c"}));
}

TEST(SharedText, is_the_same_in_all_threads) {
    constexpr int kTexts = 2000;
    const auto make_all = [](std::vector<SharedText>& out) {
        for (int i = 0; i < kTexts; ++i) {
            out.emplace_back("thread text " + std::to_string(i));
        }
    };
    std::vector<std::vector<SharedText>> made(4);
    {
        std::vector<std::jthread> threads;
        for (auto& own : made) {
            threads.emplace_back(make_all, std::ref(own));
        }
    }
    for (const auto& own : made) {
        EXPECT_EQ(own, made.front());
    }
}

TEST(SharedText, goes_to_other_ranks_as_a_text) {
    ByteWriter writer;
    writer.put(std::vector<SharedText>{"x", "y", "x"});
    const auto bytes = writer.take();
    EXPECT_EQ(ByteReader(bytes).get<std::vector<std::string>>(),
              (std::vector<std::string>{"x", "y", "x"}));
    EXPECT_EQ(ByteReader(bytes).get<std::vector<SharedText>>(),
              (std::vector<SharedText>{"x", "y", "x"}));
}

TEST(Fingerprint, tells_where_texts_end) {
    const auto print_of = [](const std::vector<std::string>& texts) {
        Fingerprint print;
        for (const std::string& text : texts) {
            print.add(std::string_view(text));
        }
        return print.value();
    };
    const std::vector<std::vector<std::string>> lists{{"ab", "c"},
                                                      {"a", "bc"},
                                                      {"abc"},
                                                      {"abc", ""},
                                                      {"", "abc"},
                                                      {"abcdefgh"},
                                                      {"abcdefgh", ""},
                                                      {"abcdefg", "h"},
                                                      {"abcdefghi"},
                                                      {"abcdefgh", "i"},
                                                      {std::string("abc\0", 4)},
                                                      {"hgfedcba"},
                                                      {}};
    std::set<std::uint64_t> prints;
    for (const auto& list : lists) {
        prints.insert(print_of(list));
    }
    EXPECT_EQ(prints.size(), lists.size());
}

}  // namespace
