#include "run_end.hpp"

#include <nlohmann/json.hpp>

#include "app/runtime/stop.hpp"
#include "app/runtime/version.hpp"
#include "core/system.hpp"

#include "report_json.hpp"

namespace shardweld::app {

void write_run_end(const fs::path& path, std::string_view command, int code,
                   const std::string& figures) {
    nlohmann::ordered_json json = {{"command", command},  {"code", code},
                                   {"figures", figures},  {"version", version()},
                                   {"host", host_name()}, {"time", utc_now()}};
    if (const std::string job = job_name(); !job.empty()) {
        json["job"] = job;
        json["step"] = variable("SLURM_STEP_ID").value_or("");
        json["restarts"] = job_restarts();
    }
    write_json(json_text(json), path, false);
}

}  // namespace shardweld::app
