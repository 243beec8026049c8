// The way from a checkpoint to finished tensors, which merge and test share: survey, model, bind,
// plan, execute. Knows the order of the steps; nothing of where finished tensors go.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shardweld/execute/run.hpp"
#include "shardweld/mpi/comm.hpp"
#include "shardweld/plan/plan.hpp"
#include "shardweld/publish/config_edits.hpp"

#include "../cli/log.hpp"
#include "../cli/options.hpp"
#include "../family/model.hpp"
#include "../report/report.hpp"
#include "../runtime/memory_forecast.hpp"
#include "../runtime/memory_meter.hpp"
#include "../runtime/stopwatch.hpp"
#include "../survey/record_check.hpp"
#include "../survey/survey.hpp"

namespace shardweld::app {

/// One assembly: what was asked for, and what is known so far. The references must outlive it.
class Assembly {
  public:
    Assembly(mpi::Comm& comm, const Options& options, Log& log, Report& report, Stopwatch& watch)
        : comm_(comm), options_(options), log_(log), report_(report), watch_(watch) {}

    /// Collective. Everything before the first tensor byte: reads the metadata, binds it to the
    /// model, compares tied tensors and plans. The report and the log say what was found.
    /// `between_steps` is called on all ranks and may throw the same Error on all.
    void prepare(const std::function<void()>& between_steps = [] {});

    /// Collective, after prepare; nothing without --check_crc before. Reads all records and
    /// compares them with the checksums in the files. Error(corrupt), Error(stopped).
    void check_crcs(const mpi::WhyStop& why_stop);

    /// Collective, after prepare. Creates the plan's files in `directory`; formats that hold
    /// config.json get this text.
    void create_files(const io::Directory& directory, const std::string& config_text);

    /// Collective, after prepare. Executes the plan with `options` (progress and digests are set
    /// here), what is not done yet shared evenly; bytes that are not as the records' checksums say
    /// are Error(corrupt), replicas that differ Error(mismatch).
    /// `directory` as in execute::run.
    void execute(const io::Directory& directory, execute::Options options);

    /// Collective, after execute, when nothing is written any more: execute::check_written.
    void check_written(const io::Directory& directory, const mpi::WhyStop& why_stop) const;
    /// The plan's files as they were made.
    [[nodiscard]] const execute::Created& created() const { return created_; }

    /// Puts a warning into the report, and into the log unless it is a problem (--strict).
    void warn(const plan::Warning& warning);
    /// The warnings so far as errors of their own, alike on all ranks; none without --strict.
    [[nodiscard]] std::vector<Error> strict_problems() const;

    [[nodiscard]] const plan::Plan& plan() const { return plan_; }
    /// Of the file with a fold's factors, which lies beside the output meanwhile; 0: none.
    [[nodiscard]] Bytes factor_bytes() const {
        return factor_plan_ ? factor_plan_->placement.total_bytes() : 0;
    }
    /// Where the checkpoint's files lie.
    [[nodiscard]] const execute::Source& source() const { return source_; }
    /// What the files' metadata say, on the first rank.
    [[nodiscard]] const std::vector<InputDigest>& digests() const { return survey_.digests; }
    [[nodiscard]] const plan::Binding& binding() const { return bound_.binding; }
    /// False: an adapter is written, without a model.
    [[nodiscard]] bool has_model() const { return bound_.has_model; }
    /// What is written beside a split adapter, "" if there is none.
    [[nodiscard]] const std::string& adapter_config() const { return bound_.adapter_config; }
    [[nodiscard]] const ModelFiles& files() const { return files_; }
    [[nodiscard]] const PreparedModel& model() const { return prepared_; }
    /// What this rank reads and writes keeps to it.
    [[nodiscard]] const std::shared_ptr<io::Throttle>& throttle() const { return source_.throttle; }
    /// Whether the checkpoint itself holds nothing but an adapter.
    [[nodiscard]] bool holds_adapter_only() const { return holds_adapter_only_; }
    /// What the written config.json says of tie_word_embeddings; nullopt: nothing.
    [[nodiscard]] std::optional<bool> ties() const;
    /// What the written config.json has to say.
    [[nodiscard]] publish::Facts facts() const;
    /// After prepare: the memory that this rank will take.
    [[nodiscard]] MemoryForecast forecast() const;
    /// The rank that reads config and side files.
    [[nodiscard]] int home() const { return survey_.home; }

  private:
    void look();
    void read_metadata();
    void bind_all();
    void bind(bool tie);
    catalogue::Catalogue metadata();
    void keep_untied(const std::string& stored_name, const std::string& text);
    void measure();
    void make_plan();
    void tell_trace();
    void make_factors(const io::Directory& directory, const execute::Options& as);
    void check_what_was_read(const mpi::WhyStop& why_stop);
    void note_result(const execute::Result& result, bool has_digests);

    mpi::Comm& comm_;
    const Options& options_;
    Log& log_;
    Report& report_;
    Stopwatch& watch_;
    Survey survey_;
    std::optional<formats::Location> base_;  ///< --base, of an adapter
    bool holds_adapter_only_ = false;
    ModelFiles files_;
    PreparedModel prepared_;
    Bound bound_;
    plan::Choice choice_;
    execute::Source source_;
    plan::Plan plan_;
    std::shared_ptr<execute::RecordSums> sums_;  ///< of the checkpoint's records
    execute::Created created_;
    execute::Written written_;
    std::vector<std::string> trace_;
    std::optional<plan::Plan> factor_plan_;  ///< what folding needs first
    MemoryMeter meter_;
};

}  // namespace shardweld::app
