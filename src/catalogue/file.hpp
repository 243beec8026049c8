// The files of a checkpoint, and what of them is left aside.
#pragma once

#include <string>
#include <tuple>

#include "core/index.hpp"

namespace shardweld::catalogue {

/// A file that holds tensor data. `path` is relative to the checkpoint directory of the rank that
/// reads it.
struct File {
    std::string path;
    Bytes size = 0;

    static constexpr auto fields = [](auto& self) { return std::tie(self.path, self.size); };
};

/// Things recognised and left aside.
struct Ignored {
    std::string pattern;
    std::string reason;
    Index count = 0;
    Bytes bytes = 0;

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.pattern, self.reason, self.count, self.bytes);
    };
};

}  // namespace shardweld::catalogue
