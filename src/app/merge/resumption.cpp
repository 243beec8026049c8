#include "resumption.hpp"

#include <algorithm>
#include <utility>

#include <sys/stat.h>

#include "app/runtime/version.hpp"
#include "app/settings/settle.hpp"
#include "core/error_of.hpp"
#include "core/text.hpp"
#include "io/stamp.hpp"
#include "mpi/share.hpp"
#include "plan/plan.hpp"

namespace shardweld::app {

namespace {

/// The first group that sees a file: its copy's time counts, as copies on other hosts may have
/// other ones.
std::uint32_t group_for(const plan::Visibility& visibility, std::size_t file) {
    const auto& sees = visibility.group_sees;
    const auto first = std::ranges::find_if(sees, [&](const auto& files) { return files[file]; });
    return first == sees.end() ? 0 : static_cast<std::uint32_t>(first - sees.begin());
}

/// Sizes, times and numbers as they were before any metadata was read.
std::vector<publish::InputFact> inputs_of(mpi::Comm& comm, const plan::Visibility& visibility,
                                          const Input& input) {
    const std::vector<catalogue::File>& files = input.files;
    const auto& groups = visibility.group_of_rank;
    const std::uint32_t own = groups[as_size(comm.rank())];
    const bool speaks = std::ranges::find(groups, own) - groups.begin() == comm.rank();
    std::vector<std::pair<std::uint64_t, io::FileStamp>> mine;
    for (std::size_t file = 0; speaks && file < files.size(); ++file) {
        if (group_for(visibility, file) == own) {
            mine.emplace_back(file, input.stamps[file]);
        }
    }
    const auto all = mpi::gather_all(comm, std::move(mine));
    std::vector<publish::InputFact> facts;
    for (std::size_t file = 0; comm.rank() == 0 && file < files.size(); ++file) {
        const InputDigest digest =
            file < input.digests.size() ? input.digests[file] : InputDigest();
        facts.push_back({files[file].path,
                         {},
                         digest.value,
                         digest.has_all_checksums && input.is_checked && input.sums != nullptr});
    }
    for (const auto& [file, stamp] : all) {
        if (comm.rank() == 0) {
            facts[file].stamp = stamp;
            facts[file].stamp.size = files[file].size;
        }
    }
    return facts;
}

Bytes bytes_of(const std::vector<execute::DoneBlock>& blocks, const plan::Plan& plan) {
    return plan::total_of(execute::BlockPlaces(plan).ranges(blocks));
}

/// Those files of the output that are there, where the file system tells of changes.
publish::OutputStamps stamps_of(const plan::Plan& plan, const fs::path& directory) {
    publish::OutputStamps stamps;
    for (const outputs::PlacedFile& file : plan.placement.files) {
        const fs::path path = directory / file.name;
        struct stat now {};
        if (::stat(path.c_str(), &now) == 0) {
            const io::FileStamp stamp = io::stamp_of(now, path.c_str());
            if (stamp.inode != 0 && stamp.changed_ns != 0) {
                stamps[file.name] = stamp;
            }
        }
    }
    return stamps;
}

/// Leaves of the blocks that were read back those in files that nobody has touched since a run
/// stopped in order.
void keep_untouched(execute::JournalRead& read, const plan::Plan& plan,
                    const publish::PartialDirectory& partial) {
    const publish::OutputStamps then = publish::read_stamps(partial.journal());
    const publish::OutputStamps now = stamps_of(plan, partial.path());
    std::erase_if(read.seen, [&](const execute::SeenBlock& seen) {
        const std::string& name = plan.placement.files[plan.placement.slots[seen.tensor].file].name;
        auto* const before = find_value(then, name);
        auto* const at = find_value(now, name);
        return at == nullptr || before == nullptr || *at != *before;
    });
}

std::set<fs::path> files_of(const plan::Plan& plan) {
    return collect_set<fs::path>(plan.placement.files, &outputs::PlacedFile::name);
}

}  // namespace

publish::RunFacts way_of(const Job& job, const JobOutput& output) {
    auto* const replicas = find_value(job.given, "replicas");
    return {version() + " (" + git_version() + ")",
            {},
            replicas == nullptr ? "auto" : *replicas,
            output_options(job, output),
            {}};
}

publish::RunFacts run_facts(const Run& run, const Output& output, const Input& input) {
    publish::RunFacts facts = way_of(run.job, output.asked());
    facts.plan = output.plan.hash();
    facts.inputs = inputs_of(run.comm, output.plan.visibility, input);
    return facts;
}

execute::Resumption take_up(mpi::Comm& comm, const plan::Plan& plan, const publish::RunFacts& facts,
                            publish::PartialDirectory* partial) {
    return mpi::share(comm, 0, [&] {
        execute::JournalRead read;
        std::size_t n_known = 0;
        if (partial->is_taken_up()) {
            publish::require_same(publish::read_header(partial->journal()), facts, partial->path());
            read = execute::read_journal(partial->journal(), plan);
            n_known = read.blocks.size() + read.seen.size();
            keep_untouched(read, plan, *partial);
            partial->keep_only(files_of(plan));
        }
        execute::Resumption resumption;
        resumption.journal = partial->journal();
        resumption.session = read.last_session + 1;
        resumption.blocks = std::move(read.blocks);
        resumption.n_known = n_known;
        resumption.seen = std::move(read.seen);
        resumption.sums = std::move(read.sums);
        return resumption;
    });
}

void note_reuse(const execute::Result& result, Bytes total, OutputReport& report, Log& log) {
    Resumed& all = report.resumed.emplace();
    for (const execute::RankResult& rank : result.ranks) {
        all.blocks_reused += rank.blocks_reused;
        all.bytes_reused += rank.bytes_reused;
        all.bytes_redone += rank.bytes_damaged;
        all.bytes_seen += rank.bytes_seen;
    }
    if (all.bytes_reused + all.bytes_redone == 0) {
        return;  // nothing was there: said already
    }
    log.info("reused " + human_bytes(all.bytes_reused) + " of " + human_bytes(total) + " (" +
             std::to_string(all.bytes_reused * 100 / std::max<Bytes>(total, 1)) + " %)" +
             (all.bytes_seen == 0 ? ""
                                  : ", " + human_bytes(all.bytes_seen) +
                                        " of it read back by an earlier run and untouched since"));
    if (all.bytes_redone > 0) {
        log.warning(human_bytes(all.bytes_redone) +
                    " that an earlier run had written are damaged and will be written again");
    }
}

bool has_changed_input(const publish::RunFacts& facts, const plan::Visibility& visibility, int rank,
                       const fs::path& directory) noexcept {
    try {
        const std::uint32_t own = visibility.group_of_rank[as_size(rank)];
        for (const std::size_t file : indices(facts.inputs)) {
            const publish::InputFact& then = facts.inputs[file];
            const fs::path path = directory / then.name;
            struct stat now {};
            if (group_for(visibility, file) != own || ::stat(path.c_str(), &now) != 0) {
                continue;
            }
            const io::FileStamp stamp = io::stamp_of(now, path.c_str());
            if (stamp.size != then.stamp.size || stamp.modified_ns != then.stamp.modified_ns ||
                (stamp != then.stamp && !then.is_proved)) {
                return true;
            }
        }
    } catch (const std::exception&) {
        return false;
    }
    return false;
}

std::string taken_text(const execute::Resumption& resumption, const plan::Plan& plan) {
    return resumption.blocks.empty() ? ""
                                     : human_bytes(bytes_of(resumption.blocks, plan)) + " of " +
                                           human_bytes(plan.placement.tensor_bytes);
}

void stamp_output(const plan::Plan& plan, const publish::PartialDirectory& partial) noexcept {
    (void)error_of(
        [&] { publish::write_stamps(stamps_of(plan, partial.path()), partial.journal()); });
}

void tell_kept(Error& error, const plan::Plan& plan, const publish::PartialDirectory& partial,
               std::size_t n_known) noexcept {
    try {
        const auto read = execute::read_journal(partial.journal(), plan);
        const Bytes kept = bytes_of(read.blocks, plan);
        const bool is_further = read.blocks.size() + read.seen.size() > n_known;
        if (kept > 0) {
            const std::string before = error.hint().empty() ? "" : error.hint() + "; then, ";
            error.add_context(human_bytes(kept) + " of " +
                              human_bytes(plan.placement.tensor_bytes) + " are kept in " +
                              partial.path().string());
            error.set_hint(
                before + "the same command continues from there" +
                (is_further || error.code() != ErrorCode::stopped
                     ? ""
                     : ", but this run added nothing to what was kept before: give it more time"));
        }
    } catch (const std::exception&) {
        // Nothing can be said of what cannot be read.
        return;
    }
}

}  // namespace shardweld::app
