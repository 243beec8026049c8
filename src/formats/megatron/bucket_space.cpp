#include "bucket_space.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "formats/shared/assembler.hpp"
#include "formats/shared/hints.hpp"
#include "layout/patch.hpp"
#include "shardweld/error.hpp"

#include "args.hpp"
#include "buckets.hpp"
#include "rank_parameters.hpp"

namespace shardweld::formats::megatron {

namespace {

/// What lies behind `word` at the beginning of `rest`, up to `end`, and is taken off it.
std::optional<std::string_view> take_word(std::string_view word, std::string_view end,
                                          std::string_view& rest) {
    const std::size_t at =
        rest.starts_with(word) ? rest.find(end, word.size()) : std::string_view::npos;
    if (at == std::string_view::npos) {
        return std::nullopt;
    }
    const std::string_view found = rest.substr(word.size(), at - word.size());
    rest.remove_prefix(at + end.size());
    return found;
}

std::optional<Index> take_number(std::string_view word, std::string_view& rest) {
    const auto text = take_word(word, ".", rest);
    return text ? parse_index(*text) : std::nullopt;
}

/// Buckets of one buffer of one group of ranks.
using BufferId = std::tuple<Index, Index, Index>;  ///< chain, group, buffer
using Buffers = std::map<BufferId, std::vector<const Tensor*>>;

[[noreturn]] void refuse(ErrorCode code, const std::string& what, const char* hint) {
    throw Error(code, "the optimizer's buckets " + what, hint);
}

/// Before megatron-core 0.14 the parts of data-parallel ranks are an axis, and the padding at the
/// end of a bucket lies within it: what is filled up to, nothing for later ones.
std::optional<Index> flatten(Tensor& bucket) {
    constexpr Index kPart = 128;
    constexpr Index kMostRanks = 1 << 16;
    if (bucket.shape.size() != 2) {
        return std::nullopt;
    }
    const Index ranks = bucket.shape[0];
    const Index length = bucket.shape[1];
    if (ranks > kMostRanks) {
        refuse(ErrorCode::corrupt, "are cut into too many parts: " + printable(bucket.stored_as),
               kOneSaveOrWeights);
    }
    bucket.shape = {checked_mul(ranks, length, "elements of a bucket")};
    for (Piece& piece : bucket.pieces) {
        const layout::Axis part = piece.patch.axes[0];
        layout::Axis range = piece.patch.axes[1];
        if (part.extent != 1) {
            refuse(ErrorCode::unsupported,
                   "have chunks of several ranks: " + printable(bucket.stored_as), kWeightsOnly);
        }
        range.lo += part.lo * length;
        piece.patch.axes = {};
        piece.patch.axes.push_back(range);
    }
    return std::lcm(ranks, kPart);
}

/// The buckets of a state in their places.
Buffers buffers_of(const State& state) {
    constexpr Index kMost = 1 << 16;  // buckets, or groups of ranks
    Buffers buffers;
    std::set<std::string_view> types;
    for (const Tensor& tensor : state.tensors) {
        const auto key = bucket_key(tensor.stored_as);
        if (!key || tensor.shape.size() != 1 || key->bucket >= kMost || key->group >= kMost) {
            refuse(ErrorCode::corrupt,
                   "are no vectors, or too many: " + printable(tensor.stored_as),
                   kOneSaveOrWeights);
        }
        types.insert(key->types);
        auto& buckets = buffers[{key->chain, key->group, key->buffer}];
        const auto at = static_cast<std::size_t>(key->bucket);
        buckets.resize(std::max(buckets.size(), at + 1), nullptr);
        buckets[at] = &tensor;
    }
    if (types.size() > 1) {
        refuse(ErrorCode::unsupported,
               "are of parameters of several types: " + printable(*types.begin()) + " and " +
                   printable(*types.rbegin()),
               kWeightsOnly);
    }
    return buffers;
}

std::string text_of(const BufferId& id) {
    const auto& [chain, group, buffer] = id;
    return "buffer " + std::to_string(buffer) + " of group " + std::to_string(group) +
           (chain < 0 ? "" : " of optimizer " + std::to_string(chain));
}

std::vector<Index> sizes_of(const BufferId& id, const std::vector<const Tensor*>& buckets) {
    std::vector<Index> sizes;
    for (const Tensor* const bucket : buckets) {
        if (bucket == nullptr) {
            refuse(ErrorCode::not_found,
                   "have a gap: bucket " + std::to_string(sizes.size()) + " of " + text_of(id) +
                       " is not there",
                   kOneSaveOrWeights);
        }
        sizes.push_back(bucket->shape.front());
    }
    return sizes;
}

/// A rank's parameters of one buffer, and where they lie in it.
struct PlacedRank {
    BufferId buffer;
    RankParameters rank;
    std::vector<BucketPlace> places;
};

/// How many groups of ranks there are in each optimizer.
std::map<Index, Index> groups_by_chain(const Buffers& buffers) {
    std::map<Index, Index> groups;
    for (const auto& [id, buckets] : buffers) {
        Index& n = groups[std::get<0>(id)];
        n = std::max(n, std::get<1>(id) + 1);
    }
    return groups;
}

/// Finds out which parameters each buffer holds: stages are filled with layers one after the other,
/// as many as their buckets hold.
class BufferContents {
  public:
    /// `padding`: what buckets may have been filled up to a multiple of.
    BufferContents(const Catalogue& model, const Buffers& buffers, Index padding)
        : parameters_(model), buffers_(buffers), padding_(padding) {
        const auto groups = groups_by_chain(buffers);
        dense_ = groups.begin()->first;
        has_expert_buffers_ = groups.size() > 1;
        if (groups.size() > 2 || groups.rbegin()->first - dense_ > 1 || dense_ > 0) {
            refuse(ErrorCode::unsupported,
                   "are of optimizers that are none of dense and expert parameters", kWeightsOnly);
        }
        tp_ = parameters_.n_tensor_ranks();
        require_divides(groups.begin()->second, tp_, "tensor-parallel ranks");
        pp_ = groups.begin()->second / tp_;
        if (has_expert_buffers_) {
            etp_ = std::max(parameters_.n_expert_tensor_ranks(), Index{1});
            require_divides(groups.rbegin()->second, pp_ * etp_, "stages and ranks of an expert");
            ep_ = groups.rbegin()->second / pp_ / etp_;
        }
        require_stated(stated_sizes(model.claims));
        for (const auto& [id, buckets] : buffers) {
            left_[{std::get<0>(id), std::get<1>(id)}].push_back(std::get<2>(id));
        }
    }

    std::vector<PlacedRank> run() {
        std::size_t n_chunks = 0;
        for (const auto& [group, buffers] : left_) {
            n_chunks = group.first == dense_ ? std::max(n_chunks, buffers.size()) : n_chunks;
        }
        const auto vpp = static_cast<Index>(n_chunks);
        for (Index chunk = 0; chunk < vpp; ++chunk) {
            for (Index p = 0; p < pp_; ++p) {
                stage_.has_embedding = chunk == 0 && p == 0;
                stage_.has_head = chunk + 1 == vpp && p + 1 == pp_;
                count_layers(p);
                place_dense(p);
                place_experts(p);
                stage_.first += stage_.count;
            }
        }
        for (const auto& [group, buffers] : left_) {
            if (!buffers.empty()) {
                refuse(ErrorCode::mismatch,
                       "hold more than the model's parameters: " +
                           text_of({group.first, group.second, buffers.front()}) + " is left",
                       kOneSaveOrWeights);
            }
        }
        return std::move(placed_);
    }

  private:
    static void require_divides(Index groups, Index parts, const std::string& what) {
        if (groups % parts != 0) {
            refuse(ErrorCode::mismatch,
                   "are of " + std::to_string(groups) + " groups of ranks, which " +
                       std::to_string(parts) + " " + what + " do not make up",
                   kOneSaveOrWeights);
        }
    }

    void require_stated(const std::map<std::string, Index>& stated) const {
        for (const auto& [name, found] :
             {std::pair("tp", tp_), {"pp", pp_}, {"ep", ep_}, {"etp", etp_}}) {
            auto* const at = find_value(stated, name);
            if (at != nullptr && found != 0 && *at != found) {
                refuse(ErrorCode::mismatch,
                       "are those of " + std::string(name) + " " + std::to_string(found) +
                           ", but args give " + std::to_string(*at),
                       kOneSaveOrWeights);
            }
        }
    }

    /// The first buffer of a group that no chunk has taken yet.
    [[nodiscard]] std::optional<BufferId> next_of(Index chain, Index group) const {
        auto* const at = find_value(left_, {chain, group});
        return at == nullptr || at->empty() ? std::nullopt
                                            : std::optional(BufferId{chain, group, at->front()});
    }

    [[nodiscard]] std::vector<Index> sizes_in(const BufferId& buffer) const {
        return sizes_of(buffer, buffers_.at(buffer));
    }

    [[nodiscard]] RankParameters dense_of(Index tensor_rank) const {
        return parameters_.dense(stage_, {tensor_rank, tp_}, !has_expert_buffers_);
    }

    void count_layers(Index p) {
        const Index most = parameters_.n_layers() - stage_.first;
        stage_.count = most;
        const auto buffer = next_of(dense_, p * tp_);
        if (stage_.has_head) {
            return;  // whatever is left, and what does not fit is named
        }
        const std::vector<Index> sizes = buffer ? sizes_in(*buffer) : std::vector<Index>();
        for (stage_.count = 0; stage_.count < most; ++stage_.count) {
            if (places_in(dense_of(0).parameters, sizes, padding_)) {
                return;
            }
        }
    }

    void place_dense(Index p) {
        for (Index t = 0; t < tp_; ++t) {
            place(dense_, p * tp_ + t, dense_of(t));
        }
    }

    void place_experts(Index p) {
        for (Index e = 0; has_expert_buffers_ && e < ep_; ++e) {
            for (Index x = 0; x < etp_; ++x) {
                place(dense_ + 1, (p * ep_ + e) * etp_ + x,
                      parameters_.experts(stage_, {e, ep_}, {x, etp_}));
            }
        }
    }

    void place(Index chain, Index group, RankParameters rank) {
        if (rank.parts.empty()) {
            return;  // there is no buffer for nothing
        }
        const auto buffer = next_of(chain, group);
        if (!buffer) {
            refuse(ErrorCode::not_found,
                   "are not all there: group " + std::to_string(group) + " has none for " +
                       printable(rank.parameters.front().name),
                   kOneSaveOrWeights);
        }
        auto& left = left_[{chain, group}];
        left.erase(left.begin());
        auto places =
            require_places(rank.parameters, sizes_in(*buffer), text_of(*buffer), padding_);
        placed_.push_back({*buffer, std::move(rank), std::move(places)});
    }

    ModelParameters parameters_;
    const Buffers& buffers_;
    Index padding_;
    Index dense_ = -1;  ///< the optimizer of what is no expert
    bool has_expert_buffers_ = false;
    Index tp_ = 1;
    Index pp_ = 1;
    Index ep_ = 0;  ///< 0: experts have no buffers of their own
    Index etp_ = 0;
    StageLayers stage_;
    /// Buffers that no chunk has taken yet, by optimizer and group.
    std::map<std::pair<Index, Index>, std::vector<Index>> left_;
    std::vector<PlacedRank> placed_;
};

/// Adds what a chunk of a bucket, which begins at element `first` of a part, is of the part's
/// tensor.
void add_chunk(const Piece& chunk, Index first, const RankPart& part, std::vector<Piece>& out) {
    const Index last = first + chunk.patch.axes[0].extent;
    Index before = 0;
    for (const layout::Box& box : part.boxes) {
        const Index volume = layout::dense(box).volume();
        const Index begin = std::max(first - before, Index{0});
        const Index end = std::min(last - before, volume);
        for (layout::Patch& patch :
             begin < end
                 ? layout::flat(box, begin, end, chunk.patch.offset + before + begin - first)
                 : std::vector<layout::Patch>{}) {
            Piece piece = chunk;
            piece.replica = part.replica;
            piece.patch = std::move(patch);
            out.push_back(std::move(piece));
        }
        before += volume;
    }
}

/// Ranges of a bucket: of a parameter, or of padding, which no memory was written to.
using Chunks = std::vector<const Piece*>;

Index begin_of(const Piece* chunk) {
    return chunk->patch.axes[0].lo;
}

/// By where they begin.
Chunks chunks_of(const Tensor* bucket) {
    Chunks chunks = collect_list(bucket->pieces, [](const Piece& piece) { return &piece; });
    std::ranges::sort(chunks, {}, begin_of);
    return chunks;
}

/// Adds the pieces of a parameter, which begins at an element of a bucket with these chunks.
void cut_part(const Tensor& bucket, const Chunks& chunks, Index begin,
              const BucketParameter& parameter, const RankPart& part, std::vector<Piece>& out) {
    const Index end = begin + parameter.volume;
    Index at = begin;
    for (auto next = std::ranges::lower_bound(chunks, begin, {}, begin_of);
         next != chunks.end() && at < end; ++next) {
        const layout::Axis& range = (*next)->patch.axes[0];
        const bool is_run = range.stride == 1 || range.extent == 1;
        if (range.lo != at || range.range().end() > end || !is_run) {
            break;
        }
        add_chunk(**next, at - begin, part, out);
        at += range.extent;
    }
    if (at != end) {
        refuse(ErrorCode::mismatch,
               "have other borders than the parameters: " + printable(parameter.name) +
                   " should be elements " + std::to_string(begin) + " to " + std::to_string(end) +
                   " of " + printable(bucket.stored_as) + ", in which a chunk ends at none of " +
                   std::to_string(at) + " to " + std::to_string(end),
               kWeightsOnly);
    }
}

/// The tensors of a state, in the model's order and shapes.
std::vector<Tensor> tensors_of(const Catalogue& model, const Buffers& buffers,
                               const std::vector<PlacedRank>& placed) {
    std::map<std::string_view, Tensor> by_name;
    for (const PlacedRank& one : placed) {
        const auto& buckets = buffers.at(one.buffer);
        const std::vector<Chunks> chunks = collect_list(buckets, chunks_of);
        for (const std::size_t i : indices(one.places)) {
            const std::size_t at = one.places[i].bucket;
            const Tensor& bucket = *buckets[at];
            const Tensor& whole = *one.rank.parts[i].tensor;
            Tensor& tensor = by_name[whole.name];
            tensor.dtype = bucket.dtype;
            cut_part(bucket, chunks[at], one.places[i].begin, one.rank.parameters[i],
                     one.rank.parts[i], tensor.pieces);
        }
    }
    std::vector<Tensor> tensors;
    for (const Tensor& whole : model.tensors) {
        auto* const at = find_value(by_name, whole.name);
        if (at != nullptr) {
            tensors.push_back(std::move(*at));
            tensors.back().name = whole.name;
            tensors.back().shape = whole.shape;
        }
    }
    return tensors;
}

bool has_buckets(const State& state) {
    return !state.tensors.empty() && bucket_key(state.tensors.front().stored_as);
}

/// Buckets of the same places and sizes; Error naming one that another state has not.
void require_same(const Buffers& first, const State& state, const Buffers& buffers) {
    for (const auto& [id, buckets] : first) {
        auto* const other = find_value(buffers, id);
        if (other == nullptr || sizes_of(id, *other) != sizes_of(id, buckets)) {
            refuse(ErrorCode::mismatch,
                   "are not the same in all states: those of " + text_of(id) + " differ in " +
                       state.name,
                   kOneSaveOrWeights);
        }
    }
}

}  // namespace

std::optional<BucketKey> bucket_key(std::string_view key) {
    const auto chain =
        key.starts_with("chained_") ? take_number("chained_", key) : std::optional(Index{-1});
    const auto group =
        chain ? take_number("optimizer.distributed.dp_group_idx_", key) : std::nullopt;
    const auto buffer = group ? take_number("gbuf_idx_", key) : std::nullopt;
    const auto types = buffer ? take_word("dtype_", ".bucket_idx_", key) : std::nullopt;
    const auto bucket = types ? take_number("", key) : std::nullopt;
    if (!bucket || key.empty() || has_part(key, '.')) {
        return std::nullopt;
    }
    return BucketKey{*chain, *group, *buffer, *types, *bucket, key};
}

void carve_buckets(Catalogue& catalogue) {
    auto& states = catalogue.optimizer.states;
    auto* const first = find_where(states, has_buckets);
    if (first == nullptr) {
        return;
    }
    Index padding = kAlignment;
    for (State& state : states) {
        for (Tensor& bucket : state.tensors) {
            padding = flatten(bucket).value_or(padding);
        }
    }
    const Buffers of_first = buffers_of(*first);
    const std::vector<PlacedRank> placed = BufferContents(catalogue, of_first, padding).run();
    std::vector<std::vector<Tensor>> carved;
    for (const State& state : states) {
        const Buffers buffers = buffers_of(state);
        require_same(of_first, state, buffers);
        carved.push_back(tensors_of(catalogue, buffers, placed));
    }
    for (const std::size_t i : indices(states)) {
        states[i].tensors = std::move(carved[i]);
    }
    catalogue.optimizer.is_ordered = true;
    if (catalogue.optimizer.form.empty()) {
        catalogue.optimizer.form =
            padding == kAlignment ? "dp_reshardable" : "fully_sharded_bucket_space";
    }
    catalogue.optimizer.doubt = kUnnamedParameters;
}

}  // namespace shardweld::formats::megatron
