// Builds torch.save files from pickles written by hand.
// Knows the container; the pickles are the tests' business.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "zip_builder.hpp"

namespace shardweld::test {

inline std::string unicode(const std::string& text) {
    return "X" + little(text.size(), 4) + text;
}

inline std::string integer(std::int64_t value) {
    return "\x8a\x08" + little(static_cast<std::uint64_t>(value), 8);
}

inline std::string tuple(const std::vector<std::string>& parts) {
    std::string text = "(";
    for (const std::string& part : parts) {
        text += part;
    }
    return text + "t";
}

inline std::string counts(const std::vector<std::int64_t>& values) {
    std::vector<std::string> parts;
    for (const std::int64_t value : values) {
        parts.push_back(integer(value));
    }
    return tuple(parts);
}

/// A global by its "module name", as GLOBAL.
inline std::string global(std::string name) {
    name[name.find(' ')] = '\n';
    return "c" + name + "\n";
}

inline std::string call(const std::string& function, const std::vector<std::string>& arguments) {
    return global(function) + tuple(arguments) + "R";
}

/// A persistent id of `count` elements of `type` under `key`.
inline std::string storage(const std::string& type, const std::string& key, std::int64_t count,
                           const std::string& location = "cpu") {
    return tuple({unicode("storage"), global(type), unicode(key), unicode(location),
                  integer(count)}) +
           "Q";
}

inline std::string tensor_v2(const std::string& storage_id, std::int64_t offset,
                             const std::vector<std::int64_t>& size,
                             const std::vector<std::int64_t>& stride) {
    return call("torch._utils _rebuild_tensor_v2",
                {storage_id, integer(offset), counts(size), counts(stride), "\x89",
                 call("collections OrderedDict", {})});
}

/// A whole file holding the pickled value and the records of data/.
inline std::string torch_file(const std::string& value,
                              const std::map<std::string, std::string>& records,
                              const std::vector<ZipSpec>& more = {}) {
    std::vector<ZipSpec> specs = {{"archive/data.pkl", "\x80\x02" + value + "."}};
    for (const auto& [key, data] : records) {
        specs.push_back({"archive/data/" + key, data, 0, 0x0808, false, 13});
    }
    specs.insert(specs.end(), more.begin(), more.end());
    return build_zip(specs);
}

}  // namespace shardweld::test
