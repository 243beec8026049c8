// Contradictions between a checkpoint and its model, collected so that one run tells them all, and
// why expected names are not among the stored ones.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "catalogue/tensor.hpp"
#include "shardweld/error.hpp"

namespace shardweld::plan {

class Mismatches {
  public:
    /// Runs `body`; notes its Error(mismatch), passes any other on. Of those whose names differ in
    /// numbers only the first is told and the others are counted. Whether it passed.
    bool check(const std::string& name, const std::function<void()>& body);

    /// Throws the only one as it was, of several one Error(mismatch) that lists them.
    /// Its hint is the one hint of theirs that is not `usual`, else that.
    void require_none(const std::string& usual) const;

  private:
    struct MismatchKind {
        std::string name;
        Error first;
        std::size_t n_others = 0;
    };
    static Error error_of(const MismatchKind& kind);

    std::vector<MismatchKind> kinds_;
};

inline constexpr const char* kConfigHint =
    "config.json is another model's or was changed: give the trained model's with --hf_config DIR";

struct NameDifference {
    std::string text;  ///< whose names they are, or a stored name and how it differs; "": nothing
    std::string hint;  ///< what to do about it; "": the names do not say
};

/// What the `stored` tensors that nothing takes tell of the `expected` names, which have '#' for
/// numbers.
NameDifference difference_of(const std::set<std::string>& expected,
                             std::span<const catalogue::Tensor> stored);

}  // namespace shardweld::plan
