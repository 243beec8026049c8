// What each rank of a run trains, in the order of its modules, told from the keys and chunks of a
// distributed checkpoint: every rank saved its part of a tensor as one chunk, or as two where
// [gate; up] is one tensor.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "formats/catalogue_words.hpp"
#include "layout/box.hpp"

#include "buckets.hpp"

namespace shardweld::formats::megatron {

/// A rank's part of a tensor: boxes of it, the elements of which follow each other.
struct RankPart {
    const Tensor* tensor = nullptr;
    std::vector<layout::Box> boxes;
    std::uint32_t replica = 0;  ///< 0: no other rank before this one has it
};

/// What one rank trains of a stage, both lists alike.
struct RankParameters {
    std::vector<BucketParameter> parameters;
    std::vector<RankPart> parts;
};

/// Which layers a stage has, and what it has beside them.
struct StageLayers {
    Index first = 0;
    Index count = 0;
    bool has_embedding = false;
    bool has_head = false;
};

/// A rank's place among `ranks` that cut tensors between them.
struct Among {
    Index rank = 0;
    Index ranks = 1;
};

/// The parameters of a model by layers.
class ModelParameters {
  public:
    /// `model` must outlive it. Error(unsupported) naming a tensor whose place among the
    /// parameters is not known.
    explicit ModelParameters(const Catalogue& model);

    [[nodiscard]] Index n_layers() const { return std::ssize(layers_); }
    /// How many ranks cut what is no expert: as many as cut the embedding's rows.
    [[nodiscard]] Index n_tensor_ranks() const;
    /// How many ranks cut an expert; 0: there are none.
    [[nodiscard]] Index n_expert_tensor_ranks() const;

    /// What a rank trains in one buffer, experts not, unless `with_experts`: all of them.
    [[nodiscard]] RankParameters dense(const StageLayers& stage, Among tensor,
                                       bool with_experts) const;
    /// The experts of one of the expert-parallel ranks.
    [[nodiscard]] RankParameters experts(const StageLayers& stage, Among expert,
                                         Among tensor) const;

  private:
    /// Boxes by the layer and expert that they are of, in their order; -1: of none.
    using Boxes = std::map<std::pair<Index, Index>, std::vector<layout::Box>>;
    struct StoredParameter {
        const Tensor* tensor = nullptr;
        Index place = 0;          ///< parameter_order.hpp
        bool is_stacked = false;  ///< layers are its first axis
        bool is_expert = false;   ///< experts are the next one
        Boxes boxes = {};
    };
    using Layer = std::vector<const StoredParameter*>;

    static Boxes boxes_of(const StoredParameter& stored);
    void add(const Tensor& tensor);
    void add_to(const StoredParameter& stored, Index layer);
    void add_layers(const StageLayers& stage, Among tensor, bool with_experts,
                    RankParameters& out) const;
    void add_experts(const Layer& layer, Index number, Among expert, Among tensor,
                     RankParameters& out) const;
    [[nodiscard]] const StoredParameter* around(std::string_view name) const;

    std::vector<StoredParameter> stored_;
    std::vector<Layer> layers_;
    Layer around_;                     ///< what stands outside of layers
    bool has_grouped_experts_ = true;  ///< all first matrices before all second ones
};

}  // namespace shardweld::formats::megatron
