// What torch.distributed.checkpoint's index says: chunks as pieces of a catalogue, and statements
// of the save and of its files.
#pragma once

#include <string>
#include <vector>

#include "formats/catalogue_words.hpp"
#include "formats/containers/dcp_metadata.hpp"
#include "formats/rank_grid.hpp"

#include "assembler.hpp"
#include "dcp_blobs.hpp"

namespace shardweld::formats {

/// Bytes of the tensor's chunks as stored.
Bytes stored_bytes(const DcpTensor& tensor);

/// The tensor with its chunks as unlocated pieces, empty ones left out; name and stored_as are the
/// index's. `views`: the index's, with which pieces have their strides already.
Tensor tensor_of(const DcpTensor& stored, const std::vector<StoredTensor>& views = {});

/// Checks that the primary pieces cover the tensor exactly once. Error(corrupt) naming the tensor
/// and the chunk or place where two overlap or none is; Error(unsupported) for large irregular
/// tilings. `fault`: what find_cover_fault says of it.
void check_tiling(const Tensor& tensor);
void check_tiling(const Tensor& tensor, const CoverFault& fault);

ObjectPlace place_of(const DcpObject& object, const DcpMetadata& metadata);

/// Gives the catalogue those of the index's files, by which its pieces are numbered, that pieces
/// lie in, and an ignored row for each of `shards` that the index does not name.
void take_files(const Location& location, const std::vector<std::string>& shards,
                std::vector<File> files, Catalogue& out);

/// Makes one row of those, with a warning `unreferenced_files` that names the files. Pure.
void tell_unnamed(Catalogue& catalogue);

/// Format::ranks of "__RANK_PART.distcp": any rank may have written any number of parts, also none.
RankGrid part_grid(const RankFiles& files);

/// The iteration in the name of the directory that was saved to, if it has one. `index`: the file
/// that says so.
void add_save_name(const std::string& checkpoint_id, const std::string& index, Catalogue& out);

/// States of each file that its items are in the index, and what tells them from those of others:
/// they are held against the index when they are opened, and a file that has others in their places
/// is refused then.
void add_likenesses(const std::string& index, Catalogue& out);

}  // namespace shardweld::formats
