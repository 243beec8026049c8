#include "plan/plan.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <utility>
#include <vector>

#include "catalogue/file.hpp"
#include "core/fingerprint.hpp"
#include "core/text.hpp"
#include "plan/choice.hpp"
#include "plan/visibility.hpp"
#include "shardweld/error.hpp"

#include "read_shares.hpp"
#include "strategy.hpp"

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

/// All ranks, or as many as PlanChoice::max_readers: by turns from every group with a view of its
/// own, spread evenly over the ranks of the group and so over its nodes. Error(usage) names a file
/// that some rank sees and no reader.
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

/// The model's files as the choice's format packs them, and behind them those that some targets ask
/// for by name (Target::file). Targets of one file stand together.
outputs::Placement place(const std::vector<Target>& targets,
                         const std::vector<outputs::OutputTensor>& tensors,
                         const PlanChoice& choice) {
    outputs::Placement placement;
    for (std::size_t begin = 0; begin < targets.size();) {
        const std::string& file = targets[begin].file;
        std::size_t end = begin;
        while (end < targets.size() && targets[end].file == file) {
            ++end;
        }
        const std::vector<outputs::OutputTensor> part(
            tensors.begin() + static_cast<std::ptrdiff_t>(begin),
            tensors.begin() + static_cast<std::ptrdiff_t>(end));
        outputs::Placement more = file.empty()
                                      ? choice.output_format->place(part, choice.max_shard_size)
                                      : outputs::place_in_one_file(part, file);
        if (begin == 0) {
            placement = std::move(more);
        } else {
            outputs::append(placement, std::move(more));
        }
        begin = end;
    }
    return placement;
}

std::string hash_text(const Fingerprint& hash) {
    std::array<char, 17> out{};
    (void)std::snprintf(out.data(), out.size(), "%016llx",
                        static_cast<unsigned long long>(hash.value()));
    return out.data();
}

std::string mix_text(const Mix& mix) {
    std::string text = mix.kind == Mix::Kind::sum ? "sum" : "deltas";
    for (const Term& term : mix.terms) {
        std::array<char, 32> weight{};
        (void)std::snprintf(weight.data(), weight.size(), "%.9g", static_cast<double>(term.weight));
        text += " " + std::string(weight.data()) + " " +
                std::string(safetensors_name(term.stored)) + " " + std::to_string(term.add);
    }
    return text;
}

/// What happens to a target's elements on the way, beside the cast.
std::string steps_text(const Target& target) {
    if (target.mix) {
        return mix_text(*target.mix);
    }
    std::string text = std::to_string(target.add);
    if (target.quantised) {
        text += (target.is_dequantised() ? " from " : " ") +
                std::string(facts_of(target.quantised->encoding).name) + " of " +
                std::string(safetensors_name(target.quantised->weight));
    }
    if (!target.fold) {
        return text;
    }
    const auto text_of = [](const Matrix& matrix) {
        return std::to_string(matrix.offset) + "+" + std::to_string(matrix.row_stride) + "," +
               std::to_string(matrix.col_stride) +
               (matrix.batch_stride == 0 ? "" : "," + std::to_string(matrix.batch_stride));
    };
    const Fold& fold = *target.fold;
    std::array<char, 32> scale{};
    (void)std::snprintf(scale.data(), scale.size(), "%.17g", fold.scale);
    return (target.quantised ? text + " " : "") + scale.data() + " rank " +
           std::to_string(fold.rank) + " " + (fold.left ? text_of(*fold.left) : "ones") + " " +
           text_of(fold.right) + " norm " + std::to_string(static_cast<int>(fold.norm)) + " " +
           std::to_string(fold.magnitudes);
}

/// How many rounds a part of the line takes; what is not mixed belongs to the last.
std::uint32_t settle_terms(std::vector<Target>& targets) {
    std::size_t n_terms = 1;
    for (const Target& target : targets) {
        n_terms = std::max(n_terms, target.mix ? target.mix->terms.size() : 1);
    }
    const auto last = static_cast<std::uint32_t>(n_terms - 1);
    for (Target& target : targets) {
        for (auto* const operands : {&target.operands, &target.replicas}) {
            for (Operand& operand : *operands) {
                operand.term = target.mix ? operand.term : last;
            }
        }
    }
    return last + 1;
}

void set_strategy(Plan& plan, Strategy strategy, bool hides_files, const PlanChoice& choice) {
    plan.strategy = strategy;
    plan.is_lockstep = plan.n_ranks() > 1 && (strategy == Strategy::collective || hides_files);
    plan.read_cuts = share_reading(plan);
    const bool any_scattered =
        std::find(plan.scattered.begin(), plan.scattered.end(), true) != plan.scattered.end();
    LimitNeeds needs{plan.n_ranks(), plan.is_lockstep, any_scattered, folds(plan.targets),
                     choice.read_ahead};
    needs.has_replicas = plan.compared_bytes > 0;
    needs.has_digests = choice.digests;
    note_shares(plan.targets, needs);
    plan.limits = split_memory(choice.memory_limit, choice.message_limit, needs);
}

void choose_strategy(Plan& plan, const std::vector<catalogue::File>& files,
                     const PlanChoice& choice) {
    const bool hides_files = hidden_files(plan.visibility, files) > 0;
    const bool is_collective =
        choice.strategy == Strategy::collective || choice.limits_readers(plan.n_ranks());
    set_strategy(plan, is_collective ? Strategy::collective : Strategy::direct, hides_files,
                 choice);
    const Decision decision = decide(plan, files, choice);
    plan.why = decision.why;
    if (decision.strategy != plan.strategy) {
        set_strategy(plan, decision.strategy, hides_files, choice);
    }
}

}  // namespace

std::string_view name_of(Strategy strategy) {
    switch (strategy) {
        case Strategy::automatic:
            return "auto";
        case Strategy::collective:
            return "collective";
        case Strategy::direct:
            return "direct";
    }
    return "";
}

Visibility Visibility::everywhere(int n_ranks, std::size_t n_files) {
    return {std::vector<std::uint32_t>(static_cast<std::size_t>(n_ranks), 0),
            {std::vector<bool>(n_files, true)}};
}

bool is_scattered(const Target& target) {
    return std::any_of(target.operands.begin(), target.operands.end(), [](const Operand& operand) {
        const auto& loops = operand.copy.loops;
        return !loops.empty() &&
               std::none_of(loops.begin(), loops.end(), [](const layout::Loop& loop) {
                   return loop.src_stride == 1 && loop.dst_stride == 1;
               });
    });
}

bool folds(const std::vector<Target>& targets) {
    return std::any_of(targets.begin(), targets.end(),
                       [](const Target& target) { return target.fold.has_value(); });
}

std::vector<outputs::OutputTensor> output_tensors(const std::vector<Target>& targets) {
    std::vector<outputs::OutputTensor> tensors;
    tensors.reserve(targets.size());
    for (const Target& target : targets) {
        tensors.push_back({target.name,
                           target.dtype,
                           target.shape,
                           target.strip_elements(),
                           target.is_scales(),
                           {}});
        if (target.holds_codes()) {
            tensors.back().encoding = target.quantised->encoding;
        }
    }
    return tensors;
}

Bytes buffer_bytes(const Target& target, Index n_elements) {
    Bytes width = std::max({target.stored_width(), staged_width(target), size_of(target.dtype)});
    if (target.mix) {
        width = std::max<Bytes>(width, sizeof(float));
        for (const Term& term : target.mix->terms) {
            width = std::max(width, size_of(term.stored));
        }
    }
    return static_cast<Bytes>(n_elements) * width;
}

Bytes staged_width(const Target& target) {
    const bool is_staged =
        target.holds_codes() && (target.stored != target.cast() || target.add != 0 || target.fold);
    return is_staged ? size_of(target.cast()) * static_cast<Bytes>(target.quantised->packing()) : 0;
}

Plan make_plan(std::vector<Target> targets, const std::vector<catalogue::File>& files,
               Visibility visibility, const PlanChoice& choice) {
    if (targets.empty()) {
        throw Error(ErrorCode::mismatch, "the checkpoint holds no tensor of the model",
                    "give the save that holds the model's weights");
    }
    Plan plan;
    const auto tensors = output_tensors(targets);
    plan.placement = place(targets, tensors, choice);
    plan.line = line_of(tensors, plan.placement);
    for (const Target& target : targets) {
        plan.scattered.push_back(target.is_scales() ? plan.scattered.back() : is_scattered(target));
    }
    plan.targets = std::move(targets);
    plan.n_terms = settle_terms(plan.targets);
    choose_samples(plan, choice.replicas, choice.records);
    share_among(plan, files, std::move(visibility), choice);
    return plan;
}

void share_among(Plan& plan, const std::vector<catalogue::File>& files, Visibility visibility,
                 const PlanChoice& choice) {
    const int n_ranks = static_cast<int>(visibility.group_of_rank.size());
    plan.cuts = cut_runs(plan.line, plan.placement, n_ranks, choice.alignment);
    plan.visibility = std::move(visibility);
    plan.readers = choose_readers(plan.visibility, files, choice);
    choose_strategy(plan, files, choice);
}

int Plan::reader_of(const Operand& operand, const Target& target, int owner) const {
    if (strategy == Strategy::direct && visibility.sees(owner, operand.file)) {
        return owner;
    }
    const ReadCut at{operand.file, address_of(target, operand)};
    const auto after = std::upper_bound(read_cuts.begin(), read_cuts.end(), at, is_before);
    return after == read_cuts.begin() ? owner : static_cast<int>(std::prev(after)->reader);
}

void share_rest(Plan& plan, std::span<const LineRange> done, Bytes alignment) {
    plan.cuts = cut_runs(plan.line, plan.placement, plan.n_ranks(), alignment, done);
    plan.read_cuts = share_reading(plan);  // other owners do not see other files
}

std::string Plan::hash() const {
    if (!known_hash.empty()) {
        return known_hash;
    }
    Fingerprint print;
    for (const outputs::PlacedFile& file : placement.files) {
        print.add(file.name);
        print.add(file.header);
    }
    for (const Target& target : targets) {
        print.add(target.name);
        print.add(safetensors_name(target.dtype));
        print.add(safetensors_name(target.stored));
        print.add(steps_text(target));
        for (const Operand& operand : target.operands) {
            print.add(std::to_string(operand.file));
            if (operand.term > 0) {
                print.add("term " + std::to_string(operand.term));
            }
            print.add(std::to_string(operand.base));
            print.add(layout::to_text(operand.copy));
        }
    }
    return hash_text(print);
}

Strip strip_of(const Plan& plan, std::uint32_t codes) {
    const auto bytes_of = [&](const Target& target) {
        return static_cast<Bytes>(target.strip_elements()) * size_of(target.dtype);
    };
    const Target& target = plan.targets[codes];
    return {bytes_of(target), target.has_scales() ? bytes_of(plan.targets[codes + 1]) : 0};
}

Index block_elements(const Target& target) {
    return target.block > 0   ? target.block
           : target.quantised ? target.quantised->strip()
                              : static_cast<Index>(kDigestBlock / size_of(target.dtype));
}

namespace {

/// The part of a target's elements from `first` on, `bytes` of them at `begin` on the line, that
/// lies in a range of it.
void add_slice(const Plan& plan, LineRange range, const Slice& part, std::vector<Slice>& slices) {
    const Bytes size = size_of(plan.targets[part.target].dtype);
    const Bytes begin = part.line_begin;
    const Bytes end = begin + static_cast<Bytes>(part.end - part.begin) * size;
    const Bytes lo = std::max(range.begin, begin);
    const Bytes hi = std::min(range.end, end);
    if (lo < hi) {
        slices.push_back({part.target, part.begin + static_cast<Index>((lo - begin) / size),
                          part.begin + static_cast<Index>((hi - begin) / size), lo});
    }
}

void add_strips(const Plan& plan, LineRange range, std::uint32_t codes, Bytes begin,
                std::vector<Slice>& slices) {
    const Strip strip = strip_of(plan, codes);
    const Bytes first = range.begin > begin ? (range.begin - begin) / strip.both() : 0;
    const Target& target = plan.targets[codes];
    for (auto at = static_cast<Index>(first); at * target.strip_elements() < target.volume();
         ++at) {
        const Bytes line = begin + static_cast<Bytes>(at) * strip.both();
        if (line >= range.end) {
            break;
        }
        const auto part_of = [&](const Target& one) {
            const Index n = one.strip_elements();
            return std::pair(at * n, std::min((at + 1) * n, one.volume()));
        };
        const auto [lo, hi] = part_of(target);
        add_slice(plan, range, {codes, lo, hi, line}, slices);
        if (!target.has_scales()) {
            continue;
        }
        const auto [scale_lo, scale_hi] = part_of(plan.targets[codes + 1]);
        const Bytes behind = line + static_cast<Bytes>(hi - lo) * size_of(target.dtype);
        add_slice(plan, range, {codes + 1, scale_lo, scale_hi, behind}, slices);
    }
}

}  // namespace

std::vector<Slice> slices_of(const Plan& plan, LineRange range) {
    std::vector<Slice> slices;
    if (range.begin >= range.end) {
        return slices;
    }
    const auto& begins = plan.line.begins;
    auto at = static_cast<std::size_t>(std::upper_bound(begins.begin(), begins.end(), range.begin) -
                                       begins.begin()) -
              1;
    for (; at < plan.line.order.size() && begins[at] < range.end; ++at) {
        const std::uint32_t target = plan.line.order[at];
        if (plan.targets[target].strip_elements() > 0) {
            add_strips(plan, range, target, begins[at], slices);
        } else {
            add_slice(plan, range, {target, 0, plan.targets[target].volume(), begins[at]}, slices);
        }
    }
    return slices;
}

}  // namespace shardweld::plan
