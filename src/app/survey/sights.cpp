#include "sights.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "core/text.hpp"
#include "mpi/share.hpp"
#include "shardweld/error.hpp"

#include "same_content.hpp"

namespace shardweld::app {

namespace {

/// A rank reads what it sees, so all that is seen has to be readable.
void check_readable(const Looks& looks, const std::vector<std::string>& files,
                    const fs::path& directory) {
    std::vector<std::string> forbidden;
    for (std::size_t file = 0; file < files.size(); ++file) {
        const bool is_forbidden = std::any_of(looks.begin(), looks.end(), [&](const auto& group) {
            return group[file].is_forbidden;
        });
        if (is_forbidden) {
            forbidden.push_back(files[file]);
        }
    }
    if (!forbidden.empty()) {
        throw Error(ErrorCode::io,
                    std::to_string(forbidden.size()) +
                        " file(s) of the checkpoint cannot be read by this user: " +
                        listed(forbidden) + " in " + directory.string(),
                    "have their owner permit it");
    }
}

}  // namespace

void Sights::look_for(const std::vector<std::string>& files) {
    const auto own = static_cast<std::size_t>(comm_->rank());
    std::vector<std::size_t> position(views_.group_of_rank.size());  // of a rank in its group
    std::vector<std::size_t> n_ranks(views_.leaders.size(), 0);      // of a group
    for (std::size_t rank = 0; rank < position.size(); ++rank) {
        position[rank] = n_ranks[views_.group_of_rank[rank]]++;
    }
    std::vector<FileStatus> mine;
    mpi::collectively(*comm_, [&] {
        const std::size_t step = n_ranks[views_.group_of_rank[own]];
        for (std::size_t i = position[own]; i < files.size(); i += step) {
            mine.push_back(look_at(directory_ / files[i]));
        }
    });
    const auto all = mpi::gather(*comm_, std::move(mine));
    Looks looks(views_.leaders.size(), std::vector<FileStatus>(files.size()));
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        const std::uint32_t group = views_.group_of_rank[rank];
        for (std::size_t i = 0; i < all[rank].size(); ++i) {
            looks[group][position[rank] + i * n_ranks[group]] = all[rank][i];
        }
    }
    check_readable(looks, files, directory_);
    check_same_content(*comm_, views_, looks, directory_, files);
    for (std::size_t i = 0; i < files.size(); ++i) {
        KnownFile& known = known_[files[i]];
        for (const auto& group : looks) {
            known.sizes.push_back(group[i].size);
        }
        known.stamp = looks[views_.group_of_rank[own]][i].stamp;
    }
}

void Sights::leave_to(mpi::Comm& leaders) {
    comm_ = &leaders;
    std::iota(views_.leaders.begin(), views_.leaders.end(), 0);
    views_.group_of_rank.assign(views_.leaders.begin(), views_.leaders.end());
}

SizesByGroup Sights::sizes_of(const std::vector<std::string>& files) {
    std::vector<std::string> unknown;
    std::copy_if(files.begin(), files.end(), std::back_inserter(unknown),
                 [&](const std::string& file) { return !known_.contains(file); });
    look_for(unknown);
    SizesByGroup sizes(views_.leaders.size());
    for (const std::string& file : files) {
        const std::vector<Index>& by_group = known_.at(file).sizes;
        for (std::size_t group = 0; group < sizes.size(); ++group) {
            sizes[group].push_back(by_group[group]);
        }
    }
    return sizes;
}

std::vector<io::FileStamp> Sights::stamps(const std::vector<std::string>& files) const {
    std::vector<io::FileStamp> found;
    found.reserve(files.size());
    for (const std::string& file : files) {
        found.push_back(known_.at(file).stamp);
    }
    return found;
}

void check_seen(const SizesByGroup& sizes, const std::vector<std::string>& files,
                const fs::path& directory) {
    std::vector<std::string> missing;
    for (std::size_t file = 0; file < files.size(); ++file) {
        Index size = -1;
        for (const auto& group : sizes) {
            if (group[file] >= 0 && size >= 0 && group[file] != size) {
                throw Error(ErrorCode::mismatch,
                            "file " + files[file] + " is " + std::to_string(size) +
                                " bytes on one node and " + std::to_string(group[file]) +
                                " on another: the nodes hold different checkpoints");
            }
            size = std::max(size, group[file]);
        }
        if (size < 0) {
            missing.push_back(files[file]);
        }
    }
    if (!missing.empty()) {
        throw Error(ErrorCode::not_found,
                    std::to_string(missing.size()) +
                        " file(s) of the checkpoint are missing on every rank: " + listed(missing) +
                        " in " + directory.string(),
                    "copy them there, or merge where they are");
    }
}

std::vector<int> ranks_for(const std::vector<std::uint32_t>& files, const SizesByGroup& sizes,
                           const Views& views) {
    std::vector<std::vector<int>> ranks_of(views.leaders.size());  // by group
    for (std::size_t rank = 0; rank < views.group_of_rank.size(); ++rank) {
        ranks_of[views.group_of_rank[rank]].push_back(static_cast<int>(rank));
    }
    std::vector<int> chosen;
    for (std::size_t i = 0; i < files.size(); ++i) {
        const auto sees = [&](std::size_t group) { return sizes[group][files[i]] >= 0; };
        std::size_t n_able = 0;
        for (std::size_t group = 0; group < ranks_of.size(); ++group) {
            n_able += sees(group) ? ranks_of[group].size() : 0;
        }
        std::size_t place = files.size() < n_able ? i * n_able / files.size() : i % n_able;
        std::size_t group = 0;
        while (!sees(group) || place >= ranks_of[group].size()) {
            place -= sees(group) ? ranks_of[group].size() : 0;
            ++group;
        }
        chosen.push_back(ranks_of[group][place]);
    }
    return chosen;
}

std::vector<int> ranks_for_all(const SizesByGroup& sizes, const Views& views) {
    std::vector<std::uint32_t> files(sizes.front().size());
    std::iota(files.begin(), files.end(), 0U);
    return ranks_for(files, sizes, views);
}

}  // namespace shardweld::app
