// A report read back, to be shown: what a run found and did.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/index.hpp"
#include "core/path.hpp"

namespace shardweld::app {

/// Name and value, for people.
using Fact = std::pair<std::string, std::string>;

struct RecordedPhase {
    std::string name;
    double wall_s = 0;
};

/// The wall time of all of them.
double seconds_of(const std::vector<RecordedPhase>& phases);

struct RecordedRank {
    Index rank = 0;
    std::string host;
    Bytes peak = 0;
    Bytes read = 0;
    Bytes sent = 0;
    Bytes written = 0;
    std::vector<RecordedPhase> phases;  ///< may be empty
};

/// Where bytes of the ledger went.
struct LedgerRow {
    enum class Fate { written, replica, padding, ignored };
    Fate fate = Fate::ignored;
    std::string name;
    std::string reason;
    Bytes bytes = 0;
};

/// Whether something about the run is as it should be.
struct Check {
    enum class State { good, doubtful, bad, unknown };
    State state = State::unknown;
    std::string name;
    std::string text;
};

struct RecordedFile {
    std::string name;
    Bytes bytes = 0;
};

struct RunRecord {
    std::string title;  ///< "merge"
    std::string tool;   ///< "shardweld 0.1.0 (bcbcb66)"
    Index code = 0;
    std::string ending;        ///< "ok", or the error's name
    bool is_published = true;  ///< the model got its name; reports before 0.3 do not say
    std::string message;
    std::string command;       ///< as typed, with its launcher; "" if the report does not have it
    std::string command_note;  ///< what is not known of the launcher; "" if nothing
    std::string started;       ///< "2026-02-28 23:59 UTC"; "" if the report does not have it
    std::string model;         ///< its class; "" if unknown
    std::string target;        ///< directory of the output; "" if unknown or none
    std::string input;         ///< directory, or several
    std::string format;
    Bytes input_bytes = 0;
    Index n_ranks = 0;
    std::vector<Fact> facts;     ///< of input, plan and environment
    std::vector<Fact> warnings;  ///< code and text
    std::vector<Check> checks;
    std::vector<RecordedPhase> phases;
    std::vector<RecordedRank> ranks;  ///< at most kMostRows of them
    std::vector<LedgerRow> ledger;    ///< at most kMostRows; the rest in the last one
    Bytes stored = 0;                 ///< all of the ledger
    std::vector<RecordedFile> files;
    std::vector<RecordedFile> largest;  ///< tensors
    std::size_t n_tensors = 0;
    Bytes tensor_bytes = 0;

    static constexpr std::size_t kMostRows = 4096;

    [[nodiscard]] double seconds() const { return seconds_of(phases); }
    /// "Qwen3ForCausalLM in merged": the model and where it is, or what else is known.
    [[nodiscard]] std::string headline() const;
    /// The ranks worth a line each, where there are too many for all: evenly chosen, with the one
    /// that took longest, in their order.
    [[nodiscard]] std::vector<const RecordedRank*> shown_ranks(std::size_t most) const;
};

/// Error(not_found) when there is no such file, Error(corrupt) when it is no report of a run,
/// Error(unsupported) for another schema. What is missing in it or of another type is left out.
RunRecord read_run_record(const fs::path& path);

}  // namespace shardweld::app
