#include "nearest.hpp"

#include <algorithm>
#include <numeric>

namespace shardweld::app {

namespace {

/// Levenshtein's distance, in which two neighbours in each other's place are one mistake.
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<std::size_t>> rows(a.size() + 1,
                                               std::vector<std::size_t>(b.size() + 1));
    std::iota(rows[0].begin(), rows[0].end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        rows[i][0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            std::size_t& least = rows[i][j];
            least = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1,
                              rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                least = std::min(least, rows[i - 2][j - 2] + 1);
            }
        }
    }
    return rows[a.size()][b.size()];
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
        const std::size_t n_letters =
            word.size() - std::min(word.find_first_not_of('-'), word.size());
        const std::size_t most = std::max((n_letters + 1) / 3, std::size_t{1});
        const auto [shorter, longer] = std::minmax({typed.size(), word.size()});
        if (longer - shorter > most) {
            continue;  // as many letters at least are missing: also bounds the work
        }
        const std::size_t d = distance(typed, word);
        if (d < least && d <= most && d < n_letters) {
            least = d;
            best = word;
        }
    }
    return best.empty() ? "" : "did you mean " + best + "?";
}

}  // namespace shardweld::app
