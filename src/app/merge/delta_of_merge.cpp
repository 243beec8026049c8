#include "delta_of_merge.hpp"

#include <algorithm>
#include <string>

#include "app/compare/model_directory.hpp"
#include "app/delta/delta_file.hpp"
#include "io/paths.hpp"
#include "mpi/comm.hpp"
#include "process/process.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

/// Error(usage) for a path in the target: the merge replaces that, so neither a base nor versions
/// can lie there.
void require_apart(const fs::path& path, const char* option, const fs::path& target) {
    if (io::is_within(io::resolved(path), io::resolved(target))) {
        throw Error(ErrorCode::usage,
                    std::string(option) + " " + path.string() + " is the target, or lies in it",
                    "give a directory that is not in " + target.string());
    }
}

/// What the files of a model of these targets hold; an adapter and states lie in directories below.
WrittenModel model_of(const std::vector<plan::Target>& targets) {
    WrittenModel model;
    for (const plan::Target& target : targets) {
        const bool is_below = target.file.find('/') != std::string::npos;
        for (std::uint32_t at = 0; !is_below && at < target.n_outputs(); ++at) {
            const plan::WrittenTensor& tensor = target.output(at);
            model.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, {}});
        }
    }
    std::ranges::sort(model.tensors, {}, &catalogue::Tensor::name);
    return model;
}

/// The command that makes the delta once the cause is gone.
std::string hint_for(const Error& error, const DeltaRequest& request) {
    const std::string command =
        "the model is complete; then: " +
        process::shell_line({"shardweld", "delta", request.previous.string(),
                             request.model.string(), request.versions.string()});
    return error.hint().empty() ? command : error.hint() + "; " + command;
}

}  // namespace

void check_delta_of(const Session& session) {
    const Options& options = session.options;
    if (options.delta_dir.empty()) {
        return;
    }
    mpi::collectively(session.comm, [&] {
        if (session.comm.rank() == 0) {
            require_apart(options.delta_against, "--delta_against", session.output.directory);
            require_apart(options.delta_dir, "--delta_dir", session.output.directory);
            check_delta(options.delta_against, options.delta_dir);
        }
    });
}

void check_planned_delta(const Session& session, const std::vector<plan::Target>& targets) {
    const Options& options = session.options;
    if (options.delta_dir.empty()) {
        return;
    }
    mpi::collectively(session.comm, [&] {
        if (session.comm.rank() == 0) {
            require_same_tensors({options.delta_against, session.output.directory,
                                  read_written_model(options.delta_against), model_of(targets)});
        }
    });
}

DeltaWork work_of(const Session& session, const mpi::WhyStop& why_stop) {
    return {session.progress, session.throttle.get(), why_stop};
}

void write_delta_of(const Session& session, const mpi::WhyStop& why_stop) {
    const Options& options = session.options;
    if (options.delta_dir.empty()) {
        return;
    }
    if (session.run.is_left_alone) {
        check_delta_of(session);  // which a merge has done before it began
    }
    const DeltaRequest request{options.delta_against, session.output.directory, options.delta_dir,
                               session.run.is_left_alone};
    try {
        say_delta(write_delta(session.comm, request, work_of(session, why_stop)), session.log);
    } catch (Error& error) {
        error.set_hint(hint_for(error, request));
        throw;
    }
    session.watch.lap("delta");
}

}  // namespace shardweld::app
