// What torch pickles in place of tensors' bytes: persistent ids, which say which storage a tensor
// views and of which type, and the calls around parameters and subclasses of tensors. Sources:
// torch 2.15, torch/_utils.py and torch/_tensor.py; the older spellings are those of torch 0.4 to
// 1.13.
#pragma once

#include <optional>
#include <string_view>

#include "core/dtype.hpp"
#include "core/index.hpp"

#include "pickle.hpp"

namespace shardweld::formats {

/// ('storage', class, key, location, count[, view]): torch 2.15, torch/serialization.py,
/// persistent_id.
struct StorageId {
    /// A part of the storage, in elements; pre-zip files only.
    struct View {
        Index offset = 0;
        Index count = 0;
    };
    DType dtype = DType::u8;  ///< of its elements; u8 for an untyped storage
    std::string_view key;     ///< a plain record name
    std::string_view location;
    Index count = 0;  ///< elements
    std::optional<View> view;

    /// Error(corrupt) when malformed or when the key is no plain record name, Error(unsupported)
    /// for an unknown class.
    static StorageId read(const PickleValue& persistent);
};

/// Throws Error(corrupt).
[[noreturn]] void fail_torch(const std::string& message);

/// The value as a non-negative number. Error(corrupt) naming `what` otherwise.
Index read_count(const PickleValue& value, std::string_view what);

/// `value` in words for messages: its class if it has one, else its kind.
std::string describe(const PickleValue& value);

/// (tensor, ...).
bool is_parameter_call(std::string_view name);
/// What calls around a parameter hold; hostile values, which may hold themselves, are peeled a few
/// times only.
const PickleValue& without_parameter(const PickleValue& value);

/// (function, type, the function's arguments, state).
bool is_subclass_call(std::string_view name);

}  // namespace shardweld::formats
