#include "legacy_optimizer.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/names/parameter_kind.hpp"
#include "core/text.hpp"
#include "formats/shared/assembler.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/optimizer_claims.hpp"
#include "layout/patch.hpp"
#include "shardweld/error.hpp"

#include "args.hpp"
#include "buckets.hpp"
#include "optimizer_state.hpp"
#include "parameter_order.hpp"

namespace shardweld::formats::megatron {

namespace {

/// Which parameters an optimizer has: the first of a chain has no experts, the second nothing else,
/// and one alone has all.
enum class ParameterSet { dense, experts, all };

bool is_expert(const Shard& shard) {
    return has_part(shard.name.text(), ".experts.");
}

bool is_of(ParameterSet kind, const Shard& shard) {
    return kind == ParameterSet::all || is_expert(shard) == (kind == ParameterSet::experts);
}

/// A rank's parameters, in the order of its modules.
using Shards = std::vector<const Shard*>;

Index number_in(const StatedConfig& claims, const char* name, Index otherwise) {
    return number_claim(claims, name).value_or(otherwise);
}

/// The size at which buckets of the first chunk of the first stage are closed, as Megatron-LM
/// chooses it; nullopt: they are not.
std::optional<Index> closing_size(const StatedConfig& claims) {
    constexpr Index kLeast = 40'000'000;
    constexpr Index kOfEachRank = 1'000'000;
    if (!is_claimed(claims, "overlap_grad_reduce", "true")) {
        return std::nullopt;
    }
    const Index ranks = checked_mul(number_in(claims, "data_parallel_size", 1),
                                    number_in(claims, "context_parallel_size", 1), "ranks");
    return number_in(claims, "ddp_bucket_size",
                     std::max(kLeast, checked_mul(kOfEachRank, ranks, "elements of a bucket")));
}

/// Gives the states of one rank their parameters.
class RankJoin {
  public:
    RankJoin(const Catalogue& catalogue, const Optimizer& told, Shards shards, std::uint32_t file)
        : catalogue_(catalogue), told_(told), shards_(std::move(shards)), file_(file) {}

    /// For optimizers whose states are vectors of whole buffers.
    void add_buffers(const State& state, State& out) const {
        std::map<Index, std::map<Index, const Tensor*>> buffers;
        for (const Tensor& tensor : state.tensors) {
            const StateSlot slot = slot_of(tensor);
            buffers[slot.first][slot.second] = &tensor;
        }
        for (const auto& [optimizer, numbered] : buffers) {
            const auto kind = static_cast<ParameterSet>(optimizer);
            auto next = numbered.begin();
            for (int chunk = 0; chunk < n_chunks(); ++chunk) {
                const Shards own = parameters(kind, chunk);
                if (own.empty()) {
                    continue;  // there is no buffer for nothing
                }
                if (next == numbered.end()) {
                    refuse(std::to_string(numbered.size()) + " buffers, in which " +
                           printable(own.front()->name) + " has no place");
                }
                add_buffer(*(next++)->second, own, chunk, out);
            }
            if (next != numbered.end()) {
                refuse("more than its model's parameters in buffer " + std::to_string(next->first));
            }
        }
    }

    /// For optimizers whose states are numbered over the groups.
    void add_groups(const State& state, State& out) const {
        const std::vector<Shards> members = members_of_groups();
        std::vector<std::size_t> n_taken(members.size(), 0);
        for (const Tensor& tensor : state.tensors) {
            const StateSlot slot = slot_of(tensor);
            const auto g = static_cast<std::size_t>(slot.first);
            const auto i = static_cast<std::size_t>(slot.second);
            if (g >= members.size() || i >= members[g].size()) {
                refuse("more than its model's parameters in group " + std::to_string(g));
            }
            if (tensor.shape != members[g][i]->shape) {
                refuse("shape " + shape_text(tensor.shape) + " for parameter " + std::to_string(i) +
                       " of group " + std::to_string(g) + ", which is " +
                       printable(members[g][i]->name) + " of shape " +
                       shape_text(members[g][i]->shape));
            }
            add(*members[g][i], tensor, tensor.pieces.front().patch, out);
            ++n_taken[g];
        }
        for (const std::size_t g : indices(members)) {
            if (n_taken[g] != members[g].size()) {
                refuse(std::to_string(n_taken[g]) + " parameters in group " + std::to_string(g) +
                       ", its model " + std::to_string(members[g].size()));
            }
        }
    }

  private:
    static StateSlot slot_of(const Tensor& tensor) {
        const auto parts = split(tensor.name, '.');
        return {*parse_index(parts[0]), *parse_index(parts[1])};
    }

    [[noreturn]] void refuse(const std::string& what) const {
        throw Error(ErrorCode::mismatch,
                    "the optimizer's states in " + printable(catalogue_.files[file_].path) +
                        " do not fit the rank's model: they have " + what,
                    kOneSaveOrWeights);
    }

    [[nodiscard]] int n_chunks() const {
        int n = 0;
        for (const Shard* const shard : shards_) {
            n = std::max(n, shard->at.vpp + 1);
        }
        return n;
    }

    [[nodiscard]] Shards parameters(ParameterSet kind, int chunk) const {
        return filter_list(shards_, [&](const Shard* shard) {
            return shard->at.vpp == chunk && is_of(kind, *shard);
        });
    }

    [[nodiscard]] std::vector<Shards> members_of_groups() const {
        std::vector<Shards> members(told_.groups.size());
        std::map<std::array<bool, 3>, std::vector<std::size_t>> by_kind;
        for (const Shard* const shard : shards_) {
            const ParameterKind kind = kind_of(shard->name.text(), shard->shape.size());
            auto& groups = by_kind[{kind.is_of_experts, kind.is_decoupled, kind.decays}];
            groups = groups.empty() ? groups_of(kind, told_.groups) : groups;
            for (const std::size_t group : groups) {
                members[group].push_back(shard);
            }
        }
        return members;
    }

    [[nodiscard]] bool is_shared(const Shard& shard) const {
        auto* const pp = find_value(catalogue_.facts, "pp");
        const bool has_stages = pp != nullptr && *pp > 1;
        const std::string& name = shard.name;
        return has_stages && shares_embeddings(catalogue_.claims) &&
               (name.ends_with("word_embeddings.weight") || name.ends_with("output_layer.weight"));
    }

    void add_buffer(const Tensor& buffer, const Shards& own, int chunk, State& out) const {
        std::vector<BucketParameter> parameters = collect_list(own, [&](const Shard* const shard) {
            return BucketParameter{shard->name, layout::dense_shape(shard->shape).volume(),
                                   is_shared(*shard)};
        });
        const bool is_first = own.front()->at.pp == 0 && chunk == 0;
        const std::vector<Index> sizes =
            bucket_sizes(parameters, is_first ? closing_size(catalogue_.claims) : std::nullopt);
        std::vector<Index> begins{0};  // buckets lie back to back
        for (const Index size : sizes) {
            begins.push_back(checked_add(begins.back(), size, "elements of a buffer"));
        }
        if (begins.back() != buffer.shape.front()) {
            refuse(std::to_string(buffer.shape.front()) + " elements for the parameters from " +
                   printable(own.front()->name) + " to " + printable(own.back()->name) +
                   ", which take " + std::to_string(begins.back()));
        }
        const auto places = require_places(parameters, sizes, catalogue_.files[file_].path);
        for (const std::size_t i : indices(own)) {
            const Index begin = begins[places[i].bucket] + places[i].begin;
            const Index offset = buffer.pieces.front().patch.offset + begin;
            add(*own[i], buffer, layout::dense_shape(own[i]->shape, offset), out);
        }
    }

    void add(const Shard& weight, const Tensor& tensor, layout::Patch patch, State& out) const {
        Shard shard = weight;
        shard.dtype = tensor.dtype;
        shard.piece = tensor.pieces.front();
        shard.piece.patch = std::move(patch);
        shard.piece.file = file_;
        out.shards.push_back(std::move(shard));
    }

    const Catalogue& catalogue_;
    const Optimizer& told_;
    Shards shards_;
    std::uint32_t file_;
};

/// What tells the parts of a parameter apart: ranks that differ in nothing else keep the same one.
using PartId = std::tuple<SharedText, int, int, int, int>;

PartId part_id(const Shard& shard) {
    const Coordinates& at = shard.at;
    return is_expert(shard) ? PartId{shard.name, at.pp, 0, at.ep, at.etp}
                            : PartId{shard.name, at.pp, at.tp, 0, 0};
}

/// Each part of a parameter has a state in one of the files. Error(not_found) naming one.
void require_all(const State& state, const std::vector<Shards>& shards,
                 const std::vector<File>& files) {
    std::set<PartId> found =
        collect_set(state.shards, [&](const Shard& shard) { return part_id(shard); });
    for (const std::size_t file : indices(shards)) {
        for (const Shard* const shard : shards[file]) {
            if (!found.contains(part_id(*shard))) {
                throw Error(ErrorCode::not_found,
                            "the optimizer's " + state.name + " of " + printable(shard->name) +
                                " in " + printable(files[file].path) + " is not there",
                            kOneSaveOrWeights);
            }
        }
    }
}

/// Each file's parameters.
std::vector<Shards> shards_by_file(const Catalogue& catalogue) {
    std::vector<Shards> shards(catalogue.files.size());
    for (const Shard& shard : catalogue.shards) {
        if (!is_buffer(shard.name)) {
            shards[shard.piece.file].push_back(&shard);
        }
    }
    return shards;
}

bool has_moments(const Optimizer& optimizer) {
    return std::ranges::any_of(optimizer.states,
                               [](const State& state) { return state.name != kMaster; });
}

}  // namespace

LegacyOptimizer::LegacyOptimizer(std::vector<StateScan>& scans) {
    GroupClaims settings;
    GroupClaims schedulers;
    StepClaims steps;
    for (StateScan& scan : scans) {
        Optimizer& own = scan.told.optimizer;
        const std::string file = printable(scan.told.files.front().path);
        if (!own.groups.empty()) {
            settings.add("", std::move(own.groups), file);
        }
        if (own.step) {
            steps.add(real_text(*own.step), file);
        }
        if (!own.scheduler.empty()) {
            schedulers.add("", {{own.scheduler, {}}}, file);
            told_.scheduler = std::move(own.scheduler);
        }
        require_step(file, own.step.has_value() || !has_moments(own));
        Rank rank{std::nullopt, std::move(own.states)};
        if (scan.told.files.size() > 1) {
            rank.file = std::move(scan.told.files.back());
            scan.told.files.pop_back();
        }
        ranks_.push_back(std::move(rank));
        own = {};
    }
    settings.finish(told_);
    told_.step = steps.step();
}

void LegacyOptimizer::join(Catalogue& out) {
    if (std::ranges::all_of(ranks_, [](const Rank& rank) { return rank.states.empty(); })) {
        return;
    }
    const std::vector<Shards> shards = shards_by_file(out);
    for (const std::size_t i : indices(ranks_)) {
        Rank& rank = ranks_[i];
        const bool has_buffers = rank.file.has_value();
        std::size_t file = i;
        if (has_buffers) {
            file = out.files.size();
            out.files.push_back(std::move(*rank.file));
        }
        const RankJoin join(out, told_, shards[i], static_cast<std::uint32_t>(file));
        for (const State& state : rank.states) {
            State& whole = *state_taken(state.name, TakenState::all, told_);
            has_buffers ? join.add_buffers(state, whole) : join.add_groups(state, whole);
        }
        told_.form = rank.states.empty() ? told_.form
                     : has_buffers       ? kDistributedOptimizerFile
                                         : "model_optim_rng.pt";
    }
    for (const State& state : told_.states) {
        require_all(state, shards, out.files);
    }
    told_.is_ordered = true;
    told_.doubt = kUnnamedParameters;
    if (told_.form == kDistributedOptimizerFile) {
        out.notes.emplace_back(
            "distrib_optim.pt tells no iteration: that it was saved with the weights shows only in "
            "its fp32 masters");
    }
    out.optimizer = std::move(told_);
    order_files(out, Unused::kept);
}

}  // namespace shardweld::formats::megatron
