// The parts of a model, told by the names of its tensors, and how much of it each has.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/index.hpp"

namespace shardweld::app {

/// "attention", "experts", "norms", ...: what a tensor of this name belongs to; "other" where its
/// name does not tell.
std::string_view part_of(std::string_view tensor);

struct PartRow {
    std::string name;
    std::size_t n_tensors = 0;
    Index elements = 0;
    Bytes bytes = 0;
};

/// How much each part and each dtype has.
class ModelParts {
  public:
    void add(std::string_view tensor, std::size_t n_tensors, DType dtype, Bytes bytes);
    /// The largest first.
    [[nodiscard]] std::vector<PartRow> parts() const;
    [[nodiscard]] std::vector<PartRow> dtypes() const;
    [[nodiscard]] PartRow all() const;

  private:
    std::vector<PartRow> parts_;
    std::vector<PartRow> dtypes_;
};

}  // namespace shardweld::app
