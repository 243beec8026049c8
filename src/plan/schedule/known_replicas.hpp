// What is known of replicas without reading them.
// Pure; knows targets and records.
#pragma once

#include "shardweld/catalogue/records.hpp"
#include "shardweld/plan/binding.hpp"

namespace shardweld::plan {

/// Takes out the target's replicas that lie in a record as the original lies in its own, both of
/// one size and with one checksum: they are equal. False when for another such replica the
/// checksums differ: something in the records does, perhaps nothing of the target's.
bool drop_equal(Target& target, const catalogue::Records& records);

}  // namespace shardweld::plan
