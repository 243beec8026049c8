// The command delta: what changed between two models, as rollout engines take it.
#include <string>

#include <nlohmann/json.hpp>

#include "app/delta/versions.hpp"
#include "app/delta/write_delta.hpp"
#include "app/messages/progress.hpp"
#include "app/messages/table.hpp"
#include "app/report/report_json.hpp"
#include "app/report/session.hpp"
#include "app/runtime/memory.hpp"
#include "core/text.hpp"
#include "mpi/comm.hpp"

#include "commands.hpp"

namespace shardweld::app {

namespace {

constexpr int kDeltaSchema = 1;

std::string base_text(const WrittenDelta& written) {
    if (written.version == 1) {
        return "no version before it: PREV is version 000000";
    }
    const std::size_t n_unlisted = written.n_tensors - written.n_proved;
    return counted(written.n_proved, "tensor") + " of PREV proved to be those of " +
           version_name(written.version - 1) +
           (n_unlisted == 0 ? ""
                            : "; " + std::to_string(n_unlisted) +
                                  " that no version lists could not be looked at");
}

std::string delta_text(const WrittenDelta& written) {
    return table({Align::left, Align::left}, {{"version", written.directory.string()},
                                              {"changed", changes_text(written)},
                                              {"bytes", sizes_text(written)},
                                              {"base", base_text(written)}});
}

std::string delta_json(const WrittenDelta& written) {
    return json_text({{"schema", kDeltaSchema},
                      {"command", "delta"},
                      {"directory", written.directory.string()},
                      {"version", version_digits(written.version)},
                      {"base_version", version_digits(written.version - 1)},
                      {"tensors", written.n_tensors},
                      {"changed", written.n_changed},
                      {"files", written.n_files},
                      {"delta_bytes", written.delta_bytes},
                      {"model_bytes", written.model_bytes},
                      {"base_tensors_proved", written.n_proved},
                      {"pays", written.pays()}});
}

}  // namespace

int delta(mpi::Comm& comm, const Options& options, std::ostream& out, Log& log) {
    Progress progress(log, style_for(options.progress, log, options.is_quiet), steady_clock());
    const auto throttle = throttle_of(options, comm);
    const WrittenDelta written =
        write_delta(comm, {options.local_dir, options.reference, options.target_dir},
                    {progress, throttle.get()});
    print(comm, out, [&] { return options.json ? delta_json(written) : delta_text(written); });
    warn_unless_it_pays(written, log);
    return 0;
}

}  // namespace shardweld::app
