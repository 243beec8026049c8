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
using Read = std::function<Options()>;

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

Examination run(const Comm& comm, Events& events, const Read& read,
                int (*command)(mpi::Comm&, const Options&, std::ostream&, Log&)) {
    mpi::Comm& ranks = comm.inner();
    Options options = app::agreed_options(ranks, read);
    options.json = true;
    Log log(events, ranks.rank() == 0);
    return examined([&](std::ostream& out) {
        app::run_or_abort(ranks, [&] { (void)command(ranks, options, out, log); });
    });
}

/// The options of a request to compare something with the model in `reference`.
template <typename Request>
Read beside_model(const Request& request, Command command, const fs::path& reference) {
    return [=, &request] {
        return app::options_of(request, command, [&](Options& options) {
            app::put_value(options, "test_hf_dir", reference.string());
        });
    };
}

}  // namespace

Examination inspect_checkpoint(const Comm& comm, const ExamineRequest& request, Events& events) {
    return run(
        comm, events, [&] { return app::options_of(request, Command::inspect); }, app::inspect);
}

Examination plan_merge(const Comm& comm, const MergeRequest& request, int n_ranks, Events& events) {
    const auto set = [=](Options& options) {
        options.n_ranks = n_ranks;
        options.given["ranks"] = std::to_string(n_ranks);
    };
    return run(
        comm, events, [&] { return app::options_of(request, Command::plan, set); },
        app::print_plan);
}

Examination test_merge(const Comm& comm, const MergeRequest& request,
                       const std::filesystem::path& reference, Events& events) {
    return run(comm, events, beside_model(request, Command::test, reference), app::test);
}

Examination diff_models(const Comm& comm, const ExamineRequest& request,
                        const std::filesystem::path& reference, Events& events) {
    return run(comm, events, beside_model(request, Command::diff, reference), app::diff);
}

Examination verify_model(const Comm& comm, const ExamineRequest& request,
                         const std::filesystem::path& report, Events& events) {
    const auto set = [&](Options& options) { app::put_value(options, "report", report.string()); };
    return run(
        comm, events, [&] { return app::options_of(request, Command::verify, set); }, app::verify);
}

}  // namespace shardweld
