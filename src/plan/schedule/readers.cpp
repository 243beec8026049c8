#include "readers.hpp"

#include <algorithm>
#include <numeric>

#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::plan {

namespace {

std::vector<std::vector<int>> ranks_by_group(const Visibility& visibility) {
    std::vector<std::vector<int>> groups(visibility.group_sees.size());
    for (std::size_t rank = 0; rank < visibility.group_of_rank.size(); ++rank) {
        groups[visibility.group_of_rank[rank]].push_back(static_cast<int>(rank));
    }
    return groups;
}

/// How many readers each group gives: one after the other, while it has ranks.
std::vector<std::size_t> shares(const std::vector<std::vector<int>>& groups, std::size_t most) {
    std::vector<std::size_t> shares(groups.size(), 0);
    for (std::size_t given = 0; given < most;) {
        const std::size_t before = given;
        for (std::size_t group = 0; group < groups.size() && given < most; ++group) {
            if (shares[group] < groups[group].size()) {
                ++shares[group];
                ++given;
            }
        }
        if (given == before) {
            break;
        }
    }
    return shares;
}

void require_seen(const Visibility& visibility, const std::vector<catalogue::File>& files,
                  const std::vector<std::size_t>& shares) {
    for (std::size_t file = 0; file < files.size(); ++file) {
        bool is_seen = false;
        bool is_read = false;
        for (std::size_t group = 0; group < shares.size(); ++group) {
            is_seen = is_seen || visibility.group_sees[group][file];
            is_read = is_read || (visibility.group_sees[group][file] && shares[group] > 0);
        }
        if (is_seen && !is_read) {
            throw Error(
                ErrorCode::usage,
                "--max_readers leaves no rank that sees file " + printable(files[file].path),
                "use at least " + std::to_string(shares.size()) +
                    " readers: the nodes hold different files");
        }
    }
}

}  // namespace

std::vector<int> choose_readers(const Visibility& visibility,
                                const std::vector<catalogue::File>& files,
                                const PlanChoice& choice) {
    const std::size_t n_ranks = visibility.group_of_rank.size();
    std::vector<int> readers;
    if (!choice.limits_readers(static_cast<int>(n_ranks))) {
        readers.resize(n_ranks);
        std::iota(readers.begin(), readers.end(), 0);
        return readers;
    }
    const auto groups = ranks_by_group(visibility);
    const auto share = shares(groups, static_cast<std::size_t>(choice.max_readers));
    require_seen(visibility, files, share);
    for (std::size_t group = 0; group < groups.size(); ++group) {
        for (std::size_t i = 0; i < share[group]; ++i) {
            readers.push_back(groups[group][i * groups[group].size() / share[group]]);
        }
    }
    std::sort(readers.begin(), readers.end());
    return readers;
}

}  // namespace shardweld::plan
