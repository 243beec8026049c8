#include "core/shared_string.hpp"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "core/codec.hpp"

namespace shardweld {
namespace {

const std::string kLongText(100, 'a');

TEST(SharedString, is_a_text_that_copies_share) {
    const SharedString text = kLongText;
    const SharedString copy = text;
    EXPECT_EQ(copy.data(), text.data());
    EXPECT_EQ(copy.text(), kLongText);
    EXPECT_EQ(text, SharedString(std::string_view(kLongText)));
    EXPECT_FALSE(text == SharedString("a"));
    EXPECT_EQ(text.held_bytes() * 2, SharedString("b" + kLongText.substr(1)).held_bytes());
}

TEST(SharedString, takes_nothing_while_it_is_empty) {
    EXPECT_TRUE(SharedString("").empty());
    EXPECT_EQ(SharedString(""), SharedString());
    EXPECT_EQ(SharedString().text(), "");
    EXPECT_EQ(SharedString("").held_bytes(), 0U);
    EXPECT_EQ(sizeof(SharedString), sizeof(void*));
}

TEST(RecentStrings, gives_equal_texts_one_memory) {
    RecentStrings recent;
    const SharedString first = shared_among(recent, kLongText);
    EXPECT_EQ(shared_among(recent, kLongText).data(), first.data());
    // More than it remembers: all are right, whatever they share.
    for (int i = 0; i < 20'000; ++i) {
        EXPECT_EQ(shared_among(recent, std::to_string(i)).text(), std::to_string(i));
    }
    EXPECT_EQ(shared_among(recent, "").text(), "");
    EXPECT_EQ(shared_among(recent, kLongText).text(), kLongText);
}

TEST(SharedName, is_one_text_wherever_its_front_ends) {
    const SharedName name("rank_0.pt:", "model.norm.weight");
    EXPECT_EQ(name.text(), "rank_0.pt:model.norm.weight");
    EXPECT_EQ(name, SharedName("rank_0.pt:model.", "norm.weight"));
    EXPECT_EQ(name, "rank_0.pt:model.norm.weight");
    EXPECT_FALSE(name == SharedName("rank_1.pt:", "model.norm.weight"));
    EXPECT_FALSE(name == SharedName("rank_0.pt:", "model.norm.bias"));
    EXPECT_TRUE(SharedName().empty());
    EXPECT_FALSE(SharedName("a", "").empty());
}

TEST(SharedName, shares_its_parts_on_other_ranks) {
    ByteWriter writer;
    writer.put(SharedName("rank_0.pt:", "norm"));
    writer.put(SharedName("rank_0.pt:", "head"));
    const auto bytes = writer.take();
    ByteReader reader(bytes);
    const auto norm = reader.get<SharedName>();
    const auto head = reader.get<SharedName>();
    EXPECT_EQ(norm, "rank_0.pt:norm");
    EXPECT_EQ(head, "rank_0.pt:head");
    EXPECT_EQ(norm.front.data(), head.front.data());
}

}  // namespace
}  // namespace shardweld
