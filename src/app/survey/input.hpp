// What tensors are read from, when its metadata are in a plan: one checkpoint, or several.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "app/report/run.hpp"
#include "app/runtime/memory.hpp"
#include "app/settings/job.hpp"
#include "execute/record_check.hpp"
#include "execute/run.hpp"

#include "checkpoint.hpp"

namespace shardweld::app {

/// The files of all checkpoints of a run, as their tensors are read.
struct Input {
    fs::path directory;  ///< of the shard files, as this rank sees it
    std::vector<catalogue::File> files;
    plan::Visibility visibility;
    std::vector<io::FileStamp> stamps;          ///< as Checkpoint::stamps; empty: nobody asked
    std::vector<InputDigest> digests;           ///< as Checkpoint::digests
    Index n_reads = 0;                          ///< as Checkpoint::n_reads
    int home = 0;                               ///< the rank that reads config and side files
    std::shared_ptr<execute::RecordSums> sums;  ///< of the files' records; null: not looked for
    bool is_checked = false;                    ///< they are held against what is read
    RankMemory memory;

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.directory, self.files, self.visibility, self.stamps, self.digests,
                        self.n_reads, self.home, self.is_checked);
    };
};

/// Collective, with progress. A checkpoint's steps: what is there, the sums that the save lists of
/// its files, and the metadata; and all of them.
Checkpoint find_shown(const Run& run, const formats::JobInput& request);
void check_sums_shown(const Run& run, Checkpoint& found);
void read_shown(const Run& run, Checkpoint& found);
Checkpoint survey_shown(const Run& run, const formats::JobInput& request);

/// Local. Takes out of a checkpoint that was read all but its location, catalogue and provenance;
/// `memory` was measured before it. `behind`: others whose files are put behind its own, in order.
Input input_of(Checkpoint& read, const RankMemory& memory, bool is_checked,
               std::span<const Checkpoint> behind = {});

/// The sums of records of these files, which must outlive them; none of them wanted yet unless
/// `uses` says so.
std::shared_ptr<execute::RecordSums> record_sums(
    const fs::path& directory, std::span<const catalogue::File> files, catalogue::Records records,
    std::optional<std::vector<execute::RecordSums::RecordUse>> uses = std::nullopt);

/// Where the tensors are read from; points into `input`.
execute::SourceFiles source_of(const Run& run, const Input& input);

/// Collective. execute::check_records, whatever the options say, with progress.
execute::RecordCounts check_shown(const Run& run, const Input& input,
                                  execute::Completion completion, const mpi::WhyStop& why_stop);

/// Collective. What all passes so far have read is held against the records' checksums; nullopt
/// unless they are checked. Error(corrupt), Error(stopped).
std::optional<execute::RecordCounts> check_what_was_read(const Run& run, const Input& input,
                                                         const mpi::WhyStop& why_stop);

/// Collective. check_what_was_read, whose counts stand in the report.
void report_what_was_read(const Run& run, const Input& input, const mpi::WhyStop& why_stop);

/// The result of checking records, for people; "" where there is nothing to tell.
std::string text_of(const execute::RecordCounts& counts, CheckCrc when);
/// That result in three words.
std::string checksums_text(const execute::RecordCounts& counts, CheckCrc when);

}  // namespace shardweld::app
