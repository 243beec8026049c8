#include "then.hpp"

#include <optional>
#include <vector>

#include "core/text.hpp"
#include "process/command.hpp"
#include "publish/report_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app::watching {

namespace {

std::vector<std::string> words_of(const WatchRequest& request) {
    return process::words_of(request.then).value();
}

}  // namespace

void require_then(const WatchRequest& request) {
    if (request.then.empty()) {
        return;
    }
    const std::string name = words_of(request).front();
    if (!process::program_named(name)) {
        throw Error(ErrorCode::usage, "there is no program " + printable(name) + " to run (--then)",
                    "give its path; a command of a shell is sh -c 'COMMAND'");
    }
}

ThenOutcome run_then(const WatchRequest& request, const std::string& step, const fs::path& output,
                     Log& log) {
    std::vector<std::string> words = words_of(request);
    const auto program = process::program_named(words.front());
    if (!program) {
        return {"is not there any more", false};
    }
    words.erase(words.begin());
    process::Process command{*program, std::move(words), {}, {}, {}};
    command.environment = {"SHARDWELD_STEP=" + step, "SHARDWELD_OUTPUT=" + output.string(),
                           "SHARDWELD_REPORT=" + (output / publish::kKeptReport).string()};
    command.withheld = process::variables_of_ranks();
    command.withheld.emplace_back("SHARDWELD_STEP=");
    command.withheld.emplace_back("SHARDWELD_OUTPUT=");
    command.withheld.emplace_back("SHARDWELD_REPORT=");
    command.on_line = [&](std::string_view line) { log.info("then: " + printable(line, 1000)); };
    const auto ending = process::run(command);
    return {process::fault_of(ending), ending && ending->was_stopped};
}

}  // namespace shardweld::app::watching
