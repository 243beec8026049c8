#include "shardweld/examine.hpp"

#include <algorithm>
#include <iterator>
#include <ostream>
#include <sstream>

#include "app/commands/commands.hpp"
#include "core/text.hpp"

#include "requested.hpp"

namespace shardweld {

namespace {

using app::Command;

struct Examiner {
    std::string_view name;
    Command command = Command::inspect;
    int (*run)(mpi::Comm&, const app::Job&, std::ostream&, app::Log&) = nullptr;
};

constexpr Examiner kExaminers[] = {{"inspect", Command::inspect, app::inspect},
                                   {"plan", Command::plan, app::print_plan},
                                   {"test", Command::test, app::test},
                                   {"diff", Command::diff, app::diff},
                                   {"verify", Command::verify, app::verify}};

}  // namespace

Examination examine(const RankGroup& comm, const std::string& command, const Request& request,
                    Events& events) {
    const auto* const found = std::ranges::find(kExaminers, command, &Examiner::name);
    if (found == std::end(kExaminers)) {
        throw Error(ErrorCode::usage, printable(command) + " examines nothing",
                    "give inspect, plan, test, diff or verify");
    }
    mpi::Comm& ranks = comm.inner();
    app::Job job = app::job_of(ranks, request, found->command);
    job.run.json = true;
    app::Log log(events, ranks.rank() == 0);
    std::ostringstream out;
    Examination examination;
    try {
        app::run_or_abort(ranks, [&] { (void)found->run(ranks, job, out, log); });
    } catch (const Error& error) {
        if (error.code() != ErrorCode::differs && error.code() != ErrorCode::strict) {
            throw;
        }
        // That something differs is its result.
        examination.is_good = false;
        examination.why = error.what();
    }
    examination.json = out.str();
    return examination;
}

}  // namespace shardweld
