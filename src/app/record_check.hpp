// --check_crc: the checksums that torch writes beside its records, held against their bytes.
// Knows catalogues, files and ranks; nothing of models.
#pragma once

#include <string>
#include <vector>

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/execute/run.hpp"
#include "shardweld/mpi/free_run.hpp"
#include "shardweld/plan/plan.hpp"

namespace shardweld::app {

/// The record of one storage, which may hold several tensors or parts of some.
struct CheckedRecord {
    std::uint32_t file = 0;  ///< index into the catalogue's files
    std::uint32_t crc32 = 0;
    Bytes offset = 0;  ///< in the file
    Bytes bytes = 0;
    std::string tensor;  ///< one that lies in it
};

struct CheckedRecords {
    std::vector<CheckedRecord> records;  ///< in file order, each once
    std::size_t n_without = 0;           ///< that state no checksum, or lie in formats without any
};

/// The records of all tensors that a merge may read. 0 is no checksum
/// (torch.serialization.set_crc32_options(False)). Pure.
CheckedRecords checked_records(const catalogue::Catalogue& catalogue);

/// What came of them, for people.
std::string text_of(const CheckedRecords& checked, Bytes bytes);

/// Collective. Each record is read once, by one rank that sees its file; ranks share the bytes
/// evenly. Returns the bytes read by all. Error(corrupt) naming file, record and tensor of the
/// first one that is wrong, Error(stopped).
Bytes check_records(mpi::Comm& comm, const std::vector<CheckedRecord>& records,
                    const execute::Source& source, const plan::Visibility& visibility,
                    const mpi::WhyStop& why_stop);

}  // namespace shardweld::app
