// Pre-zip torch.save files: pickles one after another, then raw storages.
// Knows the stream's order; what the pickles mean is torch_file's business.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/index.hpp"

#include "pickle.hpp"
#include "range_reader.hpp"

namespace shardweld::formats {

/// How such a file begins: protocol 2, LONG1 of ten bytes, 0x1950a86a20f9469cfc6c.
inline constexpr std::string_view kStreamMagic =
    "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8"
    "\x50\x19";

/// torch 2.15, torch/serialization.py, _legacy_save and _legacy_load.
struct TorchStream {
    struct Storage {
        Bytes offset = 0;  ///< absolute
        Bytes size = 0;
    };
    Pickle pickle;
    std::map<std::string, Storage, std::less<>> storages;

    /// Error(corrupt) when malformed or cut short, Error(unsupported) for a big-endian file.
    static TorchStream read(RangeReader& reader);
};

}  // namespace shardweld::formats
