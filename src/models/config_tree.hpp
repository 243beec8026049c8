// config.json part by part: what each part of a model states itself, where Config looks into the
// language model's part for what the whole does not say.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config.hpp"

namespace shardweld::models {

/// A config.json as a tree of values.
class ConfigTree {
  public:
    /// With the changes that were made to it.
    explicit ConfigTree(const Config& config);

    /// Paths of the objects that have a model_type, at any depth; the whole is not among them.
    [[nodiscard]] std::vector<std::string> parts() const;
    /// The field at this very path; nullopt: it is not there, or is no text.
    [[nodiscard]] std::optional<std::string> text(std::string_view path) const;
    /// Likewise true, false or a number.
    [[nodiscard]] std::optional<bool> flag(std::string_view path) const;

    void set(std::string_view path, bool value);
    [[nodiscard]] std::string text_to_write() const;

  private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace shardweld::models
