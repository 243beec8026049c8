#include "then.hpp"

#include <array>
#include <cerrno>
#include <optional>
#include <vector>

#include "core/system.hpp"
#include "core/text.hpp"
#include "process/process.hpp"
#include "publish/report_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app::watching {

namespace {

/// By which a launcher tells its processes that they are ranks: the command is none, and may be an
/// MPI program itself.
const std::vector<std::string> kOfRanks = {
    "OMPI_COMM_", "OMPI_UNIVERSE", "OMPI_APP_", "OMPI_NUM_",    "OMPI_FIRST_",
    "OMPI_FILE_", "PMIX_",         "PMI_",      "PRTE_",        "HYDRA_",
    "MPI_LOCAL",  "MPIEXEC_",      "PALS_",     "SLURM_PROCID", "SLURM_LOCALID"};

std::optional<fs::path> program_of(const std::string& name) {
    if (name.find('/') == std::string::npos) {
        return process::find_program(name, variable("PATH").value_or(""));
    }
    return process::is_program(name) ? std::optional(fs::absolute(name)) : std::nullopt;
}

std::vector<std::string> words_of(const WatchRequest& request) {
    return request.has_shell ? std::vector<std::string>{"/bin/sh", "-c", request.then}
                             : process::words_of(request.then).value();
}

std::string fault_of(const std::optional<process::Ending>& ending) {
    if (!ending) {
        return "cannot be started: " + text_of_errno(errno);
    }
    if (ending->signal) {
        return "was ended by signal " + std::to_string(*ending->signal);
    }
    return ending->is_success()
               ? ""
               : "ended with exit code " + std::to_string(ending->code.value_or(-1));
}

}  // namespace

void require_then(const WatchRequest& request) {
    if (request.then.empty()) {
        return;
    }
    const std::string name = words_of(request).front();
    if (!program_of(name)) {
        throw Error(ErrorCode::usage, "there is no program " + printable(name) + " to run (--then)",
                    "give its path; a command of a shell needs --then_shell");
    }
}

Followed run_then(const WatchRequest& request, const std::string& step, const fs::path& output,
                  Log& log) {
    std::vector<std::string> words = words_of(request);
    const auto program = program_of(words.front());
    if (!program) {
        return {"is not there any more", false};
    }
    words.erase(words.begin());
    process::Process command{*program, std::move(words), {}, {}, {}};
    command.environment = {"SHARDWELD_STEP=" + step, "SHARDWELD_OUTPUT=" + output.string(),
                           "SHARDWELD_REPORT=" + (output / publish::kKeptReport).string()};
    command.withheld = kOfRanks;
    command.withheld.emplace_back("SHARDWELD_STEP=");
    command.withheld.emplace_back("SHARDWELD_OUTPUT=");
    command.withheld.emplace_back("SHARDWELD_REPORT=");
    command.on_line = [&](std::string_view line) { log.info("then: " + printable(line, 1000)); };
    const auto ending = process::run(command);
    return {fault_of(ending), ending && ending->was_stopped};
}

}  // namespace shardweld::app::watching
