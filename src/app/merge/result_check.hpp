// What a merge looks at in the bytes it writes: odd values, and the distance to the base.
// Knows what is asked for; the judgements are those of sanity and base_comparison.
#pragma once

#include <optional>

#include "execute/tensor_census.hpp"

#include "base_comparison.hpp"
#include "main_path.hpp"

namespace shardweld::app {

class ResultCheck {
  public:
    /// Collective. The plan must outlive it. `has_base`: --base is compared with, where it is
    /// given.
    ResultCheck(Session& session, const Planned& planned, bool has_base);

    /// An OnSlice.
    void add(const plan::Slice& slice, std::span<const std::byte> bytes);

    /// An OnSeen; not where the base is compared.
    void add(const plan::Slice& slice, const numeric::Census& census) {
        census_.add(slice, census);
    }

    /// Collective. Puts what was found into the report; returns what is worth a warning.
    std::vector<plan::Warning> finish(Session& session);

  private:
    const Planned& planned_;
    execute::TensorCensus census_;
    std::optional<BaseComparison> base_;
};

/// Whether what a merge writes is compared with --base: not where the base itself is what is
/// written.
bool compares_with_base(const Options& options, const Planned& planned);

}  // namespace shardweld::app
