#include "merge.hpp"

#include "shardweld/core/codec.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/mpi/shared_text.hpp"
#include "shardweld/publish/assets.hpp"
#include "shardweld/publish/config_edits.hpp"
#include "shardweld/publish/target.hpp"

#include "../family/lora.hpp"
#include "../merge/aftermath.hpp"
#include "../merge/assembly.hpp"
#include "../merge/preflight.hpp"
#include "../merge/result_check.hpp"
#include "../merge/resumption.hpp"
#include "../merge/room.hpp"
#include "../merge/stopping.hpp"
#include "../merge/striping.hpp"
#include "../merge/target.hpp"
#include "../report/report_place.hpp"
#include "../report/reported.hpp"
#include "../report/roof.hpp"
#include "../runtime/memory_check.hpp"
#include "../runtime/resources.hpp"
#include "../runtime/stop.hpp"
#include "../runtime/watchdog.hpp"
#include "upload.hpp"

namespace shardweld::app {

namespace {

Options with_memory(Options options, std::optional<Bytes> memory) {
    options.memory_limit = memory;
    return options;
}

/// One merge: an assembly whose tensors are written and published.
class Merge {
  public:
    Merge(mpi::Comm& comm, const Options& options, Log& log, Report& report, Stopwatch& watch)
        : comm_(comm),
          options_(options),
          log_(log),
          report_(report),
          watch_(watch),
          memory_(options.base ? std::optional(half_memory(comm, options.memory_limit))
                               : options.memory_limit),
          assembled_(with_memory(options, memory_)),
          assembly_(comm, assembled_, log, report, watch) {}

    void run() {
        upload::Access access = merge();
        if (is_uploaded()) {
            upload_directory(comm_, options_, options_.target_dir, access, log_);
            watch_.lap("upload");
        }
    }

  private:
    /// Whether the same command may do better another time: not where the checkpoint is wrong, or
    /// has become another.
    [[nodiscard]] bool can_go_on(ErrorCode code) const {
        return code != ErrorCode::mismatch && code != ErrorCode::corrupt &&
               code != ErrorCode::unsupported &&
               !has_changed_input(*begun_, assembly_.plan().visibility, comm_.rank(),
                                  assembly_.source().directory);
    }

    [[nodiscard]] bool is_first() const { return comm_.rank() == 0; }

    /// Everything up to a published model.
    upload::Access merge() {
        const Stopping stopping(comm_, options_.stop_before, log_);
        Watchdog watchdog(comm_, options_.stall_timeout);
        watchdog.enter("checking the target, reading metadata and planning");
        upload::Access access;
        prepare(access, stopping);
        say_plan();
        watchdog.enter("checking checksums");
        assembly_.check_crcs([&] { return stopping.why_before_writing(); });
        stopping.check(comm_);
        try {
            write(stopping, watchdog);
        } catch (const Error& error) {
            // A refusal to resume touches nothing.
            if (begun_ && partial_ && !can_go_on(error.code())) {
                partial_->forget_work();
            }
            // The first rank speaks for all.
            const std::string kept =
                begun_ && partial_ ? kept_text(assembly_.plan(), *partial_) : "";
            throw Error(error.code(), error.full_text() + kept);
        }
        return access;
    }

    [[nodiscard]] bool is_uploaded() const { return !options_.upload_path.empty(); }

    /// Everything that is known to go wrong is said before the first byte is written.
    void prepare(upload::Access& access, const Stopping& stopping) {
        Preflight preflight;
        preflight.check([&] { check_target(comm_, options_); });
        preflight.check([&] { check_report(comm_, options_, options_.target_dir); });
        preflight.check([&] { roof_ = look_at_roof(comm_, options_, comm_.size(), log_); });
        if (is_uploaded()) {
            preflight.check([&] { access = prepare_upload(comm_, options_); });
        }
        if (preflight.check([&] { assembly_.prepare([&] { stopping.check(comm_); }); })) {
            preflight.check([&] { check_inputs_apart(comm_, options_, assembly_.source()); });
            FilesBeside beside;
            preflight.check(
                [&] { beside = look_beside(comm_, assembly_.home(), [&] { return assets(); }); });
            preflight.check([&] { check_room(beside); });
            preflight.check([&] { check_memory(comm_, [&] { return assembly_.forecast(); }); });
            preflight.check([&] { require_memory(comm_, assembly_.plan()); });
            preflight.check([&] { require_readable(beside); });
        }
        preflight.add(assembly_.strict_problems());
        preflight.require_none();
    }

    void check_room(const FilesBeside& beside) {
        const publish::Room room = room_of_target(comm_, options_);
        report_.quotas = quotas_of(room);
        log_.debug("quotas of the target's file system: " + quotas_text(*report_.quotas));
        require_room(comm_, options_, room,
                     needs_of(assembly_.plan(), beside, assembly_.factor_bytes()));
    }

    /// How near to the roof the merge came; where one is known, on rank 0.
    void report_speed() {
        if (!roof_) {
            return;
        }
        report_.roof = beside(*roof_, watch_.phases(), assembly_.plan());
        log_.info(text_of(*report_.roof));
    }

    void say_plan() {
        const plan::Plan& plan = assembly_.plan();
        log_.info("writing " + human_bytes(plan.placement.tensor_bytes) + " in " +
                  std::to_string(plan.targets.size()) + " tensors and " +
                  std::to_string(plan.placement.files.size()) + " files with " +
                  std::to_string(comm_.size()) + " ranks, " +
                  std::string(plan::name_of(plan.strategy)) + " (" + plan.why + ")");
    }

    /// Everything up to the last rename happens in the partial directory; its owner removes it when
    /// anything fails, unless there is something to go on with.
    void write(const Stopping& stopping, Watchdog& watchdog) {
        watchdog.enter("preparing the output");
        open_partial();
        const fs::path directory =
            mpi::shared_text(comm_, partial_ ? partial_->path().string() : "");
        const io::Directory ours = publish::check_same_directory(comm_, directory);
        execute::Options options;
        options.why_stop = [&] { return stopping.why(); };
        publish::RunFacts run =
            run_facts(comm_, options_, assembly_.plan(), assembly_.source(), assembly_.digests());
        options.resumption = take_up(comm_, assembly_.plan(), run, partial_ ? &*partial_ : nullptr);
        assembly_.create_files(
            ours,
            publish::true_config(assembly_.model().config, assembly_.facts()).text_to_write());
        begin_journal(std::move(run));
        watchdog.enter("moving tensors");
        execute(ours, std::move(options));
        watchdog.enter("publishing");
        write_side_files(ours);
        const publish::PlannedFiles files = planned();
        hash(ours, files, stopping);
        check(ours, stopping);
        mpi::collectively(comm_, [&] {
            if (partial_) {
                partial_->commit(files, options_.sync);
                say_notes();
            }
        });
        watch_.lap("publish");
        log_.info("wrote " + options_.target_dir.string());
        report_speed();
    }

    void open_partial() {
        mpi::collectively(comm_, [&] {
            if (!is_first()) {
                return;
            }
            partial_.emplace(publish::PartialDirectory::create(target_request(options_)));
            say_notes();
            if (partial_->is_taken_up()) {
                return;
            }
            if (options_.resume) {
                log_.info("nothing to resume for " + options_.target_dir.string() +
                          ": starting from the beginning");
            }
            stripe(partial_->path(), options_);
        });
    }

    void begin_journal(publish::RunFacts facts) {
        mpi::collectively(comm_, [&] {
            if (is_first()) {
                start_journal(facts, *partial_, options_.sync);
            }
        });
        begun_ = std::move(facts);
    }

    void say_notes() {
        for (const std::string& note : partial_->take_notes()) {
            log_.warning(note);
        }
    }

    /// Writes the tensors and looks at what is written.
    void execute(const io::Directory& directory, execute::Options run) {
        ResultCheck check(comm_, options_, assembly_, memory_.value_or(0));
        run.on_slice = [&](const plan::Slice& slice, std::span<const std::byte> bytes) {
            check.add(slice, bytes);
        };
        assembly_.execute(directory, std::move(run));
        for (const plan::Warning& warning : check.finish(comm_, report_, log_)) {
            assembly_.warn(warning);
        }
        if (const auto problems = assembly_.strict_problems(); !problems.empty()) {
            throw Error(all_of(problems, "warnings"));
        }
    }

    /// Everything beside the tensors: the model's files, the adapter's configuration.
    [[nodiscard]] std::vector<publish::Asset> assets() const {
        std::vector<publish::Asset> assets;
        if (assembly_.has_model()) {
            assets = side_files(assembly_.files(), assembly_.model(), assembly_.facts(),
                                assembly_.plan().placement);
        }
        if (!assembly_.adapter_config().empty()) {
            assets.push_back({kAdapterConfig, {}, assembly_.adapter_config()});
        }
        return assets;
    }

    void write_side_files(const io::Directory& directory) {
        mpi::collectively_in_steps(comm_, [&](const mpi::Step& step) {
            if (comm_.rank() == assembly_.home()) {
                beside_ = publish::write_assets(assets(), directory, options_.sync, step);
            }
        });
    }

    /// Collective. Every file of the model, and which one it is.
    publish::PlannedFiles planned() {
        publish::PlannedFiles files;
        const auto& made = assembly_.created();
        for (std::size_t at = 0; at < made.files.size(); ++at) {
            files[assembly_.plan().placement.files[at].name] = made.files[at];
        }
        ByteWriter out;
        for (const io::WrittenFile& file : beside_) {
            out.put_text(file.name.string());
            out.put(file.identity);
        }
        const auto bytes = comm_.broadcast(out.take(), assembly_.home());
        for (ByteReader in(bytes); !in.at_end();) {
            io::Identity& identity = files[in.get_text()];
            identity = in.get<io::Identity>();
            identity.inode = made.has_numbers ? identity.inode : 0;
        }
        return files;
    }

    /// In the partial directory: what is published is what was hashed.
    void hash(const io::Directory& directory, const publish::PlannedFiles& files,
              const Stopping& stopping) {
        if (!options_.sha256) {
            return;
        }
        const auto open = [&](const std::string& name) -> std::optional<io::InputFile> {
            io::require_same_file(directory, name, files.at(name));
            return io::InputFile::open(directory, name);
        };
        const auto names = [&] {
            std::vector<std::string> all;
            for (const auto& [name, identity] : files) {
                all.push_back(name.string());
            }
            return all;
        };
        report_.files = hash_files(comm_, open, assembly_.home(), names, assembly_.throttle().get(),
                                   [&] { return stopping.why(); });
        watch_.lap("sha256");
    }

    /// Behind everything else that is written or read: what is published is what was checked.
    void check(const io::Directory& directory, const Stopping& stopping) {
        assembly_.check_written(directory, [&] { return stopping.why(); });
        mpi::collectively_in_steps(comm_, [&](const mpi::Step& step) {
            for (const io::WrittenFile& file : beside_) {
                io::require_as_written(directory, file,
                                       {true, options_.paranoid, [&](Bytes) { step(); }});
            }
        });
        watch_.lap("check");
    }

    mpi::Comm& comm_;
    const Options& options_;
    Log& log_;
    Report& report_;
    Stopwatch& watch_;
    std::optional<MeasuredRoof> roof_;
    std::optional<publish::PartialDirectory> partial_;  ///< the first rank's
    std::optional<publish::RunFacts> begun_;            ///< blocks are written down
    std::optional<Bytes> memory_;  ///< of the assembly; as much is left to compare with a base
    std::vector<io::WrittenFile> beside_;  ///< the home rank's: all that is no tensor
    Options assembled_;
    Assembly assembly_;
};

}  // namespace

int merge(mpi::Comm& comm, const Options& options, Log& log) {
    return run_reported(comm, options, log, "merge", [&](Report& report, Stopwatch& watch) {
        Merge(comm, options, log, report, watch).run();
        return ErrorCode::ok;
    });
}

}  // namespace shardweld::app
