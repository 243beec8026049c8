#include "mismatches.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "core/names/name_rules.hpp"
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
        add_error(name, error);
        return false;
    }
}

void Mismatches::add_error(const std::string& name, const Error& error) {
    const std::string kind = models::digits_hidden(name);
    auto* const known = find_item(kinds_, kind, &MismatchKind::name);
    if (known == nullptr) {
        kinds_.push_back({kind, error, 0});
    } else {
        ++known->n_others;
    }
}

const Mismatches::MismatchKind* Mismatches::noted(const std::string& name) const {
    return find_item(kinds_, name, &MismatchKind::name);
}

Error Mismatches::error_of(const MismatchKind& kind) {
    Error error = kind.first;
    return kind.n_others == 0
               ? error
               : error.add_context("and " + counted(kind.n_others, "other") + " of this kind");
}

Error Mismatches::all() const {
    if (kinds_.size() == 1) {
        Error only = error_of(kinds_.front());
        return only.hint().empty() ? only.set_hint(kConfigHint) : only;
    }
    constexpr std::size_t kMostListed = 20;
    std::string text = "checkpoint and config.json contradict each other in " +
                       std::to_string(kinds_.size()) + " ways:";
    for (std::size_t i = 0; i < std::min(kinds_.size(), kMostListed); ++i) {
        text += "\n  " + error_of(kinds_[i]).set_hint("").full_text();
    }
    text += kinds_.size() > kMostListed ? "\n  ..." : "";
    std::set<std::string> hints =
        collect_set(kinds_, [](const MismatchKind& kind) { return kind.first.hint(); });
    hints.erase(kConfigHint);
    hints.erase("");
    return {ErrorCode::mismatch, text, hints.size() == 1 ? *hints.begin() : kConfigHint};
}

void Mismatches::require_none(const Explain& explain) const {
    if (kinds_.empty()) {
        return;
    }
    if (const MismatchKind* const other = noted(kOtherMeaning)) {
        throw Error(other->first);
    }
    const Error found = all();
    const bool is_lost = noted(kPartLost) != nullptr;
    const bool is_short = is_lost || noted(kMissing) != nullptr;
    const Explanation explained = is_lost && kinds_.size() == 1 ? Explanation() : explain(is_short);
    if (explained.text.empty()) {
        throw Error(found);
    }
    std::string text = explained.text;
    if (kinds_.size() > 1) {
        text += " (" + std::to_string(kinds_.size()) + " kinds of tensors differ, -v lists them)";
    }
    // No field explains these.
    for (const MismatchKind& kind : kinds_) {
        text += kind.name == kUnknown ? "\n" + std::string(kind.first.what()) : "";
    }
    const std::string hint = is_short ? kShortHint : kOtherConfigHint;
    throw Error(ErrorCode::mismatch, text, explained.hint.empty() ? hint : explained.hint)
        .set_detail(found.full_text());
}

namespace {

using Parts = std::vector<std::string_view>;

std::size_t n_alike_behind(const Parts& a, const Parts& b) {
    const auto [at, other] = std::mismatch(a.rbegin(), a.rend(), b.rbegin(), b.rend());
    return static_cast<std::size_t>(at - a.rbegin());
}

std::string front_of(const Parts& parts, std::size_t n_behind) {
    std::string text;
    for (std::size_t i = 0; i + n_behind < parts.size(); ++i) {
        text += std::string(parts[i]) + ".";
    }
    return text;
}

/// A stored name and an expected one that end alike.
struct NameLikeness {
    std::string stored;
    std::string stored_front;
    std::string expected_front;
    std::size_t n_alike = 0;
};

void look_at(const std::string& stored, const std::string& expected, NameLikeness& best) {
    const std::string shape = models::digits_hidden(stored);
    const Parts parts = split(shape, '.');
    const Parts wanted = split(expected, '.');
    const std::size_t n_alike = n_alike_behind(parts, wanted);
    // Many modules have a `weight`; a name that is expected is none of another model.
    if (n_alike > best.n_alike && (n_alike > 1 || n_alike == wanted.size()) && parts != wanted) {
        best = {stored, front_of(split(stored, '.'), n_alike), front_of(wanted, n_alike), n_alike};
    }
}

NameDifference difference_by(const NameLikeness& best) {
    if (best.stored.empty()) {
        return {};
    }
    const bool is_below = best.expected_front.empty();
    std::string text = "stored is " + best.stored;
    if (best.stored_front.empty()) {
        return {text + ", without \"" + best.expected_front + "\" before it", ""};
    }
    text += ", which begins with \"" + best.stored_front + "\"" +
            (is_below ? "" : ", not with \"" + best.expected_front + "\"");
    return {std::move(text), is_below
                                 ? "give --prefix " +
                                       best.stored_front.substr(0, best.stored_front.size() - 1) +
                                       ": what lies below it is the model then"
                                 : ""};
}

}  // namespace

NameDifference difference_of(const std::set<std::string>& expected,
                             std::span<const catalogue::Tensor> stored) {
    for (const NameRule& rule : name_rules().telling) {
        auto* const at = find_where(stored, [&](const catalogue::Tensor& tensor) {
            return matches_any(rule.patterns, tensor.name);
        });
        if (at != nullptr) {
            return {std::string(rule.what) + " (" + at->name + ")", std::string(rule.more), true};
        }
    }
    NameLikeness best;
    for (const catalogue::Tensor& tensor : stored) {
        for (const std::string& name : expected) {
            look_at(tensor.name, name, best);
        }
    }
    NameDifference difference = difference_by(best);
    if (difference.text.empty() && !stored.empty()) {
        difference.text = "stored, but not expected, is " + stored.front().name;
    }
    return difference;
}

}  // namespace shardweld::plan
