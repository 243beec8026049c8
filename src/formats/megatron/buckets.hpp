// Where parameters lie in the buckets of a distributed optimizer's buffer. Sources: megatron-core
// 0.12.2 and 0.16.1 megatron/core/distributed/param_and_grad_buffer.py, 0.19.2
// megatron/core/optimizer/{distrib_optimizer,param_layout}.py (_compute_per_buffer_param_layout).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/index.hpp"

namespace shardweld::formats::megatron {

/// What is doubtful of states whose parameters are told by their order.
inline constexpr const char* kUnnamedParameters =
    "the save does not name what its states belong to, and modules that are built in another order "
    "or frozen change the order of parameters";

/// A parameter of a rank: buffers are filled from the last one to the first.
struct BucketParameter {
    std::string name;
    Index volume = 0;
    /// Held by two stages: word embedding and head of tied models. It has a bucket of its own.
    bool is_shared = false;
};

struct BucketPlace {
    std::size_t bucket = 0;
    Index begin = 0;  ///< element of the bucket
};

/// The buckets' sizes without the padding at their ends. `closing`: the size at which a bucket
/// is closed; nullopt: where nothing else closes one, there is one.
std::vector<Index> bucket_sizes(std::span<const BucketParameter> parameters,
                                std::optional<Index> closing);

/// Parameters begin at multiples of this many elements.
inline constexpr Index kAlignment = 64;

/// The place of each parameter, if buckets of these sizes, which may have been filled up to a
/// multiple of `padding`, hold the parameters and nothing else; nullopt where not.
std::optional<std::vector<BucketPlace>> places_in(std::span<const BucketParameter> parameters,
                                                  const std::vector<Index>& sizes,
                                                  Index padding = kAlignment);

/// The place of each parameter. Error(mismatch) naming the one that does not fit; `where` says what
/// it should lie in: "buffer 0 of group 1".
std::vector<BucketPlace> require_places(std::span<const BucketParameter> parameters,
                                        const std::vector<Index>& sizes, const std::string& where,
                                        Index padding = kAlignment);

}  // namespace shardweld::formats::megatron
