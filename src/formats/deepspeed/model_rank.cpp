#include "model_rank.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "catalogue/claims.hpp"
#include "core/text.hpp"
#include "formats/shared/directory_listing.hpp"
#include "formats/shared/hints.hpp"
#include "shardweld/error.hpp"

#include "scan.hpp"

namespace shardweld::formats::deepspeed {

namespace {

constexpr std::string_view kExperts = ".deepspeed_experts.";
constexpr Index kMostExperts = 1 << 20;

/// "moe.deepspeed_moe.experts.deepspeed_experts.", 3, ".0.weight"
struct ExpertName {
    std::string layer;
    Index number = 0;
    std::string rest;
};

std::optional<ExpertName> parse_expert_name(const std::string& name) {
    const auto at = name.find(kExperts);
    if (at == std::string::npos) {
        return std::nullopt;
    }
    const auto begin = at + kExperts.size();
    const auto end = std::min(name.find('.', begin), name.size());
    const auto number = parse_index(name.substr(begin, end - begin));
    if (!number || *number > kMostExperts) {
        return std::nullopt;
    }
    return ExpertName{name.substr(0, begin), *number, name.substr(end)};
}

/// How many experts a rank has, by what precedes their numbers.
using ExpertCounts = std::map<std::string, Index>;

/// By the parameters as every rank calls its own.
ExpertCounts count_experts(const std::vector<FlatParameter>& parameters) {
    ExpertCounts n_local;
    for (const FlatParameter& parameter : parameters) {
        if (const auto expert = parse_expert_name(parameter.name)) {
            Index& n = n_local[expert->layer];
            n = std::max(n, expert->number + 1);
        }
    }
    return n_local;
}

/// The parameter of `file`'s group as the files of experts call it.
FlatParameter named_on(Index expert_rank, const ExpertCounts& n_local, const std::string& file,
                       FlatParameter parameter) {
    const auto expert = parse_expert_name(parameter.name);
    if (!expert) {
        const bool is_other_expert = has_part(parameter.name, ".experts.");
        throw Error(
            is_other_expert ? ErrorCode::unsupported : ErrorCode::mismatch,
            printable(parameter.name) + " is divided among fewer ranks than others in " +
                printable(file) + ", as DeepSpeed-MoE's experts are, but is none of them",
            is_other_expert ? "take the model's own weights with --weights model" : kOneSave);
    }
    const Index number =
        checked_mul(expert_rank, n_local.at(expert->layer), "experts") + expert->number;
    parameter.name = expert->layer + std::to_string(number) + expert->rest;
    return parameter;
}

constexpr Index kMostRanks = 1 << 20;

}  // namespace

void Partitions::add(Partition&& partition) {
    const Index dp = partition.name.dp;
    const auto [at, is_new] = files_.try_emplace(dp, std::move(partition));
    if (!is_new) {
        throw catalogue::same_part(at->second.file, partition.file);
    }
}

void Partitions::count(const FileContent& said, const std::string& states_file, bool is_split) {
    for (const auto& [dp, partition] : files_) {
        require_like_first(partition, is_split);
    }
    is_data_first_ = said.is_data_first;
    const Index found = files_.empty() ? 0 : files_.rbegin()->first + 1;
    const auto states = said.n_data_ranks;
    n_ranks_ = divisions_.empty() ? states.value_or(std::max<Index>(found, 1)) : 0;
    for (const auto& [group, ranks] : divisions_) {
        n_ranks_ = std::max(n_ranks_, ranks);
    }
    const std::string& speaker = divisions_.empty() ? states_file : first().file;
    if (n_ranks_ < 1 || n_ranks_ > kMostRanks || found > n_ranks_) {
        require_equal("the number of data-parallel ranks", n_ranks_, speaker, found,
                      files_.empty() ? "the files" : files_.rbegin()->second.file);
    }
    // With sequence parallelism a rank counts more than once.
    if (states && (*states < 1 || n_ranks_ % *states != 0)) {
        require_equal("dp_world_size", *states, states_file, n_ranks_, speaker);
    }
    for (const auto& [group, ranks] : divisions_) {
        if (ranks < 1 || n_ranks_ % ranks != 0) {
            require_equal("partition_count of group " + std::to_string(group), ranks, speaker,
                          n_ranks_, "others");
        }
    }
}

// All ranks have the same groups, divided among as many. ZeRO-3's sub-groups depend on the rank.
void Partitions::require_like_first(const Partition& partition, bool is_split) {
    if (!is_split) {
        require_equal("the number of flat groups", std::ssize(first().groups), first().file,
                      std::ssize(partition.groups), partition.file);
    }
    for (const std::size_t group : indices(partition.groups)) {
        if (const auto said = partition.groups[group].n_ranks) {
            require_equal("partition_count", divisions_.try_emplace(group, *said).first->second,
                          first().file, *said, partition.file);
        }
    }
}

std::vector<Index> Partitions::missing() const {
    const std::set<Index> found =
        collect_set(files_, [](const auto& partition) { return partition.first; });
    return catalogue::not_covered(found, 0, n_ranks_ - 1);
}

Bytes Partitions::stored_bytes() const {
    Bytes bytes = 0;
    for (const auto& [dp, partition] : files_) {
        for (const Shard& shard : partition.shards) {
            bytes += catalogue::stored_bytes(shard);
        }
    }
    return bytes;
}

Index Partitions::n_expert_ranks(std::size_t group) const {
    auto* const at = find_value(divisions_, group);
    return at == nullptr ? 1 : n_ranks_ / *at;
}

FlatLine Partitions::line_of_group(std::size_t group, Index expert_rank) const {
    const Index n_expert = n_expert_ranks(group);
    const Index n_copies = n_ranks_ / n_expert;
    FlatLine line;
    for (Index i = 0; i < n_copies; ++i) {
        const Index dp = is_data_first_ ? expert_rank * n_copies + i : i * n_expert + expert_rank;
        auto* const at = find_value(files_, dp);
        const bool is_there = at != nullptr;
        const Shard& shard = (is_there ? *at : first()).shards[group];
        line.append(is_there ? &shard : nullptr, shard.shape.front(), dp);
    }
    return line;
}

void Partitions::require_zero(std::size_t group, const FlatRun& padding) const {
    auto* const at = find_value(files_, padding.rank);
    const auto end = at == nullptr ? std::nullopt : at->groups[group].end;
    if (!end || *end <= padding.at) {
        return;
    }
    const Index length = at->shards[group].shape.front();
    throw Error(ErrorCode::mismatch,
                "the last " + std::to_string(length - padding.at) + " elements of flat group " +
                    std::to_string(group) + " in " + printable(at->file) +
                    " are padding, but element " + std::to_string(*end - 1) + " of " +
                    std::to_string(length) + " is not zero",
                "copy the file again from where it was saved: it is damaged, or of another model");
}

FlatLine Partitions::line_of_rank(Index dp, Index length) const {
    FlatLine line;
    auto* const at = find_value(files_, dp);
    if (at == nullptr) {
        line.append(nullptr, length, dp);
        return line;
    }
    for (const Shard& shard : at->shards) {
        line.append(&shard, shard.shape.front(), dp);
    }
    return line;
}

namespace {

constexpr std::size_t kMostLost = 4;
// If more are missing, what is lost with them is not told.
constexpr std::size_t kMostMissing = 1000;
Index numel(const FlatParameter& parameter) {
    return volume_of(parameter.shape, parameter.name);
}

/// "layers.0.weight [16, 32): 512 of 1024 elements" for each parameter of which runs are lost.
std::string lost_text(const std::vector<ModelRank::Located>& parameters) {
    std::string text;
    std::size_t n_lost = 0;
    for (const auto& [parameter, runs] : parameters) {
        std::string ranges;
        for (const FlatRun& run : runs) {
            if (run.shard == nullptr) {
                ranges += (ranges.empty() ? "" : ", ") + std::to_string(run.begin) + " to " +
                          std::to_string(run.end);
            }
        }
        if (ranges.empty() || ++n_lost > kMostLost) {
            continue;
        }
        text += (text.empty() ? "" : "; ") + printable(parameter->name) + " " +
                shape_text(parameter->shape) + " elements " + ranges;
    }
    return n_lost > kMostLost
               ? text + "; and parts of " + std::to_string(n_lost - kMostLost) + " other tensors"
               : text;
}

}  // namespace

void ModelRank::add_states(const std::string& file, FileContent content) {
    if (!states_file_.empty()) {
        return;
    }
    states_file_ = file;
    states_ = std::move(content);
    for (const FlatParameter& parameter : states_.parameters) {
        shapes_.emplace(parameter.name, parameter.shape);
    }
}

const std::vector<Index>* ModelRank::shape_of(const std::string& name) const {
    return find_value(shapes_, name);
}

void ModelRank::find_tied(std::string_view name, const std::vector<Index>& shape,
                          std::set<std::string>& found) const {
    constexpr std::string_view kTied = "tied_modules.";
    for (auto at = shapes_.lower_bound(std::string(kTied));
         at != shapes_.end() && at->first.starts_with(kTied); ++at) {
        const std::size_t key_end = at->first.find('.', kTied.size());
        if (key_end != std::string::npos && at->first.substr(key_end + 1) == name &&
            at->second == shape) {
            found.insert(at->first);
        }
    }
}

const JoinRule* ModelRank::rule_for(const std::string& name) const {
    return find_value(states_.rules, name);
}

void ModelRank::arrange(bool is_split) {
    is_split_ = is_split;
    partitions_.count(states_, states_file_, is_split);
    missing_ = partitions_.missing();
    if (!is_split && !partitions_.is_empty()) {
        expand_groups();
    }
}

// What is declared once, every expert-parallel rank has for its own experts.
void ModelRank::expand_groups() {
    auto& parameters = states_.parameters;
    const ExpertCounts n_local = count_experts(parameters);
    const std::vector<FlatParameter> declared = std::exchange(parameters, {});
    shapes_.clear();
    std::size_t next = 0;
    for (const std::size_t group : indices(partitions_.first().groups)) {
        const auto& sizes = states_.group_sizes;
        const std::size_t n = group < sizes.size() ? sizes[group] : 0;
        const std::size_t end = std::min(next + n, declared.size());
        const Index n_expert = partitions_.n_expert_ranks(group);
        for (Index rank = 0; rank < n_expert; ++rank) {
            const std::size_t begin = parameters.size();
            for (std::size_t i = next; i < end; ++i) {
                parameters.push_back(
                    n_expert == 1 ? declared[i]
                                  : named_on(rank, n_local, partitions_.first().file, declared[i]));
                shapes_.emplace(parameters.back().name, parameters.back().shape);
            }
            groups_.push_back({group, rank, begin, parameters.size()});
        }
        next = end;
    }
    if (next != declared.size()) {
        throw mixed_saves_error(printable(states_file_) +
                                " names parameters of more flat groups than the " +
                                std::to_string(partitions_.first().groups.size()) + " of " +
                                printable(partitions_.first().file));
    }
}

void ModelRank::require_length(Index used, Index length, const std::string& where,
                               Index slack) const {
    if (used > length || length - used > slack) {
        require_equal("the number of elements of " + where, used, states_file_, length,
                      "the partitions");
    }
}

std::vector<ModelRank::Located> ModelRank::locate_in_groups() const {
    std::vector<Located> found;
    for (const GroupSpan& group : groups_) {
        locate_in_group(group, found);
    }
    return found;
}

// All parameters of a group follow one another; partitions cut them anywhere.
void ModelRank::locate_in_group(const GroupSpan& group, std::vector<Located>& found) const {
    const FlatLine line = partitions_.line_of_group(group.number, group.expert_rank);
    const auto& gaps = partitions_.first().groups[group.number].gaps;
    Index at = 0;
    for (std::size_t i = group.begin; i < group.end; ++i) {
        const Index size = numel(states_.parameters[i]);
        Located located{&states_.parameters[i], {}};
        if (at <= line.length() && size <= line.length() - at) {
            line.find(at, size, 0, located.runs);
        }
        found.push_back(std::move(located));
        auto* const gap = find_value(gaps, i - group.begin);
        at = checked_add(at, size, "a flat group");
        at = checked_add(at, gap == nullptr ? 0 : *gap, "a flat group");
    }
    require_length(at, line.length(), "flat group " + std::to_string(group.number),
                   checked_mul(kSlackOfRank, partitions_.n_ranks(), "padding"));
    std::vector<FlatRun> padding;
    line.find(at, line.length() - at, 0, padding);
    for (const FlatRun& run : padding) {
        partitions_.require_zero(group.number, run);
    }
}

// Every rank has an equally long part of every parameter; the last ones are padded.
std::vector<ModelRank::Located> ModelRank::locate_in_ranks() const {
    const Index n_ranks = partitions_.n_ranks();
    const auto part_of = [&](const FlatParameter& parameter) {
        const Index size = numel(parameter);
        return size / n_ranks + (size % n_ranks == 0 ? 0 : 1);
    };
    Index length = 0;
    for (const FlatParameter& parameter : states_.parameters) {
        length = checked_add(length, part_of(parameter), "a rank");
    }
    std::vector<FlatLine> lines;
    for (Index dp = 0; dp < n_ranks; ++dp) {
        lines.push_back(partitions_.line_of_rank(dp, length));
        require_length(length, lines.back().length(), "rank " + std::to_string(dp), 0);
    }
    std::vector<Located> found;
    Index at = 0;
    for (const FlatParameter& parameter : states_.parameters) {
        const Index size = numel(parameter);
        const Index part = part_of(parameter);
        Located located{&parameter, {}};
        for (Index dp = 0; dp < n_ranks; ++dp) {
            const Index begin = std::min(dp * part, size);
            const Index end = std::min(begin + part, size);
            lines[static_cast<std::size_t>(dp)].find(at, end - begin, begin, located.runs);
        }
        at += part;
        found.push_back(std::move(located));
    }
    return found;
}

void ModelRank::fail_missing(const std::vector<Located>& parameters) const {
    const FileName like = partitions_.is_empty() ? FileName{} : partitions_.first().name;
    std::vector<std::string> names =
        collect_list(missing_, [&](const Index dp) { return partition_name(like, dp); });
    Error error(ErrorCode::not_found,
                std::to_string(missing_.size()) + " of " + std::to_string(partitions_.n_ranks()) +
                    " optimizer files are missing: " + name_list(names),
                is_split_ ? kCopyAll
                          : "copy the files of all ranks, or take the model's own weights with "
                            "--weights model");
    if (const std::string lost = lost_text(parameters); !lost.empty()) {
        error.add_context("lost " + lost);
    }
    throw error;
}

std::vector<ModelRank::Located> ModelRank::locate() const {
    if (partitions_.is_empty() || missing_.size() > kMostMissing) {
        fail_missing({});
    }
    auto found = is_split_ ? locate_in_ranks() : locate_in_groups();
    if (!missing_.empty()) {
        fail_missing(found);
    }
    return found;
}

Bytes ModelRank::padding_bytes() const {
    Bytes padding = partitions_.stored_bytes();
    for (const FlatParameter& parameter : states_.parameters) {
        if (padding == 0) {
            break;  // nothing but empty ones
        }
        const DType dtype = partitions_.first().shards.front().dtype;
        padding -= to_bytes(numel(parameter), "elements") * size_of(dtype);
    }
    return padding;
}

}  // namespace shardweld::formats::deepspeed
