// What the options say about the output directory.
#pragma once

#include "app/runtime/stop.hpp"
#include "app/settings/options.hpp"
#include "app/survey/search_path.hpp"
#include "publish/target.hpp"

namespace shardweld::app {

/// The target, and every directory that is read.
inline publish::TargetRequest target_request(const Options& options) {
    publish::TargetRequest request{options.target_dir, {options.local_dir}, options.overwrite,
                                   !options.restart,   job_name(),          job_restarts()};
    const Averaging& averaging = options.averaging;
    request.inputs.insert(request.inputs.end(), averaging.others.begin(), averaging.others.end());
    for (const auto& input : {options.hf_config, options.base, averaging.base}) {
        if (input) {
            request.inputs.push_back(*input);
        }
    }
    return request;
}

/// Local, one rank, before files are made in `directory`, for every command that writes: sets the
/// striping of --stripe. Error(unsupported) when it was asked for and cannot be done.
inline void stripe(const fs::path& directory, const Options& options) {
    if (options.striping) {
        publish::set_striping(directory, *options.striping, search_path());
    }
}

}  // namespace shardweld::app
