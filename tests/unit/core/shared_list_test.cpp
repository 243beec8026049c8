#include "core/shared_list.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace shardweld {
namespace {

using Texts = std::vector<std::string>;
using List = SharedList<std::string>;

const std::string kLong(100, 'a');

TEST(SharedList, is_read_as_a_vector_is) {
    const List list{"x", kLong};
    EXPECT_EQ(Texts(list), (Texts{"x", kLong}));
    EXPECT_EQ(list.size(), 2U);
    EXPECT_EQ(list.front(), "x");
    EXPECT_EQ(list.back(), kLong);
    EXPECT_EQ(list[1], kLong);
    EXPECT_EQ(list, (Texts{"x", kLong}));
    EXPECT_FALSE(list == List{"x"});
}

TEST(SharedList, takes_nothing_while_it_is_empty) {
    const List none = Texts{};
    EXPECT_TRUE(none.empty());
    EXPECT_EQ(none.begin(), none.end());
    EXPECT_EQ(none, List());
    EXPECT_EQ(none.held_bytes(), 0U);
    EXPECT_EQ(sizeof(none), sizeof(void*));
}

TEST(SharedList, shares_its_memory_until_a_copy_is_changed) {
    const List list{"x", kLong};
    List copy = list;
    EXPECT_EQ(copy.data(), list.data());
    EXPECT_EQ(copy.held_bytes() * 2, List(Texts(list)).held_bytes());
    copy.own().front() = "y";
    EXPECT_EQ(Texts(copy), (Texts{"y", kLong}));
    EXPECT_EQ(Texts(list), (Texts{"x", kLong}));
    const std::string* const own = copy.data();
    copy.own().front() = "z";  // nobody else has it
    EXPECT_EQ(copy.data(), own);
}

TEST(SharedList, changes_its_size_for_itself_alone) {
    const List list{"x"};
    List copy = list;
    copy.push_back("y");
    copy.append(list);
    copy.append({});
    EXPECT_EQ(Texts(copy), (Texts{"x", "y", "x"}));
    copy.change([](Texts& items) { std::erase(items, "x"); });
    EXPECT_EQ(Texts(copy), Texts{"y"});
    copy.change_each([](std::string& item) { item += "!"; });
    EXPECT_EQ(copy.front(), "y!");
    List first;
    first.append(list);
    EXPECT_EQ(first.data(), list.data());
    EXPECT_EQ(Texts(list), Texts{"x"});
}

TEST(SharedList, destroys_each_item_once) {
    const auto counted = std::make_shared<int>(0);
    {
        SharedList<std::shared_ptr<int>> list{counted, counted};
        const auto copy = list;
        list.push_back(counted);
        auto moved = std::move(list);
        list = moved;
        EXPECT_EQ(counted.use_count(), 1 + 2 + 3);
    }
    EXPECT_EQ(counted.use_count(), 1);
}

TEST(SharedList, lays_items_out_as_they_need) {
    const SharedList<long double> wide{1, 2, 3};
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(wide.data()) % alignof(long double), 0U);
    EXPECT_EQ(wide.back(), 3);
    EXPECT_EQ(SharedList<char>({'a', 'b', 'c'}).back(), 'c');
}

}  // namespace
}  // namespace shardweld
