// A HuggingFace config.json: typed look-ups and order-keeping edits. Facts: JSON and HuggingFace's
// field names that all models share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/index.hpp"

namespace shardweld::models {

using FieldValue = std::variant<std::monostate, Index, double, std::string>;

/// "true"/"false" as 1/0, numbers as numbers, anything else as text.
FieldValue claim_value(const std::string& text);

/// The value as a real number; nullopt when it is none.
std::optional<double> real_of(const FieldValue& value);

/// For messages; "" of monostate.
std::string text_of(const FieldValue& value);

inline constexpr Bytes kMaxConfig = 16 * kMiB;  ///< of a config.json

/// What kind of model class config.json names, as verl detects it.
enum class ModelClass { causal_lm, token_classification, vision_to_text, other };

/// config.json in memory. Values are looked up at the top level, then in `text_config`. Copyable.
class Config {
  public:
    Config();
    /// Error(corrupt) with line/byte when the text is not a JSON object (bounded depth).
    static Config parse(std::string text, std::string origin);

    /// Field by dotted path ("rope_parameters.rope_theta"); booleans are 0/1; absent or null:
    /// monostate; lists and objects: monostate.
    [[nodiscard]] FieldValue field(std::string_view path) const;
    [[nodiscard]] std::optional<Index> integer(std::string_view path) const;
    [[nodiscard]] std::optional<std::string> text(std::string_view path) const;
    /// Number of entries of a list or object field; nullopt when absent.
    [[nodiscard]] std::optional<Index> count(std::string_view path) const;
    /// All elements of a list field; nullopt when absent or no list.
    [[nodiscard]] std::optional<std::vector<FieldValue>> list(std::string_view path) const;
    /// The integers among them, or in a text "3,4,5", sorted; nullopt when absent or neither.
    [[nodiscard]] std::optional<std::vector<FieldValue>> numbers(std::string_view path) const;
    /// Names of the fields of an object, in its order; empty when absent or no object.
    [[nodiscard]] std::vector<std::string> keys(std::string_view path) const;
    /// `architectures`, which may be a text (empty when missing).
    [[nodiscard]] std::vector<std::string> architectures() const;
    [[nodiscard]] ModelClass model_class() const;

    /// Sets a field to a JSON value given as text; at the place where the look-up finds it, else at
    /// the top level (end). Remembers that the file changed.
    void set(std::string_view path, const std::string& json_value);
    void remove(std::string_view path);
    [[nodiscard]] bool changed() const;
    /// The text to write: byte for byte the original when nothing changed, else re-serialised with
    /// the order kept, two-space indent and a final newline.
    [[nodiscard]] std::string text_to_write() const;
    [[nodiscard]] const std::string& origin() const;

  private:
    struct State;
    std::shared_ptr<const State> state_;  // copy on write
};

}  // namespace shardweld::models
