// Rows that `.metadata` places where they are not. FSDP2 cuts what tensor parallelism left on a
// rank, DTensor computes another cut of it where tensor parallelism does not divide the rows, and
// the index has the latter: some ranks are said to have a row and have none, others the other way
// round. Seen with torch 2.15; torch itself saves it without a word and cannot load it.
#pragma once

#include <string>
#include <vector>

#include "formats/catalogue_words.hpp"
#include "formats/containers/dcp_metadata.hpp"
#include "formats/format.hpp"

namespace shardweld::formats::dcp {

/// The stored tensor with its chunks as pieces (dcp_pieces.hpp). Where a chunk that is said to have
/// no elements has some, all of the tensor's are opened, and those that lie elsewhere are placed if
/// their shapes leave one way to do so; `placed` then gets the tensor's name. Local.
/// Error(mismatch) where they leave none, or several.
Tensor tensor_as_stored(const Location& location, const DcpMetadata& metadata,
                        const DcpTensor& stored, std::vector<std::string>& placed);

/// What is said of the tensors that were placed so.
std::string placed_text(const std::vector<std::string>& placed);

}  // namespace shardweld::formats::dcp
