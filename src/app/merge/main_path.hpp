// The main path from a checkpoint to a plan: survey, prepare, bind, resolve ties, plan. Each step
// makes a value of values. Knows the order of the steps; nothing of where finished tensors go.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shardweld/execute/run.hpp"
#include "shardweld/plan/plan.hpp"
#include "shardweld/publish/config_edits.hpp"

#include "../family/model.hpp"
#include "../report/session.hpp"
#include "../runtime/memory_forecast.hpp"
#include "../runtime/memory_meter.hpp"
#include "../survey/survey.hpp"

namespace shardweld::app {

/// Ranks that are not here.
struct Crew {
    int n_ranks = 1;
    Resources resources;
};

/// In what runs that go this way differ.
struct Terms {
    Sink sink = Sink::model;
    bool halves_memory = false;     ///< the other half reads a model to compare with
    std::optional<Crew> crew = {};  ///< moves the tensors; nullopt: the session's ranks do
};

/// What stays of a checkpoint once its metadata are in a binding.
struct Input {
    fs::path directory;  ///< of the shard files, as this rank sees it
    std::vector<catalogue::File> files;
    plan::Visibility visibility;
    std::vector<io::FileStamp> stamps;          ///< as Survey::stamps
    std::vector<InputDigest> digests;           ///< as Survey::digests
    int home = 0;                               ///< the rank that reads config and side files
    bool holds_adapter_only = false;            ///< nothing but an adapter, without a base
    bool shares_embeddings = false;             ///< the job said that head and embedding are one
    std::shared_ptr<execute::RecordSums> sums;  ///< of the files' records
    std::shared_ptr<io::Throttle> throttle;     ///< what this rank reads and writes keeps to it
    MemoryMeter meter;
};

/// Where the tensors are read from; points into `input`.
execute::Source source_of(const Session& session, const Input& input);

/// Collective. What all passes so far have read is held against the records' checksums, and the
/// report counts them; nothing unless --check_crc during. Error(corrupt), Error(stopped).
void check_what_was_read(Session& session, const Input& input, const mpi::WhyStop& why_stop);

/// A model whose tensors are bound.
struct BoundModel {
    ModelFiles files;
    PreparedModel prepared;
    Bound bound;
    std::vector<std::string> trace;  ///< --trace: what is stored of it
};

/// All that is known before the first tensor byte moves.
struct Planned {
    Input input;
    BoundModel model;  ///< its targets are the plan's
    plan::Plan plan;
    std::optional<plan::Plan> factors;  ///< of a fold's factors, which are gathered first
    plan::Choice choice;                ///< that the plan was made by
    std::vector<std::string> trace;     ///< --trace

    /// Of the file with a fold's factors, which lies beside the output meanwhile; 0: none.
    [[nodiscard]] Bytes factor_bytes() const {
        return factors ? factors->placement.total_bytes() : 0;
    }
    /// What the written config.json has to say.
    [[nodiscard]] publish::Facts facts() const;
    /// config.json as it is written.
    [[nodiscard]] std::string config_text() const;
    /// What it says of tie_word_embeddings; nullopt: nothing.
    [[nodiscard]] std::optional<bool> ties() const;
    /// All files beside the tensors. Local.
    [[nodiscard]] std::vector<publish::Asset> assets() const;
    /// The memory that a rank will take.
    [[nodiscard]] MemoryForecast forecast(const mpi::Comm& comm) const;
};

/// Collective. The whole way; everything before the first tensor byte is written. The report and
/// the log say what was found. `between_steps` is called on all ranks and may throw the same Error
/// on all.
Planned make_ready(
    Session& session, const Terms& terms, const std::function<void()>& between_steps = [] {});

/// Local. Puts the plan into the first rank's report.
void report_plan(Session& session, const Planned& planned);

}  // namespace shardweld::app
