// --check_crc: the checksums that torch writes beside its records, held against their bytes.
// Knows catalogues, files and what came of a check; nothing of models.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "shardweld/execute/record_check.hpp"

#include "../cli/options.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

namespace fs = std::filesystem;

/// The sums of a directory's records, none of them wanted yet.
std::shared_ptr<execute::RecordSums> record_sums(const fs::path& directory,
                                                 const catalogue::Catalogue& catalogue);

/// What came of them, for people; "" where there is nothing to tell.
std::string text_of(const execute::RecordCounts& counts, CheckCrc when);

}  // namespace shardweld::app
