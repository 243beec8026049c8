// One rank's data under two ranks' names.
// Knows the checksums that torch's archives state; reads no tensor.
#pragma once

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::formats::fsdp {

/// Error(mismatch) naming two files that hold different parts of the same tensors, but equal bytes
/// for all of them. Models of constants, and files whose archives state no CRC-32, pass. Pure.
void refuse_copies(const catalogue::Catalogue& catalogue);

}  // namespace shardweld::formats::fsdp
