#include "shardweld/examine.hpp"

#include <sstream>

#include "app/commands/commands.hpp"
#include "app/settings/command_table.hpp"
#include "core/text.hpp"

#include "requested.hpp"

namespace shardweld {

Examination examine(const RankGroup& comm, const std::string& command, const Request& request,
                    Events& events) {
    auto* const row = find_item(app::command_rows(), command, &app::CommandRow::name);
    const app::Examiner run = row == nullptr ? nullptr : app::examiner_of(row->command);
    if (run == nullptr) {
        throw Error(ErrorCode::usage, printable(command) + " examines nothing",
                    "give inspect, plan, test, diff or verify");
    }
    mpi::Comm& ranks = comm.inner();
    app::Job job = app::job_of(ranks, request, row->command);
    job.run.json = true;
    app::Log log(events, ranks.rank() == 0);
    std::ostringstream out = text_stream();
    Examination examination;
    try {
        app::run_or_abort(ranks, [&] { (void)run(ranks, job, out, log); });
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
