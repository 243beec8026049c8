#include "moment_signs.hpp"

#include <algorithm>
#include <cstring>

#include "catalogue/optimizer.hpp"
#include "mpi/share.hpp"
#include "plan/plan.hpp"

namespace shardweld::execute {

namespace {

MomentSigns::Count signs_in(ByteView fp32) {
    MomentSigns::Count count;
    for (std::size_t at = 0; at + sizeof(float) <= fp32.size(); at += sizeof(float)) {
        float value = 0;
        std::memcpy(&value, fp32.data() + at, sizeof(float));
        count.negative += value < 0 ? 1 : 0;
        count.positive += value > 0 ? 1 : 0;
    }
    return count;
}

}  // namespace

bool MomentSigns::is_needed() const {
    return std::ranges::any_of(plan_.targets, [](const plan::Target& target) {
        return target.state.text() == catalogue::kMoment ||
               target.state.text() == catalogue::kSquaredMoment;
    });
}

void MomentSigns::add(const plan::Slice& slice, ByteView bytes) {
    const plan::Target& target = plan_.target_of(slice.tensor);
    if (target.dtype != DType::f32) {
        return;
    }
    if (target.state.text() == catalogue::kMoment) {
        const Count count = signs_in(bytes);
        found_.moments.negative += count.negative;
        found_.moments.positive += count.positive;
    } else if (target.state.text() == catalogue::kSquaredMoment) {
        if (const Index n = signs_in(bytes).negative; n > 0) {
            found_.below_zero[slice.tensor] += n;
        }
    }
}

MomentSigns::Found MomentSigns::gather(mpi::Comm& comm) const {
    Found all;
    for (const Found& part : mpi::gather(comm, found_)) {
        all.moments.negative += part.moments.negative;
        all.moments.positive += part.moments.positive;
        for (const auto& [tensor, n] : part.below_zero) {
            all.below_zero[tensor] += n;
        }
    }
    return all;
}

}  // namespace shardweld::execute
