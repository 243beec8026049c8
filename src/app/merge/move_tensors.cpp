#include "move_tensors.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "adapters/peft_names.hpp"
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
            if (has_part(name, ".lora_")) {
                tensors.emplace(plain_name(name), std::move(tensor));
            }
        }
    }

    io::InputFile file;
    std::map<std::string, formats::StoredTensor> tensors;
};

ByteBuffer values_of(const io::InputFile& file, const formats::StoredTensor& tensor, Index begin,
                     Index count, DType type) {
    ByteBuffer stored(as_size(count) * size_of(tensor.dtype));
    file.read_at(tensor.storage_offset + static_cast<Bytes>(begin) * size_of(tensor.dtype), stored);
    if (tensor.dtype == type) {
        return stored;
    }
    ByteBuffer values(as_size(count) * size_of(type));
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
std::optional<fs::path> gathered_file(const Merge& merge) {
    const fs::path directory =
        fs::path(merge.first().model.files.adapter_config.path).parent_path();
    const auto& files = merge.input.files;
    const bool is_input =
        directory.lexically_normal() == merge.input.directory.lexically_normal() &&
        contains(files, kGathered, &catalogue::File::path);
    const fs::path path = directory / kGathered;
    return is_input || !io::is_file(path) ? std::nullopt : std::optional(path);
}

std::string finding(const Merge& merge, const fs::path& written) {
    const auto path = gathered_file(merge);
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
Warnings stale_adapter(const Run& run, const Merge& merge, const fs::path& written) {
    const std::string text =
        mpi::share(run.comm, merge.input.home, [&] { return finding(merge, written); });
    return text.empty() ? Warnings() : std::vector{Warning{"adapter_stale", "", text}};
}

/// What all outputs have read, sent and written.
void report_run(const Run& run, const Merge& merge, const std::vector<execute::Result>& results) {
    RunReport& report = *run.report;
    Phase& phase = run.watch->lap("execute");
    for (const execute::Result& result : results) {
        for (const execute::RankResult& rank : result.ranks) {
            phase.bytes_written += rank.bytes_written;
        }
    }
    for (const auto& outputs : merge.runs()) {
        Index rounds = 0;
        for (const execute::RankResult& rank : results[outputs.front()].ranks) {
            phase.bytes_read += rank.bytes_read;
            phase.bytes_sent += rank.bytes_sent;
            // A message limit cuts one round of reading into several of exchanging.
            rounds = std::max<Index>({rounds, rank.rounds, rank.exchange_steps});
        }
        report.rounds += rounds;
    }
    report.memory = mpi::gather(run.comm, merge.input.memory);
    run.log.write_own("read " + human_bytes(phase.bytes_read) + ", sent " +
                      human_bytes(phase.bytes_sent) + ", wrote " +
                      human_bytes(phase.bytes_written));
}

void report_result(const Run& run, const Merge& merge, const execute::RunOptions& options,
                   const execute::Result& result, Output& output) {
    if (run.job.run.resume || !options.resumption.blocks.empty()) {
        note_reuse(result, output.plan.placement.tensor_bytes, output.report, run.log);
    }
    output.report.ranks = result.ranks;
    if (options.digests && run.comm.rank() == 0) {
        output.report.tensors =
            tensor_entries(output.plan, merge.input.files, result, pointer_to(merge.factors));
        output.report.root = execute::root_digest(output.plan, result.tensor_digests);
    }
}

/// What an output needs before its tensors are moved; `factors`: the file with those of a fold.
void complete_options(const Run& run, const Input& input, const fs::path& factors, Output& output,
                      execute::RunOptions& options) {
    options.factors = factors;
    take_divisors(run, input, factors, output, options.why_stop);
    options.sync = run.job.run.sync;
    options.direct = run.job.run.is_direct;
    options.digests = output.asked().is_reported();
    options.on_read_back = shown(*run.progress, "reading back what was written earlier");
    if (input.sums) {
        input.sums->add_earlier(options.resumption.sums);
    }
}

/// The output space of the first of some outputs that are made together is cut anew where an
/// earlier run has done a part of all.
void share_rest(const Run& run, Merge& merge, const std::vector<execute::RunOptions>& options,
                const std::vector<std::size_t>& together) {
    plan::Plan& first = merge.outputs[together.front()].plan;
    std::vector<std::vector<plan::OutputRange>> done;
    for (const std::size_t at : together) {
        const plan::Plan& own = merge.outputs[at].plan;
        const auto ranges = execute::BlockPlaces(own).ranges(options[at].resumption.blocks);
        done.push_back(together.size() == 1
                           ? ranges
                           : plan::DerivedOutput(first, own).done_of_primary(ranges));
    }
    const auto all = plan::in_all({0, first.space.begins.back()}, done);
    if (all.empty()) {
        return;
    }
    plan::share_rest(first, all, merge.choice_for(run.job, merge.resources()).alignment);
}

/// Outputs that are made together, each result at its output's place, and a look at what was read
/// for them.
void execute_together(const Run& run, Merge& merge, std::vector<execute::RunOptions>& options,
                      const std::vector<std::size_t>& together,
                      std::vector<execute::Result>& results) {
    share_rest(run, merge, options, together);
    execute::RunOptions& first = options[together.front()];
    first.on_progress =
        moving_shown(first.write ? "moving tensors" : "comparing tensors",
                     merge.outputs[together.front()].plan, run.comm.rank(), *run.progress, run.log);
    std::vector<execute::OutputWork> outputs = collect_list(together, [&](const std::size_t at) {
        return execute::OutputWork{merge.outputs[at].plan, *merge.outputs[at].directory,
                                   options[at]};
    });
    auto made = execute::run(run.comm, outputs, source_of(run, merge.input));
    run.progress->end();
    for (const std::size_t i : indices(together)) {
        results[together[i]] = std::move(made[i]);
    }
    report_what_was_read(run, merge.input, first.why_stop);
}

/// Forgets the sums of what was read: the next pass reads it again, and it is checked again.
void forget_sums(Input& input) {
    if (input.sums) {
        input.sums =
            record_sums(input.directory, input.files, input.sums->records(), input.sums->uses());
    }
}

std::vector<execute::Result> execute_all(const Run& run, Merge& merge,
                                         std::vector<execute::RunOptions>& options,
                                         const fs::path& factors) {
    std::vector<execute::Result> results(options.size());
    bool is_first = true;
    for (const std::vector<std::size_t>& together : merge.runs()) {
        if (!std::exchange(is_first, false)) {
            forget_sums(merge.input);
        }
        for (const std::size_t at : together) {
            complete_options(run, merge.input, factors, merge.outputs[at], options[at]);
        }
        execute_together(run, merge, options, together, results);
    }
    return results;
}

bool writes_adapter(const plan::Plan& plan) {
    return std::ranges::any_of(plan.placement.files,
                               [](const auto& file) { return file.name == kAdapterWeights; });
}

}  // namespace

void make_factors(const Run& run, Merge& merge, const io::Directory& directory,
                  const mpi::WhyStop& why_stop) {
    mpi::Comm& comm = run.comm;
    const execute::SourceFiles source = source_of(run, merge.input);
    execute::create_files(comm, *merge.factors, directory);
    execute::RunOptions options;
    options.why_stop = why_stop;
    options.sync = comm.size() > 1;
    execute::TensorCensus census(*merge.factors);
    options.on_slice = [&](const plan::Slice& slice, ByteView bytes) { census.add(slice, bytes); };
    const auto result = execute::run(comm, *merge.factors, source, directory, options);
    warn(run, factor_warnings(merge.factors->targets, census.gather(comm)));
    if (!result.differences.empty()) {
        report_what_was_read(run, merge.input, why_stop);
    }
    require_equal_replicas(comm, result, *merge.factors, merge.input.files);
    warn(run, stale_adapter(run, merge, directory.path() / kFactors));
    const plan::Plan& normed = merge.norms ? *merge.norms : merge.first().plan;
    execute::take_norms(comm, normed, source, directory.path() / kFactors, why_stop);
    run.watch->lap("factors");
}

void take_divisors(const Run& run, const Input& input, const fs::path& factors, Output& output,
                   const mpi::WhyStop& why_stop) {
    if (!output.measured) {
        return;
    }
    const plan::Plan& measured = *output.measured;
    execute::LargestValues largest(measured);
    execute::RunOptions options;
    options.why_stop = why_stop;
    options.write = false;
    options.factors = factors;
    options.on_slice = [&](const plan::Slice& slice, ByteView bytes) { largest.add(slice, bytes); };
    const auto result =
        execute::run(run.comm, measured, source_of(run, input), fs::path(), options);
    require_equal_replicas(run.comm, result, measured, input.files);
    execute::set_divisors(output.plan, largest.gather(run.comm), output.model.quantisation->shares);
    run.watch->lap("divisors");
}

void check_crcs(const Run& run, const Merge& merge, const mpi::WhyStop& why_stop) {
    if (run.job.run.check_crc != CheckCrc::before) {
        return;
    }
    const Input& input = merge.input;
    input.sums->want_all();
    run.report->crc = check_shown(run, input, execute::Completion::all, why_stop);
    run.watch->lap("check_crc").bytes_read = run.report->crc->bytes_read;
}

void create_files(const Run& run, Output& output) {
    output.plan.placement.format->embed_config(output.plan.placement, output.config_text);
    output.created =
        execute::create_files(run.comm, output.plan, *output.directory, run.job.run.sync);
    run.watch->lap("create");
}

void move_tensors(const Run& run, Merge& merge, std::vector<execute::RunOptions> options) {
    Output& first = merge.first();
    for (Output& output : merge.outputs) {
        if (!output.directory) {
            output.directory.emplace(fs::path());  // nothing is written
        }
    }
    fs::path factors;
    if (merge.factors) {
        make_factors(run, merge, *first.directory, options.front().why_stop);
        factors = first.directory->path() / kFactors;
    }
    std::vector<execute::Result> results = execute_all(run, merge, options, factors);
    mpi::on_first(run.comm, [&] {
        if (merge.factors) {
            fs::remove(factors);
        }
    });
    require_equal_replicas(run.comm, results.front(), first.plan, merge.input.files,
                           first.model.doubt);
    if (options.front().write && writes_adapter(first.plan)) {
        warn(run, stale_adapter(run, merge, first.directory->path() / kAdapterWeights));
    }
    report_run(run, merge, results);
    for (const std::size_t at : indices(options)) {
        report_result(run, merge, options[at], results[at], merge.outputs[at]);
        merge.outputs[at].written = std::move(results[at].written);
    }
}

void check_written(const Run& run, const Output& output, const mpi::WhyStop& why_stop) {
    execute::check_written(run.comm, output.plan, *output.directory, output.created, output.written,
                           {run.job.run.paranoid, run.throttle, why_stop,
                            shown(*run.progress, "reading back what was written")});
}

}  // namespace shardweld::app
