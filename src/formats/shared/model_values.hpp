// Values in a model's part of a save that are no tensors of plain elements: which are harmless, and
// which may be a weight that nothing here reads.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/dtype.hpp"
#include "core/index.hpp"
#include "formats/containers/torch_file.hpp"

#include "file_scan.hpp"

namespace shardweld::formats {

/// What lies in a value and below it, each thing counted once.
struct Contents {
    Bytes bytes = 0;            ///< of storages, and of byte strings in the pickle
    bool has_storages = false;  ///< also empty ones, and those that are missing
    bool has_bytes = false;     ///< byte strings, as numpy's arrays are made of
    bool has_integers = false;  ///< no flags
    bool has_reals = false;     ///< also numpy's numbers
};

/// Judges the values of one torch file. Harmless are None, flags, texts, and what is named as an
/// extra state; also numbers and what is made of them, unless the name has a dot, as those of
/// parameters in modules have; counts are harmless there, too, unless they are called as weights.
class ModelValues {
  public:
    ModelValues(const TorchFile& file, IgnoredRows& ignored)
        : file_(file), ignored_(ignored), values_left_(file.pickle().consumed() + kMostShared) {}

    /// Puts a value that is no tensor into a row of its name, with the bytes it holds. "" for
    /// `reason`: "not a tensor". Error(unsupported), naming its class, when it may be a weight:
    /// rebuilt from a storage, made of bytes, or a number where modules have parameters.
    void leave_aside(std::string_view name, const PickleValue& value);
    /// Puts what stands where no weight does into such a row.
    void leave_aside(std::string_view name, const PickleValue& value, const std::string& reason);

    /// Leaves aside what stands beside the model's dictionary under `key`: Error(unsupported)
    /// when it holds a tensor that is called as a weight is, of whose name `is_models` has none: a
    /// part of the model, such as its head. A copy of the model is none.
    void require_no_part(std::string_view key, const PickleValue& value,
                         const std::function<bool(std::string_view)>& is_models);
    /// Leaves it aside, if it has none.
    void leave_beside(std::string_view key, const PickleValue& value,
                      const std::function<bool(std::string_view)>& is_models);

    /// Error(corrupt) when the values refer to themselves without end.
    [[nodiscard]] Contents contents_of(const PickleValue& value);

  private:
    static constexpr std::size_t kMostShared = 1U << 20U;

    [[nodiscard]] std::optional<std::string> part_in(
        const std::string& name, const PickleValue& value,
        const std::function<bool(std::string_view)>& is_models, int depth);
    void require_more_values();

    const TorchFile& file_;
    IgnoredRows& ignored_;
    std::size_t values_left_;  // to be visited: values may be shared
};

/// Error(unsupported) with these words: `value` stands where a tensor is expected.
[[noreturn]] void refuse_value(const PickleValue& value, bool holds_tensors = false);

/// The name that a key of a model's dictionary is. Error(corrupt) telling what else it is: no text,
/// no UTF-8, empty or longer than any name.
std::string_view parameter_name(const PickleValue& key);

/// What a value is, in words: its kind, or its class; of a tensor's subclass, that.
std::string words_for(const PickleValue& value);

/// "lm_head.weight", "bias", "weight_scale", also as an element of a list: "lm_head.weight.0".
bool is_called_as_weight(std::string_view name);

/// Whether a tensor that lies beside a model by its name and dtype could be a part of it:
/// "lm_head.weight". `is_models`: whether the model has a tensor of a name; it is asked for the
/// ends of this one, as copies of a model are called as it is, behind names of their own.
bool may_be_part(std::string_view name, DType dtype, std::span<const Index> shape,
                 const std::function<bool(std::string_view)>& is_models);
/// Error(unsupported) naming it.
[[noreturn]] void refuse_part(const std::string& name, const std::string& hint);

}  // namespace shardweld::formats
