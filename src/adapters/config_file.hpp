// A small JSON file that describes an adapter, and what it has to describe: only what becomes of
// the adapter decides which settings matter.
#pragma once

#include <string>
#include <tuple>

namespace shardweld::adapters {

/// A small JSON file beside the checkpoint; text "" when there is none.
struct ConfigFile {
    std::string path;  ///< for messages
    std::string text;

    static constexpr auto fields = [](auto& self) { return std::tie(self.path, self.text); };
};

/// What becomes of an adapter.
enum class AdapterUse {
    beside,             ///< written as it is, for PEFT to read
    folded,             ///< added into the base that was saved with it
    folded_into_given,  ///< added into another copy of the base
};

}  // namespace shardweld::adapters
