// A result compared with the model it was trained from (--base) while it is written.
// Knows the two models; nothing of where the result is written.
#pragma once

#include <functional>
#include <string>

#include "shardweld/execute/comparer.hpp"

#include "../compare/base_summary.hpp"
#include "../compare/model_directory.hpp"
#include "main_path.hpp"

namespace shardweld::app {

/// The base, and the comparison under way.
class BaseComparison {
  public:
    /// Collective. Reads the base's metadata. Error(not_found) when a rank does not see it.
    BaseComparison(Session& session, const Planned& planned);

    /// An OnSlice.
    void add(const plan::Slice& slice, std::span<const std::byte> bytes) {
        comparer_.add(slice, bytes);
    }

    /// Collective, once. Error(corrupt) when what was read of the base is not as its checksums say.
    BaseSummary finish(Session& session);

  private:
    std::string directory_;
    std::function<bool(const std::string&)> is_aside_;
    ModelDirectory base_;
    Matching matching_;
    execute::Comparer comparer_;
};

}  // namespace shardweld::app
