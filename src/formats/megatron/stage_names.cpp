#include "stage_names.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "catalogue/tensor.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::megatron {

namespace {

// A tensor of a file: its model chunk and its name there.
using Name = std::pair<int, SharedText>;
using StageTensorNames = std::vector<Name>;

/// Any order, if it is the same for all files.
struct ByAddress {
    bool operator()(const Name& a, const Name& b) const {
        return a.first != b.first ? a.first < b.first
                                  : std::less<>()(&a.second.text(), &b.second.text());
    }
};

std::vector<StageTensorNames> names_by_file(const std::vector<catalogue::Shard>& shards,
                                            std::size_t n_files) {
    std::vector<std::size_t> n_names(n_files, 0);
    for (const catalogue::Shard& shard : shards) {
        ++n_names[shard.piece.file];
    }
    std::vector<StageTensorNames> names(n_files);
    for (std::size_t file = 0; file < n_files; ++file) {
        names[file].reserve(n_names[file]);
    }
    for (const catalogue::Shard& shard : shards) {
        names[shard.piece.file].emplace_back(shard.at.vpp, shard.name);
    }
    for (StageTensorNames& own : names) {
        std::sort(own.begin(), own.end(), ByAddress());
    }
    return names;
}

[[noreturn]] void refuse(const StageTensorNames& lacking, const catalogue::File& has,
                         const catalogue::File& lacks) {
    const std::string others =
        lacking.size() > 1 ? " and " + std::to_string(lacking.size() - 1) + " more" : "";
    throw Error(ErrorCode::not_found,
                "tensor " + printable(lacking.front().second) + others + " in " +
                    printable(has.path) + " but not in " + printable(lacks.path) +
                    ", of the same pipeline stage: one of the files is not whole or bears another "
                    "rank's name",
                "copy them again from where they were saved");
}

void compare(const StageTensorNames& a, const catalogue::File& file_a, const StageTensorNames& b,
             const catalogue::File& file_b) {
    StageTensorNames only;
    std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(only),
                        ByAddress());
    std::sort(only.begin(), only.end());
    if (!only.empty()) {
        refuse(only, file_a, file_b);
    }
}

}  // namespace

void require_same_names(const std::vector<catalogue::Shard>& shards,
                        const std::vector<catalogue::File>& files,
                        const std::vector<catalogue::Coordinates>& places) {
    const std::vector<StageTensorNames> names = names_by_file(shards, files.size());
    std::map<int, std::size_t> first_of_stage;
    for (std::size_t file = 0; file < files.size(); ++file) {
        const std::size_t first = first_of_stage.try_emplace(places[file].pp, file).first->second;
        if (names[file] != names[first]) {
            compare(names[first], files[first], names[file], files[file]);
            compare(names[file], files[file], names[first], files[first]);
        }
    }
}

}  // namespace shardweld::formats::megatron
