#include "grid.hpp"

#include "core/text.hpp"
#include "formats/shared/hints.hpp"
#include "shardweld/error.hpp"

#include "scan.hpp"

namespace shardweld::formats::deepspeed {

namespace {

constexpr Index kSplitStage = 3;
constexpr std::size_t kMostAbsent = 100;

}  // namespace

void Grid::note(const FileContent& content, const std::string& path, const FileName& name) {
    for (const auto& [fact, said] :
         {std::pair(kStage, content.stage), std::pair(kModelRanks, content.n_model_ranks),
          std::pair(kTensorRanks, content.n_tensor_ranks)}) {
        if (!said) {
            continue;
        }
        const auto [at, is_new] = said_.try_emplace(fact, *said, path);
        if (!is_new && at->second.first != *said) {
            throw Error(ErrorCode::mismatch,
                        std::string(fact) + " is " + std::to_string(at->second.first) + " in " +
                            printable(at->second.second) + " but " + std::to_string(*said) +
                            " in " + printable(path),
                        kOneSave);
        }
    }
    if (name.kind == FileKind::model_part) {
        split_states_ = path;
        states_of_[name.mp].insert(name.dp);
    } else if (name.kind == FileKind::model) {
        whole_states_ = path;
    }
}

std::optional<Index> Grid::said(const char* fact) const {
    const auto at = said_.find(fact);
    return at == said_.end() ? std::nullopt : std::optional(at->second.first);
}

void Grid::settle(const ModelRanks& ranks) {
    const std::string& states = split_states_.empty() ? whole_states_ : split_states_;
    if (!split_states_.empty() && !whole_states_.empty()) {
        throw Error(ErrorCode::mismatch,
                    printable(whole_states_) + " is of ZeRO stage 1 or 2, but " +
                        printable(split_states_) + " of stage 3",
                    kOneSave);
    }
    const auto stage = said(kStage);
    is_split_ = stage ? *stage == kSplitStage : !split_states_.empty();
    if (stage && !states.empty() && is_split_ == split_states_.empty()) {
        throw Error(ErrorCode::mismatch,
                    printable(said_.at(kStage).second) + " says that it is of ZeRO stage " +
                        std::to_string(*stage) + ", but " + printable(states) +
                        (is_split_ ? " is of stage 1 or 2" : " is of stage 3"),
                    kOneSave);
    }
    const Index found = ranks.empty() ? 1 : ranks.rbegin()->first + 1;
    const Index n_ranks = said(kModelRanks).value_or(found);
    if (found > n_ranks) {
        throw Error(ErrorCode::mismatch,
                    "there are files of " + std::to_string(found) +
                        " model-parallel ranks, but mp_world_size is " + std::to_string(n_ranks) +
                        " in " + printable(said_.at(kModelRanks).second),
                    kOneSave);
    }
    for (Index mp = 0; mp < n_ranks; ++mp) {
        const auto rank = ranks.find(mp);
        if (rank == ranks.end() || rank->second.states_file().empty()) {
            throw Error(ErrorCode::not_found,
                        "the model states of model-parallel rank " + std::to_string(mp) +
                            " are missing (" + std::to_string(n_ranks) + " ranks saved)",
                        kCopyAll);
        }
    }
    n_tensor_ranks_ = said(kTensorRanks).value_or(n_ranks);
    if (n_tensor_ranks_ < 1 || n_ranks % n_tensor_ranks_ != 0) {
        throw Error(ErrorCode::corrupt, "tp_degree is " + std::to_string(n_tensor_ranks_) + " of " +
                                            std::to_string(n_ranks) + " model-parallel ranks");
    }
}

std::vector<std::string> Grid::absent_states(const ModelRanks& ranks) const {
    std::vector<std::string> absent;
    for (const auto& [mp, present] : states_of_) {
        for (Index dp = 0; dp < ranks.at(mp).data_ranks(); ++dp) {
            if (!present.contains(dp) && absent.size() < kMostAbsent) {
                absent.push_back(states_name(mp, dp));
            }
        }
    }
    return absent;
}

void Grid::add_facts(const ModelRanks& ranks, bool has_partitions,
                     catalogue::Catalogue& out) const {
    if (const auto stage = said(kStage)) {
        out.facts[kStage] = *stage;
    }
    out.facts[kTensorRanks] = n_tensor_ranks_;
    out.facts[kModelRanks] = ranks.rbegin()->first + 1;
    if (has_partitions) {
        out.facts[kDataRanks] = ranks.begin()->second.data_ranks();
    }
}

}  // namespace shardweld::formats::deepspeed
