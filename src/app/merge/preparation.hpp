// Everything about a merge that is known, and known to go wrong, before the first byte is written:
// alike for merge and plan. Knows the order of the checks; the rules are those of the parts.
#pragma once

#include <functional>
#include <optional>

#include "app/report/roof.hpp"
#include "upload/upload.hpp"

#include "main_path.hpp"
#include "preflight.hpp"
#include "target_room.hpp"

namespace shardweld::app {

struct Preparation {
    std::optional<Sources> sources;  ///< nullopt: there is nothing to read
    bool has_least_room = true;      ///< no less than what file sizes tell
    Planned planned;
    std::vector<FilesBeside> beside;   ///< of the first output, then of the others
    std::optional<MeasuredRoof> roof;  ///< on the first rank
    upload::Access access;             ///< the same
};

/// How a merge goes the main path; `crew` as in Terms.
Terms merge_terms(const Options& options, std::optional<Crew> crew = {});

/// Collective. What can be checked before the checkpoint's metadata are read: target, report, roof,
/// upload, whether there is a checkpoint, its model's files, and room as far as sizes tell.
/// `log` is told of doubts about the roof. `has_target`: there will be one.
void check_before_reading(Session& session, Preflight& preflight, Preparation& ready,
                          bool has_target, int n_ranks, Log& log);

/// Collective. Whether there is room and right for what is planned at the target.
void check_target_place(Session& session, Preflight& preflight, Preparation& ready);

}  // namespace shardweld::app
