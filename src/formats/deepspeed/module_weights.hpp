// The module's own weights, against which the fp32 masters in the partitions of ZeRO-1 and 2 are
// held. ZeRO-3 has none.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/index.hpp"
#include "formats/catalogue_words.hpp"

#include "file_names.hpp"
#include "model_rank.hpp"

namespace shardweld::formats::deepspeed {

class ModuleWeights {
  public:
    /// A tensor of the file `in`, which is the parameter `name`, or none.
    void add(const std::string& name, const FileName& in, const Tensor& tensor);

    /// Adds samples of a parameter's master on model-parallel rank `mp`, one for each data-parallel
    /// rank that has a part of it; where no weight is known, its name. Error(mismatch) for a weight
    /// of another shape.
    void add_master_samples(Index mp, Index n_tensor_ranks, const ModelRank::Located& master,
                            Catalogue& out) const;

  private:
    struct Weight {
        ElementPlace place;
        std::vector<Index> shape;
    };
    /// Whether a layer's file has it, whose number is the tensor-parallel rank's; the rank.
    using Key = std::tuple<std::string, bool, Index>;

    std::multimap<Key, Weight> weights_;
};

}  // namespace shardweld::formats::deepspeed
