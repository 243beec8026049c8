// Broken rules, collected so that one run tells them all.
// Knows texts and codes; nothing of the rules.
#pragma once

#include <string>
#include <vector>

#include "shardweld/error.hpp"

namespace shardweld::app {

class Problems {
  public:
    void add(ErrorCode code, const std::string& text) {
        is_missing_only_ = is_missing_only_ && code == ErrorCode::not_found;
        texts_.push_back(text);
    }

    /// Throws one Error that lists all problems of `subject`: not_found when all of them are,
    /// else corrupt.
    void require_none(const std::string& subject) const {
        if (texts_.empty()) {
            return;
        }
        std::string text = subject + " is not a sound model:";
        for (const std::string& problem : texts_) {
            text += "\n  " + problem;
        }
        throw Error(is_missing_only_ ? ErrorCode::not_found : ErrorCode::corrupt, text,
                    "merge it again, or copy it again from where it was written");
    }

    [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }

  private:
    std::vector<std::string> texts_;
    bool is_missing_only_ = true;
};

}  // namespace shardweld::app
