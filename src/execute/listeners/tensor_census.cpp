#include "tensor_census.hpp"

#include "mpi/share.hpp"
#include "plan/plan.hpp"

namespace shardweld::execute {

namespace {

bool is_remarkable(const numeric::Census& census) {
    return census.n_nan > 0 || census.n_inf > 0 || census.is_constant || census.is_mostly_zero();
}

}  // namespace

void TensorCensus::add(const plan::Slice& slice, ByteView bytes) {
    const DType dtype = plan_.tensor(slice.tensor).dtype;
    if (numeric::is_counted(dtype)) {
        add(slice, numeric::take_census(dtype, bytes));
    }
}

void TensorCensus::add(const plan::Slice& slice, const numeric::Census& census) {
    if (slice.tensor != current_.tensor) {
        keep(current_);
        current_ = {slice.tensor, {}};
    }
    current_.census.add(census);
}

/// A whole tensor with nothing remarkable is forgotten; a part may still become remarkable.
void TensorCensus::keep(const CensusPart& part) {
    const numeric::Census& census = part.census;
    const bool is_part = census.n_elements < plan_.tensor(part.tensor).volume();
    if (census.n_elements > 0 && (is_part || is_remarkable(census))) {
        parts_.push_back(part);
    }
}

std::map<std::uint32_t, numeric::Census> TensorCensus::gather(mpi::Comm& comm) {
    keep(current_);
    current_ = {};
    std::map<std::uint32_t, numeric::Census> found;
    for (const CensusPart& part : mpi::gather_all(comm, parts_)) {
        found[part.tensor].add(part.census);
    }
    std::erase_if(found, [](const auto& entry) { return !is_remarkable(entry.second); });
    return found;
}

}  // namespace shardweld::execute
