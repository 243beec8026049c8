#include "mismatches.hpp"

#include <algorithm>
#include <set>

#include "core/text.hpp"
#include "models/pattern.hpp"

namespace shardweld::plan {

bool Mismatches::check(const std::string& name, const std::function<void()>& body) {
    try {
        body();
        return true;
    } catch (const Error& error) {
        if (error.code() != ErrorCode::mismatch) {
            throw;
        }
        const std::string kind = models::digits_hidden(name);
        const auto known =
            std::find_if(kinds_.begin(), kinds_.end(),
                         [&](const MismatchKind& other) { return other.name == kind; });
        if (known == kinds_.end()) {
            kinds_.push_back({kind, error, 0});
        } else {
            ++known->n_others;
        }
        return false;
    }
}

Error Mismatches::error_of(const MismatchKind& kind) {
    Error error = kind.first;
    return kind.n_others == 0
               ? error
               : error.add_context("and " +
                                   counted(static_cast<std::size_t>(kind.n_others), "other") +
                                   " of this kind");
}
void Mismatches::require_none(const std::string& usual) const {
    if (kinds_.empty()) {
        return;
    }
    if (kinds_.size() == 1) {
        throw Error(error_of(kinds_.front()));
    }
    constexpr std::size_t kMostListed = 20;
    std::string text = "checkpoint and config.json contradict each other in " +
                       std::to_string(kinds_.size()) + " ways:";
    for (std::size_t i = 0; i < std::min(kinds_.size(), kMostListed); ++i) {
        text += "\n  " + error_of(kinds_[i]).set_hint("").full_text();
    }
    text += kinds_.size() > kMostListed ? "\n  ..." : "";
    std::set<std::string> hints;
    for (const MismatchKind& kind : kinds_) {
        hints.insert(kind.first.hint());
    }
    hints.erase(usual);
    throw Error(ErrorCode::mismatch, text, hints.size() == 1 ? *hints.begin() : usual);
}

}  // namespace shardweld::plan
