#include "join_surveys.hpp"

#include <map>
#include <utility>

#include "catalogue/catalogue.hpp"

namespace shardweld::app {

namespace {

/// Ranks that see the same of both stay together.
plan::Visibility seen_by_both(const plan::Visibility& a, const plan::Visibility& b) {
    plan::Visibility both;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> groups;
    for (std::size_t rank = 0; rank < a.group_of_rank.size(); ++rank) {
        const std::pair key{a.group_of_rank[rank], b.group_of_rank[rank]};
        const auto [at, is_new] =
            groups.try_emplace(key, static_cast<std::uint32_t>(groups.size()));
        if (is_new) {
            std::vector<bool> sees = a.group_sees[key.first];
            const std::vector<bool>& more = b.group_sees[key.second];
            sees.insert(sees.end(), more.begin(), more.end());
            both.group_sees.push_back(std::move(sees));
        }
        both.group_of_rank.push_back(at->second);
    }
    return both;
}

}  // namespace

void put_files_behind(Survey& first, Survey& more) {
    std::vector<catalogue::File>& files = first.catalogue.files;
    const auto n_before = static_cast<std::uint32_t>(files.size());
    for (const catalogue::File& file : more.catalogue.files) {
        files.push_back({(fs::absolute(more.location.directory) / file.path).string(), file.size});
    }
    more.catalogue.files = files;
    for (catalogue::Tensor& tensor : more.catalogue.tensors) {
        for (catalogue::Piece& piece : tensor.pieces) {
            piece.file += n_before;
        }
    }
    for (catalogue::Shard& shard : more.catalogue.shards) {
        shard.piece.file += n_before;
    }
    first.visibility = seen_by_both(first.visibility, more.visibility);
    first.digests.insert(first.digests.end(), more.digests.begin(), more.digests.end());
    first.stamps.insert(first.stamps.end(), more.stamps.begin(), more.stamps.end());
    first.n_reads += more.n_reads;
}

}  // namespace shardweld::app
