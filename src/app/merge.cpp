#include "merge.hpp"

#include <algorithm>
#include <iostream>

#include <unistd.h>

#include "shardweld/core/text.hpp"
#include "shardweld/execute/run.hpp"
#include "shardweld/publish/assets.hpp"
#include "shardweld/publish/config_edits.hpp"
#include "shardweld/publish/target.hpp"

#include "aftermath.hpp"
#include "memory.hpp"
#include "model.hpp"
#include "progress.hpp"
#include "report.hpp"
#include "stopwatch.hpp"
#include "survey.hpp"
#include "tied.hpp"

namespace shardweld::app {

namespace {

/// One merge: what was asked for, and what is known so far.
class Merge {
  public:
    Merge(mpi::Comm& comm, const Options& options, Log& log, Report& report)
        : comm_(comm), options_(options), log_(log), report_(report) {}

    void run() {
        check_target();
        read_metadata();
        prepare();
        make_plan();
        if (comm_.rank() == 0) {
            describe_plan(report_, plan_, survey_.catalogue.files);
        }
        write();
    }

    [[nodiscard]] const std::vector<Phase>& phases() const { return watch_.phases(); }

  private:
    [[nodiscard]] bool is_first() const { return comm_.rank() == 0; }

    [[nodiscard]] publish::TargetRequest target_request() const {
        publish::TargetRequest request{
            options_.target_dir, {options_.local_dir}, options_.overwrite};
        if (options_.hf_config) {
            request.inputs.push_back(*options_.hf_config);
        }
        return request;
    }

    /// A target that cannot be written is said before hours of reading.
    void check_target() {
        mpi::collectively(comm_, [&] {
            if (is_first()) {
                (void)publish::checked_target(target_request());
            }
        });
    }

    void read_metadata() {
        survey_ = survey(comm_, input_request(options_));
        for (const std::string& note : survey_.catalogue.notes) {
            log_.info(note);
        }
        describe_input(report_, survey_.location.directory, survey_.catalogue);
        watch_.lap("survey");
    }

    /// config.json and recipes, read by the rank that sees the checkpoint.
    ModelFiles share_model_files() {
        ByteWriter out;
        mpi::collectively(comm_, [&] {
            if (comm_.rank() == survey_.home) {
                encode(read_model_files(options_, survey_.location), out);
            }
        });
        const auto bytes = comm_.broadcast(out.take(), survey_.home);
        ByteReader in(bytes);
        return decode_model_files(in);
    }

    void prepare() {
        files_ = share_model_files();
        source_ = {survey_.location.directory, &survey_.catalogue.files, options_.max_open};
        choice_ = plan_choice(options_, shared_memory_limit());
        bind(options_.tie_word_embedding);
        const auto untied = compare_same(comm_, binding_, source_, survey_.visibility, choice_);
        if (!untied.empty()) {
            keep_untied(untied.front());
        }
        for (const plan::Warning& warning : prepared_.warnings) {
            warn(warning);
        }
        for (const plan::Warning& warning : binding_.warnings) {
            warn(warning);
        }
        report_.ledger = binding_.ledger;
        watch_.lap("bind");
    }

    void bind(bool tie) {
        mpi::collectively(comm_, [&] {
            Options options = options_;
            options.tie_word_embedding = tie;
            prepared_ = prepare_model(files_, options, survey_.catalogue);
            binding_ = bind_model(prepared_, options_, metadata());
        });
    }

    /// The tensors move into the binding, the list of files stays.
    catalogue::Catalogue metadata() {
        catalogue::Catalogue moved = std::move(survey_.catalogue);
        survey_.catalogue = {};
        survey_.catalogue.files = moved.files;
        survey_.catalogue.facts = moved.facts;
        return moved;
    }

    /// A tied model whose head differs: both are kept, unless the checkpoint itself says that they
    /// are one.
    void keep_untied(const Untied& untied) {
        const std::string text = untied.stored_name + " differs from " + untied.target + " in " +
                                 std::to_string(untied.n_elements) +
                                 " elements, though the model ties them";
        const auto shared = survey_.catalogue.facts.find("shared_embeddings");
        if (shared != survey_.catalogue.facts.end() && shared->second == 1) {
            throw Error(
                ErrorCode::mismatch,
                text + " and the training job shared them: the checkpoint contradicts itself");
        }
        survey_ = survey(comm_, input_request(options_));
        models::Config config = models::Config::parse(files_.config_text, files_.config_path);
        config.set("tie_word_embeddings", "false");
        files_.config_text = config.text_to_write();
        bind(false);
        warn({"tied_differs", untied.stored_name,
              text + ": both are written and config.json's tie_word_embeddings is set to false"});
    }

    /// The smallest limit of all ranks, so that all make the same plan.
    Bytes shared_memory_limit() {
        const auto hosts = comm_.all_gather(std::as_bytes(std::span(comm_.host())));
        const auto local =
            std::count(hosts.begin(), hosts.end(), hosts[static_cast<std::size_t>(comm_.rank())]);
        const Bytes mine = default_memory_limit(system_memory_sources(), static_cast<int>(local));
        return static_cast<Bytes>(-comm_.all_max(-static_cast<Index>(mine)));
    }

    void make_plan() {
        plan_ = mpi::collectively_get(comm_, [&] {
            return plan::make_plan(std::move(binding_.targets), survey_.catalogue.files,
                                   survey_.visibility, choice_);
        });
        if (plan_.sample_every > 1) {
            warn({"replicas_sampled", "",
                  "replicas amount to " + human_bytes(plan_.replica_bytes) + ": every " +
                      std::to_string(plan_.sample_every) +
                      "th megabyte is compared; --replicas verify compares all"});
        }
        log_.info("writing " + human_bytes(plan_.placement.tensor_bytes) + " in " +
                  std::to_string(plan_.targets.size()) + " tensors and " +
                  std::to_string(plan_.placement.files.size()) + " files with " +
                  std::to_string(comm_.size()) + " ranks, " +
                  std::string(plan::name_of(plan_.strategy)) + " (" + plan_.why + ")");
        watch_.lap("plan");
    }

    void warn(const plan::Warning& warning) {
        report_.warnings.push_back(warning);
        if (options_.strict) {
            throw Error(ErrorCode::strict,
                        warning.text + " (" + warning.code + ", an error under --strict)");
        }
        log_.warning(warning.text);
    }

    /// Everything up to the last rename happens in the partial directory; its owner removes it when
    /// anything fails.
    void write() {
        std::optional<publish::PartialDirectory> partial;
        mpi::collectively(comm_, [&] {
            if (is_first()) {
                partial.emplace(publish::PartialDirectory::create(target_request()));
                publish::check_space(partial->path(), plan_.placement.total_bytes(),
                                     static_cast<Index>(plan_.placement.files.size()));
            }
        });
        const fs::path directory = share_path(partial ? partial->path() : fs::path());
        publish::check_same_directory(comm_, directory);
        mpi::collectively(comm_, [&] {
            if (is_first()) {
                execute::create_files(plan_, directory);
            }
        });
        watch_.lap("create");
        execute_plan(directory);
        mpi::collectively(comm_, [&] {
            if (comm_.rank() == survey_.home) {
                publish::Facts facts =
                    publish::facts_of(plan_.targets, binding_.logicals, *prepared_.recipe);
                facts.to_token_classes = options_.is_value_model;
                publish::write_assets(side_files(files_, prepared_, facts, plan_.placement),
                                      directory, options_.sync);
            }
        });
        mpi::collectively(comm_, [&] {
            if (partial) {
                partial->commit(options_.sync);
            }
        });
        watch_.lap("publish");
        log_.info("wrote " + options_.target_dir.string());
    }

    fs::path share_path(const fs::path& path) {
        const std::string text = path.string();
        const auto bytes = std::as_bytes(std::span(text));
        const auto shared = comm_.broadcast({bytes.begin(), bytes.end()}, 0);
        return std::string(reinterpret_cast<const char*>(shared.data()), shared.size());
    }

    void execute_plan(const fs::path& directory) {
        const bool is_terminal = isatty(STDERR_FILENO) != 0;
        const ProgressStyle style = !log_.shows(LogLevel::info) ? ProgressStyle::silent
                                    : is_terminal               ? ProgressStyle::redrawn
                                                                : ProgressStyle::lines;
        Progress progress(log_.stream(), style, {plan_.placement.tensor_bytes, plan_.cuts[1]},
                          steady_clock());
        execute::Options options;
        options.sync = options_.sync;
        options.digests = options_.report.has_value();
        options.on_progress = [&](Bytes done) { progress.update(done); };
        const execute::Result result = execute::run(comm_, plan_, source_, directory, options);
        progress.finish();
        require_equal_replicas(result, plan_, survey_.catalogue.files);
        Phase& phase = watch_.lap("execute");
        report_.ranks = result.ranks;
        for (const execute::RankResult& rank : result.ranks) {
            phase.bytes_read += rank.bytes_read;
            phase.bytes_written += rank.bytes_written;
            phase.bytes_sent += rank.bytes_sent;
            // A message limit cuts one round of reading into several of exchanging.
            report_.rounds = std::max({report_.rounds, rank.rounds, rank.exchange_steps});
        }
        if (options.digests && is_first()) {
            report_.tensors = tensor_entries(plan_, survey_.catalogue.files, result.tensor_digests);
            report_.root = execute::root_digest(plan_, result.tensor_digests);
        }
    }

    mpi::Comm& comm_;
    const Options& options_;
    Log& log_;
    Report& report_;
    Stopwatch watch_;
    Survey survey_;
    ModelFiles files_;
    PreparedModel prepared_;
    plan::Binding binding_;
    plan::Choice choice_;
    execute::Source source_;
    plan::Plan plan_;
};

void finish_report(Report& report, const Options& options, const std::vector<Phase>& phases,
                   mpi::Comm& comm, Log& log) {
    if (!options.report || comm.rank() != 0) {
        return;
    }
    report.phases = phases;
    try {
        write_report(report, *options.report);
    } catch (const Error& error) {
        log.error(error.full_text());
        report.code = report.code == ErrorCode::ok ? error.code() : report.code;
    }
}

/// Ranks started with different options would make different plans and wait for each other;
/// directories may differ (node-local disks).
void require_equal_options(mpi::Comm& comm, const Options& options) {
    ByteWriter out;
    out.put_text(options.backend + " " + options.role);
    out.put_all<Index>(std::vector<Index>{
        options.iteration.value_or(-1), options.dtype ? static_cast<Index>(*options.dtype) : -1,
        static_cast<Index>(options.max_shard_size),
        static_cast<Index>(options.memory_limit.value_or(0)),
        static_cast<Index>(options.message_limit), static_cast<Index>(options.strategy),
        static_cast<Index>(options.replicas), options.strict ? 1 : 0,
        options.tie_word_embedding ? 1 : 0, options.is_value_model ? 1 : 0,
        options.report.has_value() ? 1 : 0});
    const auto all = comm.all_gather(out.take());
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank] != all[0]) {
            throw Error(ErrorCode::usage, "ranks 0 and " + std::to_string(rank) +
                                              " were started with different options: only "
                                              "directories may differ between ranks");
        }
    }
}

}  // namespace

int merge(mpi::Comm& comm, const Options& options, Log& log) {
    require_equal_options(comm, options);
    Report report;
    report.command = "merge";
    report.mpi = comm.library();
    report.n_ranks = comm.size();
    for (const auto& host : comm.all_gather(std::as_bytes(std::span(comm.host())))) {
        report.hosts.emplace_back(reinterpret_cast<const char*>(host.data()), host.size());
    }
    Merge merge(comm, options, log, report);
    try {
        merge.run();
    } catch (const Error& error) {
        report.code = error.code();
        report.message = error.full_text();
        finish_report(report, options, merge.phases(), comm, log);
        throw;
    }
    finish_report(report, options, merge.phases(), comm, log);
    return static_cast<int>(comm.all_max(static_cast<Index>(report.code)));
}

}  // namespace shardweld::app
