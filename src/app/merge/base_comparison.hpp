// What a merge looks at in the bytes it writes: odd values, and how far the result is from the
// model it was trained from (--base), in a few numbers and names.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/compare/comparison.hpp"
#include "app/compare/model_directory.hpp"
#include "app/report/report.hpp"
#include "execute/comparer.hpp"
#include "execute/tensor_census.hpp"
#include "plan/binding.hpp"

#include "planned.hpp"

namespace shardweld::app {

/// Names for which `is_aside` holds are not told of where one side lacks them.
BaseSummary summary_of(std::string directory, const Outcome& outcome,
                       const std::function<bool(const std::string&)>& is_aside);

/// One line for people.
std::string text_of(const BaseSummary& summary);

/// `equals_base`: nothing that was compared differs; `base_differs_shape`, `base_missing`,
/// `base_extra`: the base is another model, or a part of it was lost.
std::vector<plan::Warning> base_warnings(const BaseSummary& summary);

/// The base, and the comparison under way.
class BaseComparison {
  public:
    /// Collective. Reads the base's metadata. Error(not_found) when a rank does not see it.
    explicit BaseComparison(Output& output);

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

/// What is looked at in the bytes of one output.
class ResultCheck {
  public:
    /// Collective. `output` must outlive it. `has_base`: it is compared with --base.
    ResultCheck(Output& output, bool has_base);

    /// An OnSlice.
    void add(const plan::Slice& slice, std::span<const std::byte> bytes);

    /// An OnSeen; not where the base is compared.
    void add(const plan::Slice& slice, const numeric::Census& census) {
        census_.add(slice, census);
    }

    /// Collective. Puts what was found into the report; returns what is worth a warning.
    std::vector<plan::Warning> finish();

  private:
    Output& output_;
    execute::TensorCensus census_;
    std::optional<BaseComparison> base_;
};

/// Whether what a merge writes is compared with --base: not where the base itself is what is
/// written.
bool compares_with_base(const Planned& planned);

}  // namespace shardweld::app
