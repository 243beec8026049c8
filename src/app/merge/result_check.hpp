// What is looked at in the bytes of an output while they are moved: values that look odd, an
// optimizer's moments, and how they differ from --base.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "execute/listeners/moment_signs.hpp"
#include "execute/listeners/stated_sums.hpp"
#include "execute/listeners/tensor_census.hpp"
#include "numeric/census.hpp"

#include "state.hpp"
#include "state_values.hpp"

namespace shardweld::app {

class BaseComparison;

/// What is looked at in the bytes of one output.
class ResultCheck {
  public:
    /// Collective. `output` must outlive it. `base_memory`: it is compared with --base, which takes
    /// so much.
    ResultCheck(const Run& run, Output& output, std::optional<Bytes> base_memory);
    ~ResultCheck();
    ResultCheck(const ResultCheck&) = delete;
    ResultCheck& operator=(const ResultCheck&) = delete;

    /// An OnSlice.
    void add(const plan::Slice& slice, ByteView bytes);

    /// An OnSeen; not where the base is compared.
    void add(const plan::Slice& slice, const numeric::Census& census) {
        census_.add(slice, census);
    }

    /// Collective. Puts what was found into the report; returns what is worth a warning.
    Warnings finish();

    /// Collective. Completes the output's files where they state checksums.
    void complete_files();

  private:
    /// Collective. Whether a run can go on with the moments of an optimizer. Error as moments_at.
    Warnings judge_moments(const CensusByTensor& census);

    const Run& run_;
    Output& output_;
    execute::TensorCensus census_;
    execute::MomentSigns signs_;
    std::optional<execute::WrittenSums> sums_;
    std::unique_ptr<BaseComparison> base_;  ///< null: it is not compared
};

/// Whether what a merge writes is compared with --base: not where the base itself is what is
/// written, or a training checkpoint.
bool compares_with_base(const Job& job, const Merge& merge);

}  // namespace shardweld::app
