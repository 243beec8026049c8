// What torch.distributed.checkpoint's index says: chunks as pieces of a catalogue, and statements
// of the save and of its files.
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

/// Checks that the primary pieces cover the tensor exactly once. Error(corrupt) naming the tensor
/// and the chunk or place where two overlap or none is; Error(unsupported) for large irregular
/// tilings.
void check_tiling(const catalogue::Tensor& tensor);

/// The iteration in the name of the directory that was saved to, if it has one. `index`: the file
/// that says so.
void add_save_name(const std::string& checkpoint_id, const std::string& index,
                   catalogue::Catalogue& out);

/// States of each file that its items are in the index, and what tells them from those of others:
/// they are held against the index when they are opened, and a file that has others in their places
/// is refused then.
void add_likenesses(const std::string& index, catalogue::Catalogue& out);

}  // namespace shardweld::formats
