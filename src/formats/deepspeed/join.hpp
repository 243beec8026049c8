// The files of one ZeRO checkpoint put together. Opens nothing.
#pragma once

#include <vector>

#include "catalogue/catalogue.hpp"

#include "scan.hpp"

namespace shardweld::formats::deepspeed {

/// Where the weights are taken from.
enum class Weights {
    model,    ///< the module's tensors
    master,   ///< flat partitions, in fp32
    rounded,  ///< flat partitions, to be written in the module's dtype
};

/// Tensors of all ranks' scans. Error(not_found) naming files and what is lost with them,
/// Error(mismatch) for files that contradict each other, Error(unsupported) for parts that nothing
/// says how to join. Pure.
void join_files(std::vector<FileScan> scans, Weights weights, catalogue::Catalogue& out);

}  // namespace shardweld::formats::deepspeed
