#include "mismatches.hpp"

#include <algorithm>

#include "store_match.hpp"

namespace shardweld::plan {

bool Mismatches::check(const std::string& name, const std::function<void()>& body) {
    try {
        body();
        return true;
    } catch (const Error& error) {
        if (error.code() != ErrorCode::mismatch) {
            throw;
        }
        const std::string kind = digits_hidden(name);
        const auto known = std::find_if(kinds_.begin(), kinds_.end(),
                                        [&](const Kind& other) { return other.name == kind; });
        if (known == kinds_.end()) {
            kinds_.push_back({kind, error, 0});
        } else {
            ++known->n_others;
        }
        return false;
    }
}

std::string Mismatches::text_of(const Kind& kind) {
    return kind.first.full_text() +
           (kind.n_others == 0
                ? ""
                : "; so do " + std::to_string(kind.n_others) + " others of this kind");
}

void Mismatches::require_none() const {
    if (kinds_.empty()) {
        return;
    }
    if (kinds_.size() == 1 && kinds_.front().n_others == 0) {
        throw Error(kinds_.front().first);
    }
    constexpr std::size_t kMostListed = 20;
    std::string text = text_of(kinds_.front());
    if (kinds_.size() > 1) {
        text = "checkpoint and config.json contradict each other in " +
               std::to_string(kinds_.size()) + " ways:";
        for (std::size_t i = 0; i < std::min(kinds_.size(), kMostListed); ++i) {
            text += "\n  " + text_of(kinds_[i]);
        }
        text += kinds_.size() > kMostListed ? "\n  ..." : "";
    }
    throw Error(ErrorCode::mismatch, text);
}

}  // namespace shardweld::plan
