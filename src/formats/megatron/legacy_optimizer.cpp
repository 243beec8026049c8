#include "legacy_optimizer.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/parameter_kind.hpp"
#include "core/stop_point.hpp"
#include "core/text.hpp"
#include "formats/shared/adam.hpp"
#include "formats/shared/assembler.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/optimizer_claims.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "layout/patch.hpp"
#include "shardweld/error.hpp"

#include "args.hpp"
#include "buckets.hpp"
#include "optimizer_state.hpp"
#include "parameter_order.hpp"

namespace shardweld::formats::megatron {

namespace {

using catalogue::Catalogue;
using catalogue::Shard;
using catalogue::State;
using catalogue::Tensor;

/// Where a state lies in a rank's file: a buffer of an optimizer, or the position of a parameter in
/// a group; written as the tensor's name until its parameter is known.
struct Slot {
    Index first = 0;   ///< optimizer, or group
    Index second = 0;  ///< buffer, or position
};

std::string name_of(const Slot& slot) {
    return std::to_string(slot.first) + "." + std::to_string(slot.second);
}

/// Puts a tensor among those of its state. `name` is Megatron's of the state.
void keep(std::string_view name, const StoredTensor& stored, const Slot& slot, TakenState taken,
          Catalogue& out) {
    const StateKey key{known_state(name, name, taken), name};
    Tensor tensor;
    tensor.name = name_of(slot);
    tensor.dtype = stored.dtype;
    tensor.shape = stored.shape;
    tensor.pieces.push_back(piece_of(stored));
    State* const state = state_taken(key.state, taken, out.optimizer);
    if (state != nullptr) {
        state->tensors.push_back(std::move(tensor));
    }
}

/// An optimizer, or the several of a chain, of which some ranks keep nothing.
std::vector<const PickleValue*> chain_of(const PickleValue& value) {
    const auto elements = value.elements();
    return elements.empty() ? std::vector<const PickleValue*>{&value}
                            : std::vector<const PickleValue*>(elements.begin(), elements.end());
}

/// Reads the states that torch's optimizers number.
class NumberedStates {
  public:
    NumberedStates(const TorchFile& file, const ScalarReader& scalars, TakenState taken,
                   Catalogue& out)
        : file_(file), scalars_(scalars), taken_(taken), out_(out) {
        if (out.optimizer.step) {
            steps_.add(real_text(*out.optimizer.step), "the optimizer's groups");
        }
    }

    void add(const PickleValue& one) {
        const PickleValue* const wrapped = one.find("optimizer");
        const PickleValue& inner = wrapped == nullptr ? one : *wrapped;
        const PickleValue* const state = inner.find("state");
        const PickleValue* const groups = inner.find("param_groups");
        if (state == nullptr || !state->is_mapping() || groups == nullptr) {
            return;
        }
        const Members members = members_in(*groups);
        require_members(*state, members);
        common_step_ = state->find("common_step");
        by_number_.clear();
        for (std::size_t i = 0; i < state->pair_count(); ++i) {
            if (const auto number = parse_index(member_text(state->key(i)))) {  // also "0"
                by_number_.emplace(*number, &state->value(i));
            }
        }
        const PickleValue* const masters = one.find("fp32_from_fp16_params");
        for (std::size_t g = 0; g < groups->elements().size(); ++g, ++group_) {
            const PickleValue* const numbers = groups->elements()[g]->find("params");
            for (std::size_t i = 0; numbers != nullptr && i < numbers->elements().size(); ++i) {
                const Slot slot{group_, static_cast<Index>(i)};
                if (masters != nullptr && g < masters->elements().size() &&
                    i < masters->elements()[g]->elements().size()) {
                    add("param", *masters->elements()[g]->elements()[i], slot);
                }
                add_moments(*groups->elements()[g], *numbers->elements()[i], slot);
            }
        }
    }

    bool finish() {
        out_.optimizer.step = steps_.step();
        return n_read_ > 0;
    }

  private:
    void add(std::string_view name, const PickleValue& value, const Slot& slot) {
        StoredTensor stored;
        if (file_.read_tensor(value, stored)) {
            keep(name, stored, slot, taken_, out_);
            ++n_read_;
        } else {
            require_no_state(name, value, taken_, "parameter " + name_of(slot));
        }
    }

    void add_moments(const PickleValue& group, const PickleValue& number, const Slot& slot) {
        const auto found = by_number_.find(number.integer);
        const PickleValue* const moments = found == by_number_.end() ? nullptr : found->second;
        stop_point();
        if (moments == nullptr) {
            return;
        }
        const std::string place = "parameter " + std::to_string(number.integer);
        if (!moments->is_mapping() && taken_ == TakenState::all) {
            refuse_state("the states of " + place, *moments);
        }
        for (std::size_t i = 0; i < moments->pair_count(); ++i) {
            if (moments->key(i).text() != "step") {
                add(moments->key(i).text(), moments->value(i), slot);
            }
        }
        if (!steps_.add(moments->find("step"), scalars_, place) &&
            !steps_.add(group.find("step"), scalars_, "its group") &&
            !steps_.add(common_step_, scalars_, "common_step")) {
            require_step(place, taken_ != TakenState::all || moments->pair_count() == 0);
        }
    }

    const TorchFile& file_;
    const ScalarReader& scalars_;
    TakenState taken_;
    Catalogue& out_;
    Index group_ = 0;                                       ///< over all optimizers
    std::map<std::int64_t, const PickleValue*> by_number_;  ///< states of the optimizer under way
    const PickleValue* common_step_ = nullptr;              ///< of that optimizer
    std::size_t n_read_ = 0;
    StepClaims steps_;
};

[[noreturn]] void refuse_form(const std::string& why) {
    throw Error(ErrorCode::unsupported, "the optimizer's states " + why, kWeightsOnly);
}

/// The states of one buffer: {types: {name: vector}}.
void add_buffer(const TorchFile& file, const PickleValue& buffer, const Slot& slot,
                TakenState taken, Catalogue& out) {
    if (!buffer.is_mapping() || buffer.pair_count() != 1 || !buffer.value(0).is_mapping()) {
        refuse_form("in buffer " + std::to_string(slot.second) +
                    " are not those of parameters of one type");
    }
    const PickleValue& states = buffer.value(0);
    for (std::size_t i = 0; i < states.pair_count(); ++i) {
        StoredTensor stored;
        if (file.read_tensor(states.value(i), stored)) {
            if (stored.shape.size() != 1 || !stored.is_contiguous()) {
                refuse_form("in buffer " + std::to_string(slot.second) + " are no vectors");
            }
            keep(states.key(i).text(), stored, slot, taken, out);
        } else {
            require_no_state(states.key(i).text(), states.value(i), taken,
                             "buffer " + name_of(slot));
        }
    }
}

void add_buffers(const TorchFile& file, TakenState taken, Catalogue& out) {
    const auto chain = chain_of(file.root());
    const bool is_chain = chain.front() != &file.root();
    if (chain.size() > 2) {
        refuse_form("are of " + std::to_string(chain.size()) +
                    " optimizers, which are none of dense and expert parameters");
    }
    for (std::size_t o = 0; o < chain.size(); ++o) {
        if (!chain[o]->is_mapping()) {
            continue;  // another rank keeps it
        }
        if (chain[o]->find("buckets_coalesced") == nullptr) {
            refuse_form("are not kept with buckets_coalesced, as Megatron keeps them since 2024");
        }
        for (std::size_t i = 0; i < chain[o]->pair_count(); ++i) {
            const PickleValue& number = chain[o]->key(i);
            if (number.kind == PickleKind::integer && number.integer >= 0) {
                // The only optimizer has the parameters of both kinds.
                add_buffer(file, chain[o]->value(i),
                           {is_chain ? static_cast<Index>(o) : 2, number.integer}, taken, out);
            }
        }
    }
}

/// Which parameters an optimizer has: the first of a chain has no experts, the second nothing else,
/// and one alone has all.
enum class Kind { dense, experts, all };

bool is_expert(const Shard& shard) {
    return shard.name.text().find(".experts.") != std::string::npos;
}

bool is_of(Kind kind, const Shard& shard) {
    return kind == Kind::all || is_expert(shard) == (kind == Kind::experts);
}

/// A rank's parameters, in the order of its modules.
using Shards = std::vector<const Shard*>;

Index number_in(const catalogue::StatedConfig& claims, const char* name, Index otherwise) {
    return number_claim(claims, name).value_or(otherwise);
}

/// The size at which buckets of the first chunk of the first stage are closed, as Megatron-LM
/// chooses it; nullopt: they are not.
std::optional<Index> closing_size(const catalogue::StatedConfig& claims) {
    constexpr Index kLeast = 40'000'000;
    constexpr Index kOfEachRank = 1'000'000;
    const auto overlap = claims.find("overlap_grad_reduce");
    if (overlap == claims.end() || overlap->second != "true") {
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
    RankJoin(const Catalogue& catalogue, const catalogue::Optimizer& told, Shards shards,
             std::uint32_t file)
        : catalogue_(catalogue), told_(told), shards_(std::move(shards)), file_(file) {}

    /// For optimizers whose states are vectors of whole buffers.
    void add_buffers(const State& state, State& out) const {
        std::map<Index, std::map<Index, const Tensor*>> buffers;
        for (const Tensor& tensor : state.tensors) {
            const Slot slot = slot_of(tensor);
            buffers[slot.first][slot.second] = &tensor;
        }
        for (const auto& [optimizer, numbered] : buffers) {
            const auto kind = static_cast<Kind>(optimizer);
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
            const Slot slot = slot_of(tensor);
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
        for (std::size_t g = 0; g < members.size(); ++g) {
            if (n_taken[g] != members[g].size()) {
                refuse(std::to_string(n_taken[g]) + " parameters in group " + std::to_string(g) +
                       ", its model " + std::to_string(members[g].size()));
            }
        }
    }

  private:
    static Slot slot_of(const Tensor& tensor) {
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

    [[nodiscard]] Shards parameters(Kind kind, int chunk) const {
        Shards own;
        std::ranges::copy_if(shards_, std::back_inserter(own), [&](const Shard* shard) {
            return shard->at.vpp == chunk && is_of(kind, *shard);
        });
        return own;
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
        const auto pp = catalogue_.facts.find("pp");
        const bool has_stages = pp != catalogue_.facts.end() && pp->second > 1;
        const std::string& name = shard.name;
        return has_stages && shares_embeddings(catalogue_.claims) &&
               (name.ends_with("word_embeddings.weight") || name.ends_with("output_layer.weight"));
    }

    void add_buffer(const Tensor& buffer, const Shards& own, int chunk, State& out) const {
        std::vector<Parameter> parameters;
        for (const Shard* const shard : own) {
            parameters.push_back(
                {shard->name, layout::dense_shape(shard->shape).volume(), is_shared(*shard)});
        }
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
        const auto places = require_places(parameters, {sizes}, catalogue_.files[file_].path);
        for (std::size_t i = 0; i < own.size(); ++i) {
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
    const catalogue::Optimizer& told_;
    Shards shards_;
    std::uint32_t file_;
};

/// What tells the parts of a parameter apart: ranks that differ in nothing else keep the same one.
using PartId = std::tuple<SharedText, int, int, int, int>;

PartId part_id(const Shard& shard) {
    const catalogue::Coordinates& at = shard.at;
    return is_expert(shard) ? PartId{shard.name, at.pp, 0, at.ep, at.etp}
                            : PartId{shard.name, at.pp, at.tp, 0, 0};
}

/// Each part of a parameter has a state in one of the files. Error(not_found) naming one.
void require_all(const State& state, const std::vector<Shards>& shards,
                 const std::vector<catalogue::File>& files) {
    std::set<PartId> found;
    for (const Shard& shard : state.shards) {
        found.insert(part_id(shard));
    }
    for (std::size_t file = 0; file < shards.size(); ++file) {
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

}  // namespace

bool add_numbered_states(const TorchFile& file, const ScalarReader& scalars, TakenState taken,
                         Catalogue& out) {
    add_optimizer(file.root(), scalars, out.optimizer);
    const PickleValue* const optimizer = file.root().find("optimizer");
    if (optimizer == nullptr) {
        return false;
    }
    NumberedStates states(file, scalars, taken, out);
    for (const PickleValue* const one : chain_of(*optimizer)) {
        states.add(*one);
    }
    return states.finish();
}

void add_distributed_states(const Location& location, const std::string& model_file,
                            Catalogue& out) {
    const std::string file =
        (fs::path(model_file).parent_path() / kDistributedOptimizerFile).string();
    if (out.optimizer.groups.empty()) {
        return;
    }
    if (!io::is_file(location.directory / file)) {
        throw Error(ErrorCode::not_found,
                    printable(file) +
                        " is not there, in which the rank's optimizer keeps its "
                        "states",
                    kCopyAll + std::string(", or ") + kWeightsOnly);
    }
    Catalogue beside =
        scan_torch_file(location, file, [&](const TorchFile& torch_file, Catalogue& told) {
            add_buffers(torch_file, location.state, told);
        });
    const auto at = static_cast<std::uint32_t>(out.files.size());
    catalogue::each_tensor(beside, [&](Tensor& tensor) { tensor.pieces.front().file = at; });
    out.optimizer.states = std::move(beside.optimizer.states);
    std::ranges::move(beside.files, std::back_inserter(out.files));
    std::ranges::move(beside.ignored, std::back_inserter(out.ignored));
    take_said(beside, out);
}

namespace {

bool has_moments(const catalogue::Optimizer& optimizer) {
    return std::ranges::any_of(optimizer.states,
                               [](const State& state) { return state.name != catalogue::kMaster; });
}

}  // namespace

LegacyOptimizer::LegacyOptimizer(std::vector<StateScan>& scans) {
    GroupClaims settings;
    GroupClaims schedulers;
    StepClaims steps;
    for (StateScan& scan : scans) {
        catalogue::Optimizer& own = scan.told.optimizer;
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
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
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
