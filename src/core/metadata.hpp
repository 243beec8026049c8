// Typed keys and values that a file of tensors has beside them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardweld {

/// A key and its typed value.
struct MetadataField {
    enum class Type : std::uint8_t { u32, i32, f32, boolean, text };

    std::string key;
    Type type = Type::text;
    bool is_list = false;
    std::vector<std::int64_t> integers = {};  ///< of u32, i32 and boolean
    std::vector<float> reals = {};
    std::vector<std::string> texts = {};

    static MetadataField u32(std::string key, std::int64_t value) {
        return {std::move(key), Type::u32, false, {value}};
    }
    static MetadataField boolean(std::string key, bool value) {
        return {std::move(key), Type::boolean, false, {value ? 1 : 0}};
    }
    static MetadataField f32(std::string key, float value) {
        return {std::move(key), Type::f32, false, {}, {value}};
    }
    static MetadataField text(std::string key, std::string value) {
        return {std::move(key), Type::text, false, {}, {}, {std::move(value)}};
    }
};

using Metadata = std::vector<MetadataField>;

}  // namespace shardweld
