#include "buckets.hpp"

#include <utility>

#include "core/text.hpp"
#include "formats/shared/hints.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::megatron {

namespace {

Index aligned(Index position) {
    return (position + kAlignment - 1) / kAlignment * kAlignment;
}

/// Fills buckets of known sizes.
struct Filling {
    std::vector<BucketPlace> places;
    std::size_t n_placed = 0;  ///< from the last parameter on
    std::size_t bucket = 0;    ///< the first that is not full
    Index used = 0;            ///< of that bucket
};

Filling fill(std::span<const BucketParameter> parameters, const std::vector<Index>& sizes,
             Index padding) {
    Filling filling;
    filling.places.resize(parameters.size());
    const auto is_full = [&](Index size) {
        const Index left = size - filling.used;
        return filling.used > 0 && (left == 0 || (left < padding && size % padding == 0));
    };
    for (; filling.bucket < sizes.size(); ++filling.bucket, filling.used = 0) {
        const Index size = sizes[filling.bucket];
        while (filling.n_placed < parameters.size()) {
            const std::size_t i = parameters.size() - 1 - filling.n_placed;
            const Index begin = aligned(filling.used);
            if (parameters[i].volume > size - begin) {
                break;
            }
            filling.places[i] = {filling.bucket, begin};
            filling.used = begin + parameters[i].volume;
            ++filling.n_placed;
        }
        if (!is_full(size)) {
            break;
        }
    }
    return filling;
}

bool is_whole(const Filling& filling, std::span<const BucketParameter> parameters,
              const std::vector<Index>& sizes) {
    return filling.n_placed == parameters.size() && filling.bucket == sizes.size();
}

}  // namespace

std::vector<Index> bucket_sizes(std::span<const BucketParameter> parameters,
                                std::optional<Index> closing) {
    std::vector<Index> sizes;
    Index used = 0;
    const auto close = [&](Index size) {
        sizes.push_back(size);
        used = 0;
    };
    for (std::size_t i = parameters.size(); i-- > 0;) {
        const BucketParameter& parameter = parameters[i];
        if (parameter.is_shared && used > 0) {
            close(aligned(used));
        }
        used = aligned(used) + parameter.volume;
        if (parameter.is_shared || (closing && used >= *closing)) {
            close(used);
        }
    }
    if (used > 0) {
        close(used);
    }
    return sizes;
}

std::optional<std::vector<BucketPlace>> places_in(std::span<const BucketParameter> parameters,
                                                  const std::vector<Index>& sizes, Index padding) {
    Filling filling = fill(parameters, sizes, padding);
    return is_whole(filling, parameters, sizes) ? std::optional(std::move(filling.places))
                                                : std::nullopt;
}

std::vector<BucketPlace> require_places(std::span<const BucketParameter> parameters,
                                        const std::vector<Index>& sizes, const std::string& where,
                                        Index padding) {
    Filling filling = fill(parameters, sizes, padding);
    if (is_whole(filling, parameters, sizes)) {
        return std::move(filling.places);
    }
    const bool has_more = filling.n_placed < parameters.size();
    const std::string next =
        has_more ? printable(parameters[parameters.size() - 1 - filling.n_placed].name) + " with " +
                       std::to_string(parameters[parameters.size() - 1 - filling.n_placed].volume) +
                       " elements does not end there"
                 : std::string("no parameter is left for it");
    const std::string bucket = filling.bucket < sizes.size()
                                   ? "bucket " + std::to_string(filling.bucket) + " has " +
                                         std::to_string(sizes[filling.bucket]) +
                                         " elements, of which " + std::to_string(filling.used) +
                                         " are taken"
                                   : "all its buckets are full";
    throw Error(ErrorCode::mismatch,
                "the optimizer's state does not fit the parameters in " + where + ": " + bucket +
                    ", and " + next,
                "the run may have frozen or added parameters; take the weights alone with --state "
                "weights");
}

}  // namespace shardweld::formats::megatron
