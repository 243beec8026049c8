#include "shardweld/plan/footprint.hpp"

namespace shardweld::plan {

namespace {

/// What a string or a vector holds on the heap.
template <typename Container>
Bytes held(const Container& container) {
    return container.capacity() * sizeof(typename Container::value_type);
}

Bytes held_by(const Target& target) {
    return held(target.name) + held(target.shape) + held(target.operands) + held(target.replicas) +
           held(target.source) + held(target.file);
}

}  // namespace

Bytes metadata_bytes(const Plan& plan) {
    Bytes bytes = held(plan.targets) + held(plan.line.order) + held(plan.line.begins) +
                  held(plan.placement.slots) + held(plan.cuts) + held(plan.read_cuts);
    for (const Target& target : plan.targets) {
        bytes += held_by(target);
    }
    for (const outputs::OutputFile& file : plan.placement.files) {
        bytes += held(file.header) + held(file.tensors);
    }
    constexpr Bytes kBitsOfByte = 8;
    for (const std::vector<bool>& sees : plan.visibility.group_sees) {
        bytes += sees.capacity() / kBitsOfByte;
    }
    return bytes;
}

}  // namespace shardweld::plan
