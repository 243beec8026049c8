#include "plan/plan.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "catalogue/file.hpp"
#include "core/fingerprint.hpp"
#include "core/text.hpp"
#include "plan/job_plan.hpp"
#include "plan/visibility.hpp"
#include "shardweld/error.hpp"

#include "fetch_ahead.hpp"
#include "read_shares.hpp"
#include "strategy.hpp"

namespace shardweld::plan {

namespace {

std::vector<std::vector<int>> ranks_by_group(const Visibility& visibility) {
    std::vector<std::vector<int>> groups(visibility.group_sees.size());
    for (const std::size_t rank : indices(visibility.group_of_rank)) {
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
    for (const std::size_t file : indices(files)) {
        bool is_seen = false;
        bool is_read = false;
        for (const std::size_t group : indices(shares)) {
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

/// All ranks, or as many as JobPlan::max_readers: by turns from every group with a view of its
/// own, spread evenly over the ranks of the group and so over its nodes. Error(usage) names a file
/// that some rank sees and no reader.
std::vector<int> choose_readers(const Visibility& visibility,
                                const std::vector<catalogue::File>& files, const JobPlan& choice) {
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
    for (const std::size_t group : indices(groups)) {
        for (std::size_t i = 0; i < share[group]; ++i) {
            readers.push_back(groups[group][i * groups[group].size() / share[group]]);
        }
    }
    std::ranges::sort(readers);
    return readers;
}

/// The model's files as the choice's format packs them, and behind them those that some targets ask
/// for by name (Target::file). Targets of one file stand together.
outputs::Placement place(const std::vector<Target>& targets, const outputs::OutputTensors& tensors,
                         const JobPlan& choice) {
    if (std::ranges::all_of(targets, &SharedString::empty, &Target::file)) {
        return choice.output_format->place(tensors, choice.max_shard_size);
    }
    outputs::Placement placement;
    std::size_t at = 0;
    for (std::size_t begin = 0; begin < targets.size();) {
        const std::string file = targets[begin].file;
        std::size_t end = begin;
        outputs::OutputTensors part;
        for (; end < targets.size() && targets[end].file == file; ++end) {
            const auto n = targets[end].n_outputs();
            part.insert(part.end(), tensors.begin() + static_cast<std::ptrdiff_t>(at),
                        tensors.begin() + static_cast<std::ptrdiff_t>(at + n));
            at += n;
        }
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
    return formatted("%016llx", static_cast<unsigned long long>(hash.value()));
}

std::string mix_text(const Mix& mix) {
    std::string text = mix.kind == MixKind::sum ? "sum" : "deltas";
    for (const Term& term : mix.terms) {
        text += formatted(" %.9g ", static_cast<double>(term.weight)) +
                safetensors_name(term.stored) + " " + std::to_string(term.add);
    }
    return text;
}

std::string strips_text(const RowBlocks& strips, DType dtype) {
    return " " + std::string(facts_of(strips.encoding).name) + " of " + safetensors_name(dtype);
}

std::string decode_text(const Decode& decode) {
    return " from" + strips_text(decode, decode.scales);
}

std::string encoding_text(const Target& target) {
    return target.encode   ? strips_text(*target.encode, target.encode->weight)
           : target.decode ? decode_text(*target.decode)
                           : "";
}

std::string fold_text(const Fold& fold) {
    const auto text_of = [](const Matrix& matrix) {
        return std::to_string(matrix.offset) + "+" + std::to_string(matrix.row_stride) + "," +
               std::to_string(matrix.col_stride) +
               (matrix.batch_stride == 0 ? "" : "," + std::to_string(matrix.batch_stride));
    };
    std::string rows =
        add_up(fold.rows, [](const Index row) { return " row " + std::to_string(row); });
    return formatted("%.17g", fold.scale) + " rank " + std::to_string(fold.rank) + rows + " " +
           (fold.left ? text_of(*fold.left) : "ones") + " " + text_of(fold.right) + " norm " +
           std::to_string(static_cast<int>(fold.norm)) + " " + std::to_string(fold.magnitudes);
}

/// What happens to a target's elements on the way, beside the cast.
std::string steps_text(const Target& target) {
    if (target.mix) {
        return mix_text(*target.mix);
    }
    std::string text =
        std::to_string(target.add) + encoding_text(target) +
        add_up(target.zeros, [](const layout::Range& zeros) {
            return " zeros " + std::to_string(zeros.lo) + "+" + std::to_string(zeros.extent);
        });
    for (const FoldedPart& part : target.folded) {
        text += " part " + layout::to_text(part.copy) + " " + safetensors_name(part.weight) + " " +
                fold_text(part.fold);
    }
    for (const DecodedPart& part : target.decoded) {
        text += " part " + layout::to_text(part.copy) + decode_text(part.how) + " " +
                std::to_string(part.how.scales_at);
    }
    if (!target.fold) {
        return text;
    }
    return (target.encode ? text + " " : "") + fold_text(*target.fold);
}

/// How many rounds a part of the output space takes; what is not mixed belongs to the last.
std::uint32_t settle_terms(std::vector<Target>& targets) {
    std::size_t n_terms = 1;
    for (const Target& target : targets) {
        n_terms = std::max(n_terms, target.mix ? target.mix->terms.size() : 1);
    }
    const auto last = static_cast<std::uint32_t>(n_terms - 1);
    for (Target& target : targets) {
        if (last > 0 && !target.mix) {
            for (auto* const operands : {&target.operands, &target.replicas}) {
                operands->change_each([&](Operand& operand) { operand.term = last; });
            }
        }
    }
    return last + 1;
}

void set_strategy(Plan& plan, Strategy strategy, bool hides_files, const JobPlan& choice) {
    plan.strategy = strategy;
    plan.is_lockstep = plan.n_ranks() > 1 && (strategy == Strategy::collective || hides_files);
    plan.read_cuts = share_reading(plan);
    LimitNeeds& needs = plan.needs;
    needs.n_ranks = plan.n_ranks();
    needs.step = choice.step;
    needs.is_lockstep = plan.is_lockstep;
    needs.is_ahead = choice.read_ahead;
    needs.has_digests = choice.digests;
    plan.limits = split_memory(choice.memory_limit, choice.message_limit, needs);
}

void choose_strategy(Plan& plan, const std::vector<catalogue::File>& files, const JobPlan& choice) {
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
    return std::ranges::any_of(target.operands, [](const Operand& operand) {
        const auto& loops = operand.copy.loops;
        return !loops.empty() && std::ranges::none_of(loops, [](const layout::Loop& loop) {
            return loop.src_stride == 1 && loop.dst_stride == 1;
        });
    });
}

outputs::OutputTensors output_tensors(const std::vector<Target>& targets) {
    outputs::OutputTensors tensors;
    tensors.reserve(targets.size());
    for (const Target& target : targets) {
        for (std::uint32_t at = 0; at < target.n_outputs(); ++at) {
            const WrittenTensor& tensor = target.output(at);
            tensors.push_back({tensor.name,
                               tensor.dtype,
                               tensor.shape,
                               target.strip_elements(at),
                               at > 0 && at < target.n_made(),
                               {}});
            if (at == 0 && target.encode) {
                tensors.back().encoding = target.encode->encoding;
            }
        }
    }
    return tensors;
}

Bytes buffer_bytes(const Target& target, Index n_elements, std::uint32_t output) {
    if (output > 0) {
        return static_cast<Bytes>(n_elements) * size_of(target.output(output).dtype);
    }
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
        target.encode && (target.stored != target.cast() || target.add != 0 || target.fold);
    return is_staged ? size_of(target.cast()) * static_cast<Bytes>(target.encode->packing()) : 0;
}

Plan make_plan(std::vector<Target> targets, const std::vector<catalogue::File>& files,
               Visibility visibility, const JobPlan& choice) {
    if (targets.empty()) {
        throw Error(ErrorCode::mismatch, "the checkpoint holds no tensor of the model",
                    "give the save that holds the model's weights");
    }
    Plan plan;
    {  // which take much memory, and no longer
        const auto tensors = output_tensors(targets);
        plan.placement = place(targets, tensors, choice);
        plan.space = output_space_of(tensors, plan.placement);
        plan.tensors.reserve(tensors.size());
    }
    for (std::uint32_t i = 0; i < targets.size(); ++i) {
        plan.scattered.push_back(is_scattered(targets[i]));
        for (std::uint32_t at = 0; at < targets[i].n_outputs(); ++at) {
            plan.tensors.push_back({i, at});
        }
    }
    plan.targets = std::move(targets);
    plan.n_terms = settle_terms(plan.targets);
    choose_samples(plan, choice.replicas, choice.records);
    note_shares(plan.targets, plan.needs);
    plan.needs.is_scattered = contains(plan.scattered, true);
    plan.needs.has_replicas = plan.compared_bytes > 0;
    share_among(plan, files, std::move(visibility), choice);
    return plan;
}

void share_among(Plan& plan, const std::vector<catalogue::File>& files, Visibility visibility,
                 const JobPlan& choice) {
    const int n_ranks = static_cast<int>(visibility.group_of_rank.size());
    plan.cuts = cut_runs(plan.space, plan.placement, n_ranks, choice.alignment);
    plan.visibility = std::move(visibility);
    plan.readers = choose_readers(plan.visibility, files, choice);
    choose_strategy(plan, files, choice);
}

int Plan::reader_of(const Operand& operand, const Target& target, int owner) const {
    if (strategy == Strategy::direct && visibility.sees(owner, operand.file)) {
        return owner;
    }
    const ReadCut at{operand.file, address_of(target, operand)};
    const auto after = std::ranges::upper_bound(read_cuts, at, is_before);
    return after == read_cuts.begin() ? owner : static_cast<int>(std::prev(after)->reader);
}

void share_rest(Plan& plan, std::span<const OutputRange> done, Bytes alignment) {
    plan.cuts = cut_runs(plan.space, plan.placement, plan.n_ranks(), alignment, done);
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
    for (std::uint32_t at = 0; at < tensors.size(); ++at) {
        fetch_ahead(tensors.size() - at, [&](std::size_t n) -> const Target& {
            return target_of(at + static_cast<std::uint32_t>(n));
        });
        const Target& target = target_of(at);
        const bool is_first = tensors[at].output == 0;
        print.add(tensor(at).name.front);
        print.add(tensor(at).name.rest);
        print.add(safetensors_name(tensor(at).dtype));
        print.add(safetensors_name(is_first ? target.stored : tensor(at).dtype));
        print.add(is_first          ? steps_text(target)
                  : is_constant(at) ? "0"
                                    : "0" + encoding_text(target));
        for (const Operand& operand : operands_of(at)) {
            print.add(operand.file);
            print.add(operand.term);
            print.add(operand.base);
            const auto& copy = operand.copy;
            const std::array offsets{copy.src_offset, copy.dst_offset};
            print.add(std::as_bytes(std::span(offsets)));
            print.add(std::as_bytes(std::span(copy.loops)));
            print.add(copy.loops.size());
        }
    }
    return hash_text(print);
}

std::span<const Operand> Plan::operands_of(std::uint32_t tensor) const {
    return tensors[tensor].output == 0 ? target_of(tensor).operands : std::span<const Operand>();
}

std::span<const Operand> Plan::replicas_of(std::uint32_t tensor) const {
    return tensors[tensor].output == 0 ? target_of(tensor).replicas : std::span<const Operand>();
}

layout::Range Plan::sources(const Slice& slice) const {
    return tensors[slice.tensor].output == 0
               ? target_of(slice.tensor).sources(slice.begin, slice.end)
               : layout::Range();
}

bool Plan::is_constant(std::uint32_t tensor) const {
    const Target& target = target_of(tensor);
    return tensors[tensor].output >= target.n_made() || !target.literal.empty();
}

}  // namespace shardweld::plan
