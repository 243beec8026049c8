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

/// Collects contradictions, and throws them together.
class Mismatches {
  public:
    /// Runs `body`; notes its Error(mismatch), passes any other on. Where names differ in numbers
    /// alone, the first is told and the others are counted. Returns whether it passed.
    bool check(const std::string& name, const std::function<void()>& body);

    /// Notes an error that was caught.
    void add_error(const std::string& name, const Error& error);

    /// What explains them all in a sentence; "" where nothing does.
    struct Explanation {
        std::string text;
        std::string hint;  ///< "": it is config.json that differs
    };
    /// It is told whether expected names are missing.
    using Explain = std::function<Explanation(bool is_short)>;

    /// Throws what is noted as kOtherMeaning, else what `explain` says, with the rest as its
    /// detail; without such words the only one as it was, of several one Error(mismatch) that lists
    /// them. Its hint is the one hint of theirs that is not kConfigHint, else that.
    void require_none(const Explain& explain) const;

  private:
    struct MismatchKind {
        std::string name;
        Error first;
        std::size_t n_others = 0;
    };
    static Error error_of(const MismatchKind& kind);
    [[nodiscard]] Error all() const;
    [[nodiscard]] const MismatchKind* noted(const std::string& name) const;

    std::vector<MismatchKind> kinds_;
};

inline constexpr const char* kConfigHint =
    "config.json is another model's or was changed: give the trained model's with --hf_config DIR";

/// The hint of a message that names the fields that differ.
inline constexpr const char* kOtherConfigHint =
    "give the trained model's config.json with --hf_config DIR";

/// The hint of a message that names missing tensors, too.
inline constexpr const char* kShortHint =
    "give the trained model's config.json with --hf_config DIR; if it is this one, a part of the "
    "checkpoint is missing";

/// What expected names that are not stored are noted under, and stored ones that nothing takes.
inline constexpr const char* kMissing = "missing";
/// What missing names are noted under that a smaller number of layers or experts would not explain:
/// a part of the checkpoint is not there, whatever else config.json may say.
inline constexpr const char* kPartLost = "part lost";
inline constexpr const char* kUnknown = "unknown";
/// A tensor that has the shape of what its name stands for under another flag: no field of
/// config.json is to blame.
inline constexpr const char* kOtherMeaning = "other meaning";

/// How stored names differ from the expected ones.
struct NameDifference {
    std::string text;  ///< whose names they are, or a stored name and how it differs; "": nothing
    std::string hint;  ///< what to do about it; "": the names do not say
    bool is_telling = false;  ///< the names give away who wrote them
};

/// What the `stored` tensors that nothing takes tell of the `expected` names, which have '#' for
/// numbers.
NameDifference difference_of(const std::set<std::string>& expected,
                             std::span<const catalogue::Tensor> stored);

}  // namespace shardweld::plan
