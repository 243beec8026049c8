// The fp32 sums of a round's mixed targets, kept from one term to the next.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "plan/plan.hpp"

#include "round.hpp"

namespace shardweld::execute {

/// Works inside Limits::sums bytes. What it gives for an element does not depend on how a target is
/// cut into slices.
class Sums {
  public:
    explicit Sums(const plan::Plan& plan)
        : plan_(plan), sum_(plan.limits.sums), base_(plan.limits.sums / 2) {}

    /// Adds the round's term of every mixed slice. Terms of one part of the line come in order.
    void add(const Round& round);

    /// Behind the last term: the sums of the round's `i`-th slice, rounded to the written type.
    void finish(const Round& round, std::size_t i, std::span<std::byte> out);

    [[nodiscard]] Bytes buffer_bytes() const { return sum_.used() + base_.used(); }

  private:
    void begin(const Round& round);
    [[nodiscard]] std::span<float> strip(std::span<float> of, std::size_t i) const;

    const plan::Plan& plan_;
    Buffer sum_, base_;
    std::span<float> sums_;
    std::span<float> bases_;           ///< where several differences from it are added
    std::vector<std::size_t> begins_;  ///< of the slices in a strip, and its end
};

}  // namespace shardweld::execute
