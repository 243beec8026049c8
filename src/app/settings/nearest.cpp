#include "nearest.hpp"

#include <algorithm>
#include <numeric>

namespace shardweld::app {

namespace {

/// Levenshtein's distance.
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
        }
    }
    return row.back();
}

}  // namespace

std::string suggestion(std::string_view typed, const std::vector<std::string>& known) {
    // What was cut short, as Python's argparse takes it.
    const auto begins = [&](const std::string& word) { return word.starts_with(typed); };
    if (typed.size() > 3 && std::ranges::count_if(known, begins) == 1) {
        return "did you mean " + *std::ranges::find_if(known, begins) + "?";
    }
    std::string best;
    std::size_t least = typed.size();
    for (const std::string& word : known) {
        const std::size_t most = (word.size() + 2) / 3;
        const auto [shorter, longer] = std::minmax({typed.size(), word.size()});
        if (longer - shorter > most) {
            continue;  // as many letters at least are missing: also bounds the work
        }
        const std::size_t d = distance(typed, word);
        const std::size_t n_letters =
            word.size() - std::min(word.find_first_not_of('-'), word.size());
        if (d < least && d <= most && d < n_letters) {
            least = d;
            best = word;
        }
    }
    return best.empty() ? "" : "did you mean " + best + "?";
}

}  // namespace shardweld::app
