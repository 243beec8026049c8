#include "listed.hpp"

#include <algorithm>

namespace shardweld::app {

std::string listed(const std::vector<std::string>& texts) {
    constexpr std::size_t kMost = 8;
    std::string list;
    for (std::size_t i = 0; i < std::min(texts.size(), kMost); ++i) {
        list += (i == 0 ? "" : ", ") + texts[i];
    }
    return list + (texts.size() > kMost ? ", ..." : "");
}

}  // namespace shardweld::app
