#include "shardweld/examine.hpp"

#include <functional>
#include <ostream>
#include <sstream>

#include "app/commands/commands.hpp"

#include "requested.hpp"

namespace shardweld {

namespace {

using app::Command;
using app::Log;
using app::Options;

/// What the command says. That something differs is its result.
Examination examined(const std::function<void(std::ostream&)>& command) {
    std::ostringstream out;
    Examination found;
    try {
        command(out);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::differs && error.code() != ErrorCode::strict) {
            throw;
        }
        found.is_good = false;
        found.why = error.what();
    }
    found.json = out.str();
    return found;
}

using Run = std::function<void(mpi::Comm&, const Options&, std::ostream&, Log&)>;

Examination run(const Comm& comm, Events& events, const std::function<Options()>& read,
                const Run& command) {
    mpi::Comm& ranks = comm.inner();
    Options options = app::agreed_options(ranks, read);
    options.json = true;
    Log log(events, ranks.rank() == 0);
    return examined([&](std::ostream& out) {
        app::run_or_abort(ranks, [&] { command(ranks, options, out, log); });
    });
}

/// A command on a directory.
struct Look {
    Command command;
    app::OptionTexts own;  ///< what the request says beside the directory
    Run body;
};

Examination examine(const Comm& comm, const ExamineRequest& request, Events& events, Look look) {
    look.own.emplace("local_dir", request.directory.string());
    return run(
        comm, events, [&] { return app::options_of(look.command, look.own, request.options); },
        look.body);
}

}  // namespace

Examination inspect_checkpoint(const Comm& comm, const ExamineRequest& request, Events& events) {
    return examine(comm, request, events, {Command::inspect, {}, app::inspect});
}

Examination plan_merge(const Comm& comm, const MergeRequest& request, int n_ranks, Events& events) {
    const app::OptionTexts own{{"ranks", std::to_string(n_ranks)}};
    return run(
        comm, events, [&] { return app::options_of(request, Command::plan, own); },
        app::print_plan);
}

Examination test_merge(const Comm& comm, const MergeRequest& request,
                       const std::filesystem::path& reference, Events& events) {
    const app::OptionTexts own{{"test_hf_dir", reference.string()}};
    return run(
        comm, events, [&] { return app::options_of(request, Command::test, own); }, app::test);
}

Examination diff_models(const Comm& comm, const ExamineRequest& request,
                        const std::filesystem::path& reference, Events& events) {
    return examine(comm, request, events,
                   {Command::diff, {{"test_hf_dir", reference.string()}}, app::diff});
}

Examination verify_model(const Comm& comm, const ExamineRequest& request,
                         const std::filesystem::path& report, Events& events) {
    return examine(comm, request, events,
                   {Command::verify, {{"report", report.string()}}, app::verify});
}

}  // namespace shardweld
