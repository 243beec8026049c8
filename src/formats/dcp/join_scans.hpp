// Catalogues of single files put together to that of a checkpoint.
// Knows nothing of file formats and names.
#pragma once

#include <string>
#include <vector>

#include "catalogue/catalogue.hpp"

namespace shardweld::formats::dcp {

/// Whether each scan states a tensor's whole shape, or only that it reaches so far.
enum class Shapes { stated, reached };

/// One catalogue of all scans. Tensors of one name become one; the same box in different files is
/// stored again: a replica. Error(mismatch) naming the tensor when dtypes or stated shapes differ.
catalogue::Catalogue join(std::vector<catalogue::Catalogue> scans, Shapes shapes);

/// Checks that each tensor's pieces cover it once; Error(corrupt) when not. With a `missing_hint`
/// of what may be the reason, too few elements are Error(not_found).
void require_complete(const catalogue::Catalogue& catalogue, const std::string& missing_hint);

/// The numbers (in any order, some more than once) are `first`, first + 1... Error(not_found)
/// naming those left out as `before` N `after`.
void require_all_numbers(std::vector<Index> numbers, Index first, const std::string& before,
                         const std::string& after);

}  // namespace shardweld::formats::dcp
