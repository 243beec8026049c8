// Chunks of torch.distributed.checkpoint as pieces of a catalogue.
// Knows how the two correspond; nothing of names.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "catalogue/tensor.hpp"
#include "formats/containers/dcp_metadata.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::formats {

/// Bytes of the tensor's chunks as stored.
Bytes stored_bytes(const DcpTensor& tensor);

/// The tensor with its chunks as unlocated pieces, empty ones left out; name and stored_as are the
/// index's. `views`: the index's, with which pieces have their strides already.
catalogue::Tensor tensor_of(const DcpTensor& stored, const std::vector<StoredTensor>& views = {});

/// Gives the catalogue those of `files`, which its pieces are numbered by, that pieces lie in, and
/// renumbers the pieces accordingly. `ends`, if any, are the sizes that the files must have.
void keep_used_files(std::vector<std::string> files, catalogue::Catalogue& out,
                     const std::vector<Bytes>& ends = {});

/// Checks that the primary pieces cover the tensor exactly once; errors as check_tiling's.
void check_tiling(const catalogue::Tensor& tensor);

}  // namespace shardweld::formats
