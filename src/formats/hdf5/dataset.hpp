// A dataset as part of a tensor. Convention: docs/formats/hdf5.md.
#pragma once

#include "formats/catalogue_words.hpp"

#include "lister.hpp"

namespace shardweld::formats::hdf5 {

/// The tensor with its one piece (of file 0); without a piece when the dataset is empty.
/// Error(unsupported) for datasets that are not contiguous, for links, more than 8 axes and other
/// element types; Error(corrupt) when attributes contradict the dataset or it lies outside the
/// file; Error(not_found) when it was never written.
Tensor tensor_of(const Dataset& dataset, Bytes file_size);

/// Whether its numbers may be another type's: bf16 and others are stored as unsigned integers, and
/// the attribute that says so is absent.
bool may_be_disguised(const Dataset& dataset);

}  // namespace shardweld::formats::hdf5
