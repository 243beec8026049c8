#include "shared_text.hpp"

#include <mutex>
#include <unordered_set>

namespace shardweld {

namespace {

struct ByText {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
        return std::hash<std::string_view>()(text);
    }
};

}  // namespace

SharedText::SharedText(std::string_view text) {
    static std::mutex mutex;
    // Their nodes stay where they are.
    static std::unordered_set<std::string, ByText, std::equal_to<>> all;
    const std::lock_guard lock(mutex);
    const auto known = all.find(text);
    text_ = known != all.end() ? &*known : &*all.emplace(text).first;
}

}  // namespace shardweld
