// Texts that many objects have, most of them none or one and the same: a pointer each, and one
// memory, which other processes may have too (process/shared_heap.hpp).
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "shared_list.hpp"

namespace shardweld {

/// A text of which copies share one memory. It takes the room of a pointer; an empty one nothing
/// else.
class SharedString : public SharedList<char> {
  public:
    SharedString() = default;
    template <typename Text>
    // NOLINTNEXTLINE(google-explicit-constructor): it is a text
    requires std::convertible_to<const Text&, std::string_view> SharedString(const Text& text) {
        const std::string_view own = text;
        SharedList::operator=(std::vector<char>(own.begin(), own.end()));
    }

    [[nodiscard]] std::string text() const { return {begin(), end()}; }
    operator std::string() const { return text(); }  // NOLINT(google-explicit-constructor)
    operator std::string_view() const {              // NOLINT(google-explicit-constructor)
        return {data(), size()};
    }

    friend bool operator==(const SharedString& a, const SharedString& b) {
        return std::ranges::equal(a, b);
    }
};

/// Texts that were asked for lately, by hash; none so far.
using RecentStrings = std::vector<SharedString>;

/// The text, in the memory that it has already if it is one of `recent`, as it is now.
inline SharedString shared_among(RecentStrings& recent, std::string_view text) {
    recent.resize(std::size_t{1} << 15U);
    SharedString& slot = recent[std::hash<std::string_view>()(text) % recent.size()];
    if (!std::ranges::equal(slot, text)) {
        slot = text;
    }
    return slot;
}

/// A text of two parts, each of which many others have too: the name of a piece of a checkpoint, of
/// which thousands have the same file or the same name in it.
struct SharedName {
    SharedString front;
    SharedString rest;

    static constexpr auto fields = [](auto& self) { return std::tie(self.front, self.rest); };

    SharedName() = default;
    SharedName(SharedString first, SharedString last)
        : front(std::move(first)), rest(std::move(last)) {}
    /// Without a front.
    template <typename Text>
    // NOLINTNEXTLINE(google-explicit-constructor): it is a text
    requires std::convertible_to<const Text&, std::string_view> SharedName(const Text& text)
        : rest(text) {}

    [[nodiscard]] std::string text() const {
        std::string whole;
        whole.reserve(front.size() + rest.size());
        return whole.append(front).append(rest);
    }
    operator std::string() const { return text(); }  // NOLINT(google-explicit-constructor)
    [[nodiscard]] bool empty() const { return front.empty() && rest.empty(); }
    /// Its part of the heap that it shares with others.
    [[nodiscard]] std::size_t held_bytes() const { return front.held_bytes() + rest.held_bytes(); }

    /// Of the whole text, wherever its parts end.
    friend bool operator==(const SharedName& a, const SharedName& b) {
        return a.front == b.front ? a.rest == b.rest : a.text() == b.text();
    }
};

}  // namespace shardweld
