#include "moving.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adapters/peft_names.hpp"
#include "app/family/bind_model.hpp"
#include "app/messages/progress.hpp"
#include "app/survey/input.hpp"
#include "core/text.hpp"
#include "execute/listeners/tensor_census.hpp"
#include "execute/measures.hpp"
#include "formats/containers/safetensors_header.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "mpi/share.hpp"
#include "numeric/convert.hpp"
#include "plan/plan.hpp"
#include "plan/schedule/derived_output.hpp"
#include "shardweld/error.hpp"

#include "resumption.hpp"
#include "tied.hpp"

namespace shardweld::app {

namespace {

constexpr const char* kGathered = "adapter_model.safetensors";
constexpr Index kElementsAtOnce = 1 << 18;

/// Versions of verl leave PEFT's prefix away, or the adapter's own name in.
std::string plain_name(std::string_view name) {
    constexpr std::string_view kPrefix = adapters::kPrefix;
    while (name.starts_with(kPrefix)) {
        name.remove_prefix(kPrefix.size());
    }
    return adapters::read_name(std::string(name)).saved_name.substr(kPrefix.size());
}

/// The factors of one file, by their plain names.
struct FactorFile {
    explicit FactorFile(const fs::path& path) : file(io::InputFile::open(path)) {
        for (auto& [name, tensor] : formats::read_safetensors_header(file)) {
            if (name.find(".lora_") != std::string::npos) {
                tensors.emplace(plain_name(name), std::move(tensor));
            }
        }
    }

    io::InputFile file;
    std::map<std::string, formats::StoredTensor> tensors;
};

std::vector<std::byte> values_of(const io::InputFile& file, const formats::StoredTensor& tensor,
                                 Index begin, Index count, DType type) {
    std::vector<std::byte> stored(static_cast<std::size_t>(count) * size_of(tensor.dtype));
    file.read_at(tensor.storage_offset + static_cast<Bytes>(begin) * size_of(tensor.dtype), stored);
    if (tensor.dtype == type) {
        return stored;
    }
    std::vector<std::byte> values(static_cast<std::size_t>(count) * size_of(type));
    numeric::convert(tensor.dtype, stored, type, values);
    return values;
}

/// In the narrower of both types. nullopt: they have none in common.
std::optional<bool> are_equal(const FactorFile& a, const FactorFile& b, const std::string& name) {
    const formats::StoredTensor& one = a.tensors.at(name);
    const formats::StoredTensor& other = b.tensors.at(name);
    if (one.shape != other.shape) {
        return false;
    }
    const DType type = size_of(one.dtype) < size_of(other.dtype) ? one.dtype : other.dtype;
    const bool is_narrower = size_of(one.dtype) != size_of(other.dtype);
    if (one.dtype != other.dtype && !(is_narrower && numeric::can_convert(one.dtype, type) &&
                                      numeric::can_convert(other.dtype, type))) {
        return std::nullopt;
    }
    const Index volume = one.volume();
    for (Index begin = 0; begin < volume; begin += kElementsAtOnce) {
        const Index count = std::min(kElementsAtOnce, volume - begin);
        if (values_of(a.file, one, begin, count, type) !=
            values_of(b.file, other, begin, count, type)) {
            return false;
        }
    }
    return true;
}

/// What is wrong with `gathered`; "" if nothing.
std::string difference(const FactorFile& gathered, const FactorFile& shards) {
    std::vector<std::string> others;
    std::size_t n_unlike = 0;
    for (const auto& [name, tensor] : shards.tensors) {
        const auto equal = gathered.tensors.contains(name) ? are_equal(gathered, shards, name)
                                                           : std::optional(false);
        n_unlike += equal ? 0U : 1U;
        if (equal == false) {
            others.push_back(name);
        }
    }
    for (const auto& [name, tensor] : gathered.tensors) {
        if (!shards.tensors.contains(name)) {
            others.push_back(name);
        }
    }
    if (!others.empty()) {
        return "has other factors than the shards: " + std::to_string(others.size()) +
               " differ, such as " + printable(others.front()) +
               ". It is another step's or another run's, and so may be the settings beside it "
               "(lora_alpha, use_rslora); the shards' factors were taken";
    }
    return n_unlike == 0 ? ""
                         : "cannot be compared with the shards' factors, which are written in "
                           "another type of its width";
}

/// The gathered file, where there is one that is not itself what is merged.
std::optional<fs::path> gathered_file(const Planned& planned) {
    const fs::path directory =
        fs::path(planned.first().model.files.adapter_config.path).parent_path();
    const auto& files = planned.input.files;
    const bool is_input =
        directory.lexically_normal() == planned.input.directory.lexically_normal() &&
        std::ranges::count(files, kGathered, &catalogue::File::path) > 0;
    const fs::path path = directory / kGathered;
    return is_input || !io::is_file(path) ? std::nullopt : std::optional(path);
}

std::string finding(const Planned& planned, const fs::path& written) {
    const auto path = gathered_file(planned);
    if (!path) {
        return "";
    }
    std::string found;
    try {
        found = difference(FactorFile(*path), FactorFile(written));
    } catch (const Error& error) {
        found = std::string("cannot be compared with the shards' factors: ") + error.what();
    }
    return found.empty() ? "" : path->string() + " " + found;
}

/// Collective. `written` is the file that the shards' factors were written to. `adapter_stale`,
/// where the one beside the shards has other factors, and where they cannot be compared.
std::vector<Warning> stale_adapter(Session& session, const Planned& planned,
                                   const fs::path& written) {
    const std::string text =
        mpi::share(session.comm, planned.input.home, [&] { return finding(planned, written); });
    return text.empty() ? std::vector<Warning>() : std::vector{Warning{"adapter_stale", "", text}};
}

/// NVFP4's divisors: the largest value of all weights that share one, before any row is written.
void take_divisors(Output& output, const Input& input, const io::Directory& directory,
                   const fs::path& factors, const mpi::WhyStop& why_stop) {
    Session& session = output.session;
    const plan::Plan& measured = *output.measured;
    execute::LargestValues largest(measured);
    execute::RunOptions options;
    options.why_stop = why_stop;
    options.write = false;
    options.factors = factors;
    options.on_slice = [&](const plan::Slice& slice, std::span<const std::byte> bytes) {
        largest.add(slice, bytes);
    };
    const auto result =
        execute::run(session.comm, measured, source_of(session, input), directory, options);
    require_equal_replicas(session.comm, result, measured, input.files);
    execute::set_divisors(output.plan, largest.gather(session.comm),
                          output.model.bound.quantisation->shares);
    session.watch.lap("divisors");
}

/// What all outputs have read, sent and written.
void report_run(Session& session, const Planned& planned,
                const std::vector<execute::Result>& results) {
    RunReport& report = session.run;
    Phase& phase = session.watch.lap("execute");
    for (const execute::Result& result : results) {
        for (const execute::RankResult& rank : result.ranks) {
            phase.bytes_written += rank.bytes_written;
        }
    }
    for (const auto& run : planned.runs()) {
        Index rounds = 0;
        for (const execute::RankResult& rank : results[run.front()].ranks) {
            phase.bytes_read += rank.bytes_read;
            phase.bytes_sent += rank.bytes_sent;
            // A message limit cuts one round of reading into several of exchanging.
            rounds = std::max<Index>({rounds, rank.rounds, rank.exchange_steps});
        }
        report.rounds += rounds;
    }
    report.memory = planned.input.meter.gather(session.comm);
    session.log.note("read " + human_bytes(phase.bytes_read) + ", sent " +
                     human_bytes(phase.bytes_sent) + ", wrote " + human_bytes(phase.bytes_written));
}

void report_result(const Output& output, const Planned& planned, const execute::RunOptions& options,
                   const execute::Result& result) {
    const Session& session = output.session;
    if (session.job.run.resume || !options.resumption.blocks.empty()) {
        note_reuse(result, output.plan.placement.tensor_bytes, session.report, session.log);
    }
    session.report.ranks = result.ranks;
    if (options.digests && session.comm.rank() == 0) {
        session.report.tensors = tensor_entries(output.plan, planned.input.files, result,
                                                planned.factors ? &*planned.factors : nullptr);
        session.report.root = execute::root_digest(output.plan, result.tensor_digests);
    }
}

/// What an output needs before its tensors are moved; `factors`: the file with those of a fold.
void settle_options(Output& output, const Input& input, Moving& moving, const fs::path& factors) {
    const Session& session = output.session;
    execute::RunOptions& options = moving.options;
    options.factors = factors;
    if (output.measured) {
        take_divisors(output, input, moving.directory, factors, options.why_stop);
    }
    options.sync = session.job.run.sync;
    options.direct = session.job.run.is_direct;
    options.digests = session.output.is_reported();
    options.on_read_back = shown(session.progress, "reading back what was written earlier");
    if (input.sums) {
        input.sums->add_earlier(options.resumption.sums);
    }
}

/// The output space of a run's first output is cut anew where an earlier run has done a part of
/// all.
void share_rest(Planned& planned, const std::vector<Moving>& moving,
                const std::vector<std::size_t>& run) {
    Output& primary = planned.outputs[run.front()];
    plan::Plan& first = primary.plan;
    std::vector<std::vector<plan::OutputRange>> done;
    for (const std::size_t at : run) {
        const plan::Plan& own = planned.outputs[at].plan;
        const auto ranges = execute::BlockPlaces(own).ranges(moving[at].options.resumption.blocks);
        done.push_back(run.size() == 1 ? ranges
                                       : plan::DerivedOutput(first, own).done_of_primary(ranges));
    }
    const auto all = plan::in_all({0, first.space.begins.back()}, done);
    if (all.empty()) {
        return;
    }
    plan::share_rest(first, all, primary.choice.alignment);
}

/// The outputs of a run, each result at its output's place, and a look at what was read for it.
void execute_run(Planned& planned, std::vector<Moving>& moving, const std::vector<std::size_t>& run,
                 std::vector<execute::Result>& results) {
    Session& session = planned.first().session;
    share_rest(planned, moving, run);
    execute::RunOptions& options = moving[run.front()].options;
    options.on_progress = moving_shown(options.write ? "moving tensors" : "comparing tensors",
                                       planned.outputs[run.front()].plan, session.comm.rank(),
                                       session.progress, session.log);
    std::vector<execute::OutputWork> outputs;
    outputs.reserve(run.size());
    for (const std::size_t at : run) {
        outputs.push_back({planned.outputs[at].plan, moving[at].directory, moving[at].options});
    }
    auto made = execute::run(session.comm, outputs, source_of(session, planned.input));
    session.progress.end();
    for (std::size_t i = 0; i < run.size(); ++i) {
        results[run[i]] = std::move(made[i]);
    }
    report_what_was_read(session, planned.input, options.why_stop);
}

/// Forgets the sums of what was read: the next pass reads it again, and it is checked again.
void forget_sums(Input& input) {
    if (input.sums) {
        input.sums =
            record_sums(input.directory, input.files, input.sums->records(), input.sums->uses());
    }
}

std::vector<execute::Result> run_all(Planned& planned, std::vector<Moving>& moving,
                                     const fs::path& factors) {
    std::vector<execute::Result> results(moving.size());
    const auto runs = planned.runs();
    for (const std::vector<std::size_t>& run : runs) {
        if (&run != &runs.front()) {
            forget_sums(planned.input);
        }
        for (const std::size_t at : run) {
            settle_options(planned.outputs[at], planned.input, moving[at], factors);
        }
        execute_run(planned, moving, run, results);
    }
    return results;
}

bool writes_adapter(const plan::Plan& plan) {
    return std::ranges::any_of(plan.placement.files,
                               [](const auto& file) { return file.name == kAdapterWeights; });
}

}  // namespace

void make_factors(Session& session, Planned& planned, const io::Directory& directory,
                  const mpi::WhyStop& why_stop) {
    mpi::Comm& comm = session.comm;
    const execute::SourceFiles source = source_of(session, planned.input);
    execute::create_files(comm, *planned.factors, directory);
    execute::RunOptions options;
    options.why_stop = why_stop;
    options.sync = comm.size() > 1;
    execute::TensorCensus census(*planned.factors);
    options.on_slice = [&](const plan::Slice& slice, std::span<const std::byte> bytes) {
        census.add(slice, bytes);
    };
    const auto result = execute::run(comm, *planned.factors, source, directory, options);
    warn(session, factor_warnings(planned.factors->targets, census.gather(comm)));
    if (!result.differences.empty()) {
        report_what_was_read(session, planned.input, why_stop);
    }
    require_equal_replicas(comm, result, *planned.factors, planned.input.files);
    warn(session, stale_adapter(session, planned, directory.path() / kFactors));
    const plan::Plan& normed = planned.norms ? *planned.norms : planned.first().plan;
    execute::take_norms(comm, normed, source, directory.path() / kFactors, why_stop);
    session.watch.lap("factors");
}

void check_crcs(Session& session, const Planned& planned, const mpi::WhyStop& why_stop) {
    if (session.job.run.check_crc != CheckCrc::before) {
        return;
    }
    const Input& input = planned.input;
    input.sums->want_all();
    session.run.crc = check_shown(session, input, execute::Completion::all, why_stop);
    session.watch.lap("check_crc").bytes_read = session.run.crc->bytes_read;
}

execute::CreatedFiles create_files(Output& output, const io::Directory& directory) {
    const Session& session = output.session;
    output.plan.placement.format->embed_config(output.plan.placement, output.config_text);
    auto created =
        execute::create_files(session.comm, output.plan, directory, session.job.run.sync);
    session.watch.lap("create");
    return created;
}

std::vector<execute::Written> move_tensors(Planned& planned, std::vector<Moving> moving) {
    Session& session = planned.first().session;
    const plan::Plan& plan = planned.first().plan;
    Moving& first = moving.front();
    fs::path factors;
    if (planned.factors) {
        make_factors(session, planned, first.directory, first.options.why_stop);
        factors = first.directory.path() / kFactors;
    }
    std::vector<execute::Result> results = run_all(planned, moving, factors);
    mpi::collectively(session.comm, [&] {
        if (planned.factors && session.comm.rank() == 0) {
            fs::remove(factors);
        }
    });
    require_equal_replicas(session.comm, results.front(), plan, planned.input.files,
                           planned.first().model.bound.doubt);
    if (first.options.write && writes_adapter(plan)) {
        warn(session, stale_adapter(session, planned, first.directory.path() / kAdapterWeights));
    }
    report_run(session, planned, results);
    std::vector<execute::Written> written;
    for (std::size_t at = 0; at < moving.size(); ++at) {
        report_result(planned.outputs[at], planned, moving[at].options, results[at]);
        written.push_back(std::move(results[at].written));
    }
    return written;
}

void check_written(const Output& output, const io::Directory& directory,
                   const execute::CreatedFiles& created, const execute::Written& written,
                   const mpi::WhyStop& why_stop) {
    const Session& session = output.session;
    execute::check_written(session.comm, output.plan, directory, created, written,
                           {session.job.run.paranoid, session.throttle, why_stop,
                            shown(session.progress, "reading back what was written")});
}

}  // namespace shardweld::app
