#include "moment_signs.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "catalogue/optimizer.hpp"
#include "plan/plan.hpp"

namespace shardweld::execute {

namespace {

struct BelowZero {
    std::uint32_t tensor = 0;
    Index n_elements = 0;
};

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

template <typename T>
std::vector<T> values_in(ByteView bytes) {
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) {
        std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
    }
    return values;
}

}  // namespace

bool MomentSigns::is_needed() const {
    return std::ranges::any_of(plan_.targets, [](const plan::Target& target) {
        return target.state == catalogue::kMoment || target.state == catalogue::kSquaredMoment;
    });
}

void MomentSigns::add(const plan::Slice& slice, ByteView bytes) {
    const plan::Target& target = plan_.target_of(slice.tensor);
    if (target.dtype != DType::f32) {
        return;
    }
    if (target.state == catalogue::kMoment) {
        const Count count = signs_in(bytes);
        found_.moments.negative += count.negative;
        found_.moments.positive += count.positive;
    } else if (target.state == catalogue::kSquaredMoment) {
        if (const Index n = signs_in(bytes).negative; n > 0) {
            found_.below_zero[slice.tensor] += n;
        }
    }
}

MomentSigns::Found MomentSigns::gather(mpi::Comm& comm) const {
    std::vector<BelowZero> own;
    for (const auto& [tensor, n] : found_.below_zero) {
        own.push_back({tensor, n});
    }
    Found all;
    for (const auto& bytes : comm.all_gather(std::as_bytes(std::span(own)))) {
        for (const BelowZero& one : values_in<BelowZero>(bytes)) {
            all.below_zero[one.tensor] += one.n_elements;
        }
    }
    for (const auto& bytes : comm.all_gather(std::as_bytes(std::span(&found_.moments, 1)))) {
        for (const Count& one : values_in<Count>(bytes)) {
            all.moments.negative += one.negative;
            all.moments.positive += one.positive;
        }
    }
    return all;
}

}  // namespace shardweld::execute
