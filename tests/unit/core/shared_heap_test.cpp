// Values that one process makes and others have: the same at the same address, whatever any of them
// does with its own.
#include "core/process/shared_heap.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "core/shared_list.hpp"
#include "core/shared_string.hpp"
#include "shardweld/error.hpp"
#include "support/error_text.hpp"

namespace shardweld {
namespace {

struct Sample {
    std::string text;
    std::vector<std::string> list;
    std::map<int, std::unique_ptr<std::vector<int>>> map;
    SharedList<SharedName> names;
    friend bool operator==(const Sample& a, const Sample& b) {
        return a.text == b.text && a.list == b.list && a.names == b.names &&
               a.map.size() == b.map.size() &&
               std::ranges::equal(a.map, b.map, [](const auto& one, const auto& other) {
                   return one.first == other.first && *one.second == *other.second;
               });
    }
};

Sample sample() {
    Sample made;
    made.text = std::string(100, 't');
    for (int i = 0; i < 20000; ++i) {
        made.list.push_back("a text that does not lie in its object " + std::to_string(i));
        made.map[i] = std::make_unique<std::vector<int>>(i % 10, i);
    }
    made.names = {SharedName("a front that does not lie in its object:", made.list.front())};
    return made;
}

std::shared_ptr<SharedHeap> filled() {
    return SharedHeap::fill([] { return new Sample(sample()); });
}

Sample& in(const SharedHeap& heap) {
    return *static_cast<Sample*>(heap.root());
}

class SharedHeaps : public ::testing::Test {
  protected:
    void SetUp() override {
        const auto probe = test::error_text([] { (void)filled(); });
        if (probe != "no error") {
            GTEST_SKIP() << probe;  // sanitizers
        }
    }
};

TEST_F(SharedHeaps, hold_all_that_a_value_points_to) {
    const auto heap = filled();
    const Sample& made = in(*heap);
    EXPECT_TRUE(made == sample());
    for (const void* const part :
         {static_cast<const void*>(&made), static_cast<const void*>(made.text.data()),
          static_cast<const void*>(made.list.data()), static_cast<const void*>(made.list[7].data()),
          static_cast<const void*>(made.map.at(7).get()),
          static_cast<const void*>(made.map.at(7)->data()),
          static_cast<const void*>(made.names.data()),
          static_cast<const void*>(made.names.front().front.data())}) {
        EXPECT_TRUE(is_in_shared_heap(part));
    }
    EXPECT_FALSE(is_in_shared_heap(std::string(100, 'x').data()));
}

/// The child begins before there is a heap, so that it has to open it.
TEST_F(SharedHeaps, are_the_same_for_another_process) {
    int to_child[2];
    ASSERT_EQ(::pipe(to_child), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        SharedHeap::Place place;
        bool is_same = ::read(to_child[0], &place, sizeof(place)) == sizeof(place);
        try {
            const auto heap = SharedHeap::open(place);
            Sample& own = in(*heap);
            is_same = is_same && own == sample();
            // Changes and destroys its own.
            own.list.assign(50, "another text that does not lie in its object");
            own.map.erase(3);
            const Sample moved = std::move(own);
            is_same = is_same && moved.list.size() == 50 && moved.map.size() == 19999;
        } catch (const std::exception&) {
            is_same = false;
        }
        ::_exit(is_same ? 0 : 1);
    }
    const auto heap = filled();
    const SharedHeap::Place place = heap->place();
    ASSERT_EQ(::write(to_child[1], &place, sizeof(place)), static_cast<ssize_t>(sizeof(place)));
    int status = 1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "the other process";
    EXPECT_TRUE(in(*heap) == sample()) << "what the other process did is seen here";
    ::close(to_child[0]);
    ::close(to_child[1]);
}

TEST_F(SharedHeaps, are_opened_by_what_they_are) {
    const auto heap = filled();
    const auto opens = [](const SharedHeap::Place& place) {
        return test::error_text([&] { (void)SharedHeap::open(place); });
    };
    SharedHeap::Place other = heap->place();
    other.token ^= 1U;
    EXPECT_NE(opens(other).find("something else"), std::string::npos);
    other = heap->place();
    other.descriptor = 0;
    EXPECT_TRUE(opens(other).starts_with("memory"));
    // Its own address is taken: by itself.
    EXPECT_NE(opens(heap->place()).find("taken"), std::string::npos);
    const SharedHeap::Place closed = heap->place();
    heap->close();
    EXPECT_TRUE(opens(closed).starts_with("memory"));
    EXPECT_TRUE(in(*heap) == sample());
}

TEST_F(SharedHeaps, that_are_not_finished_leave_new_as_it_was) {
    const auto text = test::error_text([] {
        (void)SharedHeap::fill([]() -> void* {
            throw Error(ErrorCode::corrupt, std::string(200, 'w'), std::string(200, 'h'));
        });
    });
    EXPECT_NE(text.find(std::string(200, 'w')), std::string::npos);
    EXPECT_FALSE(is_in_shared_heap(std::string(100, 'x').data()));
    EXPECT_TRUE(in(*filled()) == sample());
}

TEST_F(SharedHeaps, live_until_there_is_another_one) {
    std::vector<std::shared_ptr<SharedHeap>> held;
    for (int i = 0; i < 10; ++i) {
        std::vector<std::string> moved;
        {
            const auto heap = filled();
            moved = std::move(in(*heap).list);
        }
        EXPECT_EQ(moved, sample().list) << "moved out of a heap that is held by nobody";
        moved = {};
        held.push_back(filled());
    }
    for (const auto& heap : held) {
        EXPECT_TRUE(in(*heap) == sample());
    }
}

}  // namespace
}  // namespace shardweld
