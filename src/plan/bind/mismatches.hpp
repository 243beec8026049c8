// Contradictions between a checkpoint and its model, collected so that one run tells them all.
// Knows texts; nothing of what contradicts what.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

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

}  // namespace shardweld::plan
