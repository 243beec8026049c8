// What the command line says about the output directory.
#pragma once

#include "shardweld/publish/target.hpp"

#include "../runtime/stop.hpp"
#include "../settings/options.hpp"

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

}  // namespace shardweld::app
