#include "model_rank.hpp"

#include <algorithm>
#include <utility>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"

#include "../directory_listing.hpp"
#include "../shared/hints.hpp"
#include "scan.hpp"

namespace shardweld::formats::deepspeed {

namespace {

using catalogue::Tensor;

constexpr Index kMostRanks = 1 << 20;
constexpr std::size_t kMostLost = 4;
// Of more, what is lost with them is not told.
constexpr std::size_t kMostMissing = 1000;
// DeepSpeed pads a group to a multiple of twice its ranks (nccl_start_alignment_factor); with
// parameter_alignment also of 16 bytes.
constexpr Index kSlackOfRank = 16;

Index numel(const Tensor& tensor) {
    return volume_of(tensor.shape, tensor.name);
}

/// "layers.0.weight [16, 32): 512 of 1024 elements" for each parameter of which runs are lost.
std::string lost_text(const std::vector<ModelRank::Parameter>& parameters) {
    std::string text;
    std::size_t n_lost = 0;
    for (const ModelRank::Parameter& parameter : parameters) {
        std::string ranges;
        for (const Run& run : parameter.runs) {
            if (run.shard == nullptr) {
                ranges += (ranges.empty() ? "" : ", ") + std::to_string(run.begin) + " to " +
                          std::to_string(run.end);
            }
        }
        if (ranges.empty() || ++n_lost > kMostLost) {
            continue;
        }
        text += (text.empty() ? "" : "; ") + printable(parameter.declared->name) + " " +
                shape_text(parameter.declared->shape) + " elements " + ranges;
    }
    return n_lost > kMostLost
               ? text + "; and parts of " + std::to_string(n_lost - kMostLost) + " other tensors"
               : text;
}

}  // namespace

void ModelRank::add_states(const std::string& file, const catalogue::Catalogue& scan) {
    if (!states_file_.empty()) {
        return;
    }
    states_file_ = file;
    facts_ = scan.facts;
    for (const Tensor& tensor : scan.tensors) {
        if (tensor.placement == kParameter) {
            parameters_.push_back(tensor);
            shapes_.emplace(tensor.name, tensor.shape);
        } else if (!tensor.placement.empty()) {
            rules_.try_emplace(tensor.name, tensor);
        }
    }
}

void ModelRank::add_partition(Partition partition) {
    const Index dp = partition.name.dp;
    const auto [at, is_new] = partitions_.try_emplace(dp, std::move(partition));
    if (!is_new) {
        throw Error(ErrorCode::mismatch,
                    printable(at->second.file) + " and " + printable(partition.file) +
                        " are of the same rank",
                    kOneSave);
    }
}

const std::vector<Index>* ModelRank::shape_of(const std::string& name) const {
    const auto at = shapes_.find(name);
    return at == shapes_.end() ? nullptr : &at->second;
}

const Tensor* ModelRank::rule_for(const std::string& name) const {
    const auto at = rules_.find(name);
    return at == rules_.end() ? nullptr : &at->second;
}

// Optimizers say among how many ranks they divide; that of experts is another number.
void ModelRank::count_ranks() {
    const Partition* first = nullptr;
    for (const auto& [dp, partition] : partitions_) {
        for (std::size_t group = 0; group < partition.groups.size(); ++group) {
            const auto said = partition.facts.find(ranks_key(group));
            if (said == partition.facts.end()) {
                continue;
            }
            if (first == nullptr) {
                first = &partition;
                n_ranks_ = said->second;
            } else if (said->second != n_ranks_) {
                throw Error(
                    first == &partition ? ErrorCode::unsupported : ErrorCode::mismatch,
                    "partition_count is " + std::to_string(n_ranks_) + " in " +
                        printable(first->file) + " but " + std::to_string(said->second) + " in " +
                        printable(partition.file),
                    first == &partition
                        ? "groups of experts are not joined: take the model's own weights with "
                          "--weights model"
                        : kOneSave);
            }
        }
    }
    const Index found = partitions_.empty() ? 0 : partitions_.rbegin()->first + 1;
    const auto states = facts_.find(kDataRanks);
    const std::string speaker = first != nullptr ? first->file : states_file_;
    if (first == nullptr) {
        n_ranks_ = states == facts_.end() ? std::max<Index>(found, 1) : states->second;
    }
    if (n_ranks_ < 1 || n_ranks_ > kMostRanks || found > n_ranks_) {
        throw Error(
            ErrorCode::mismatch,
            printable(speaker) + " says that " + std::to_string(n_ranks_) +
                " data-parallel ranks saved, but there are files of " + std::to_string(found) +
                (partitions_.empty() ? "" : ": " + printable(partitions_.rbegin()->second.file)),
            kOneSave);
    }
    // With sequence parallelism a rank counts more than once.
    if (states != facts_.end() && (states->second < 1 || n_ranks_ % states->second != 0)) {
        throw Error(ErrorCode::mismatch,
                    "dp_world_size is " + std::to_string(states->second) + " in " +
                        printable(states_file_) + ", but the weights are divided among " +
                        std::to_string(n_ranks_) + " ranks by " + printable(speaker),
                    kOneSave);
    }
}

void ModelRank::arrange(bool is_split) {
    is_split_ = is_split;
    count_ranks();
    for (Index dp = 0; dp < n_ranks_; ++dp) {
        if (!partitions_.contains(dp)) {
            missing_.push_back(dp);
        }
    }
    for (const auto& [dp, partition] : partitions_) {
        const Partition& first = partitions_.begin()->second;
        if (!is_split_ && partition.groups.size() != first.groups.size()) {
            throw Error(ErrorCode::mismatch,
                        printable(first.file) + " holds " + std::to_string(first.groups.size()) +
                            " flat groups, but " + printable(partition.file) + " " +
                            std::to_string(partition.groups.size()),
                        kOneSave);
        }
    }
}

// A missing partition is as long as those that are there.
FlatLine ModelRank::line_of_group(std::size_t group) const {
    FlatLine line;
    for (Index dp = 0; dp < n_ranks_; ++dp) {
        const auto at = partitions_.find(dp);
        const bool is_there = at != partitions_.end();
        const catalogue::Shard& shard =
            (is_there ? at->second : partitions_.begin()->second).groups[group];
        line.append(is_there ? &shard : nullptr, shard.shape.front(), dp);
    }
    return line;
}

void ModelRank::require_length(Index used, Index length, const std::string& where,
                               Index slack) const {
    if (used > length || length - used > slack) {
        throw Error(ErrorCode::mismatch,
                    "the parameters of " + printable(states_file_) + " have " +
                        std::to_string(used) + " elements in " + where +
                        ", but the partitions have " + std::to_string(length),
                    kOneSave);
    }
}

// All parameters of a group follow one another; partitions cut them anywhere.
std::vector<ModelRank::Parameter> ModelRank::locate_in_groups() const {
    const Partition& first = partitions_.begin()->second;
    std::vector<Parameter> found;
    std::size_t next = 0;
    for (std::size_t group = 0; group < first.groups.size(); ++group) {
        const FlatLine line = line_of_group(group);
        const auto count = facts_.find(count_key(group));
        const std::size_t end =
            next + (count == facts_.end() ? 0 : static_cast<std::size_t>(count->second));
        Index at = 0;
        const std::size_t begin = next;
        for (; next < end && next < parameters_.size(); ++next) {
            const Index size = numel(parameters_[next]);
            Parameter parameter{&parameters_[next], {}};
            if (at <= line.length() && size <= line.length() - at) {
                line.find(at, size, 0, parameter.runs);
            }
            found.push_back(std::move(parameter));
            const auto gap = first.facts.find(gap_key(group, next - begin));
            at = checked_add(at, size, "a flat group");
            at = checked_add(at, gap == first.facts.end() ? 0 : gap->second, "a flat group");
        }
        require_length(at, line.length(), "flat group " + std::to_string(group),
                       checked_mul(kSlackOfRank, n_ranks_, "padding"));
    }
    if (next != parameters_.size()) {
        throw Error(ErrorCode::mismatch,
                    printable(states_file_) + " names parameters of more flat groups than the " +
                        std::to_string(first.groups.size()) + " of " + printable(first.file),
                    kOneSave);
    }
    return found;
}

// Every rank has an equally long part of every parameter; the last ones are padded.
std::vector<ModelRank::Parameter> ModelRank::locate_in_ranks() const {
    std::vector<FlatLine> lines(static_cast<std::size_t>(n_ranks_));
    for (const auto& [dp, partition] : partitions_) {
        for (const catalogue::Shard& shard : partition.groups) {
            lines[static_cast<std::size_t>(dp)].append(&shard, shard.shape.front(), dp);
        }
    }
    Index length = 0;
    for (const Tensor& tensor : parameters_) {
        const Index size = numel(tensor);
        length = checked_add(length, size / n_ranks_ + (size % n_ranks_ == 0 ? 0 : 1), "a rank");
    }
    for (Index dp = 0; dp < n_ranks_; ++dp) {
        FlatLine& line = lines[static_cast<std::size_t>(dp)];
        if (!partitions_.contains(dp)) {
            line.append(nullptr, length, dp);
        }
        require_length(length, line.length(), "rank " + std::to_string(dp), 0);
    }
    std::vector<Parameter> found;
    Index at = 0;
    for (const Tensor& tensor : parameters_) {
        const Index size = numel(tensor);
        const Index part = size / n_ranks_ + (size % n_ranks_ == 0 ? 0 : 1);
        Parameter parameter{&tensor, {}};
        for (Index dp = 0; dp < n_ranks_; ++dp) {
            const Index begin = std::min(dp * part, size);
            const Index end = std::min(begin + part, size);
            lines[static_cast<std::size_t>(dp)].find(at, end - begin, begin, parameter.runs);
        }
        at += part;
        found.push_back(std::move(parameter));
    }
    return found;
}

void ModelRank::require_all(const std::vector<Parameter>& parameters) const {
    if (missing_.empty()) {
        return;
    }
    FileName like;
    if (!partitions_.empty()) {
        like = partitions_.begin()->second.name;
    }
    std::vector<std::string> names;
    for (const Index dp : missing_) {
        names.push_back(partition_name(like, dp));
    }
    Error error(ErrorCode::not_found,
                std::to_string(missing_.size()) + " of " + std::to_string(n_ranks_) +
                    " optimizer files are missing: " + name_list(names),
                is_split_ ? kCopyAll
                          : "copy the files of all ranks, or take the model's own weights with "
                            "--weights model");
    if (const std::string lost = lost_text(parameters); !lost.empty()) {
        error.add_context("lost " + lost);
    }
    throw error;
}

std::vector<ModelRank::Parameter> ModelRank::locate() const {
    if (partitions_.empty() || missing_.size() > kMostMissing) {
        require_all({});
    }
    auto found = is_split_ ? locate_in_ranks() : locate_in_groups();
    require_all(found);
    return found;
}

Bytes ModelRank::padding_bytes() const {
    Bytes padding = 0;
    for (const auto& [dp, partition] : partitions_) {
        for (const catalogue::Shard& shard : partition.groups) {
            padding += to_bytes(shard.shape.front(), "elements") * size_of(shard.dtype);
        }
    }
    for (const Tensor& tensor : parameters_) {
        if (padding == 0) {
            break;  // nothing but empty ones
        }
        const DType dtype = partitions_.begin()->second.groups.front().dtype;
        padding -= to_bytes(numel(tensor), "elements") * size_of(dtype);
    }
    return padding;
}

}  // namespace shardweld::formats::deepspeed
