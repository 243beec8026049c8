// Re-reads a model that was written against the format's rules, its index and its report.
#pragma once

#include <string>
#include <vector>

#include "app/compare/written_model.hpp"
#include "app/messages/log.hpp"
#include "app/settings/options.hpp"
#include "mpi/comm.hpp"

namespace shardweld::app {

/// What was found to be in order, or not.
struct Findings {
    WrittenModel model;
    bool has_report = false;
    std::size_t n_hashed = 0;  ///< files of which the SHA-256 was compared
    std::string root;
    std::vector<std::string> differences;
};

/// Collective. Looks at the model `options.local_dir`; with `options.report` at all tensors, too,
/// against their checksums. Error(corrupt) or Error(not_found) listing the rules broken.
Findings verify_model(mpi::Comm& comm, const Options& options, Log& log);

}  // namespace shardweld::app
