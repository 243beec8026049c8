#include "dropper.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "core/text.hpp"
#include "execute/round.hpp"
#include "io/holes.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "io/written.hpp"
#include "shardweld/error.hpp"

namespace shardweld::execute {

namespace {

constexpr std::size_t kDroppedRecord = 32;
constexpr std::size_t kDroppedSummed = 24;
// Blocks of the file system at both ends of a range are given back with what touches it.
constexpr Bytes kAroundRange = Bytes{64} << 10U;

using DroppedRecord = std::array<std::byte, kDroppedRecord>;

DroppedRecord dropped_record(const FileRange& range) {
    DroppedRecord record{};
    std::memcpy(&record[0], &range.begin, sizeof(range.begin));
    std::memcpy(&record[8], &range.end, sizeof(range.end));
    std::memcpy(&record[16], &range.file, sizeof(range.file));
    const Digest sum = io::digest_of(std::span(record).first(kDroppedSummed));
    std::copy_n(sum.begin(), kDroppedRecord - kDroppedSummed, record.begin() + kDroppedSummed);
    return record;
}

FileRange dropped_range(const std::byte* record) {
    FileRange range;
    std::memcpy(&range.begin, record, sizeof(range.begin));
    std::memcpy(&range.end, record + 8, sizeof(range.end));
    std::memcpy(&range.file, record + 16, sizeof(range.file));
    return range;
}

/// What a file of the journal tells, up to a record that did not get to the disk: what it is about
/// was not given back.
std::vector<FileRange> dropped_ranges(const fs::path& path, std::size_t n_files) {
    constexpr Bytes kMost = Bytes{8} << 30U;
    const std::vector<std::byte> bytes = io::read_bytes(path, kMost);
    std::vector<FileRange> ranges;
    for (std::size_t at = 0; at + kDroppedRecord <= bytes.size(); at += kDroppedRecord) {
        const FileRange range = dropped_range(&bytes[at]);
        const DroppedRecord whole = dropped_record(range);
        if (range.file >= n_files || !std::equal(whole.begin(), whole.end(), &bytes[at])) {
            break;
        }
        ranges.push_back(range);
    }
    return ranges;
}

FreedRanges freed_by_all(const fs::path& journal, std::size_t n_files) {
    FreedRanges freed(n_files);
    for (const fs::directory_entry& entry : io::entries_of(journal)) {
        if (entry.path().extension() == io::kDroppedEnding) {
            for (const FileRange& range : dropped_ranges(entry.path(), n_files)) {
                freed.add(range);
            }
        }
    }
    return freed;
}

}  // namespace

Dropper::Dropper(const plan::Plan& plan, SourceFiles source, const io::Directory& output,
                 const RunOptions& options, std::vector<bool> may_drop, int rank)
    : plan_(plan),
      source_(std::move(source)),
      output_(output),
      options_(options),
      may_drop_(std::move(may_drop)),
      rank_(rank),
      places_(plan),
      consumption_(plan),
      freed_(freed_by_all(options.resumption.journal, may_drop_.size())),
      log_path_(options.resumption.journal / (std::to_string(options.resumption.session) + "-" +
                                              std::to_string(rank) + io::kDroppedEnding)) {}

void Dropper::take(const DoneBlock& block, std::vector<FileRange>& freed) {
    for (const FileRange& range : consumption_.take(places_.slice(block), rank_)) {
        if (may_drop_[range.file]) {
            freed.push_back(range);
        }
    }
}

void Dropper::take_over(std::span<const plan::OutputRange> done) {
    const std::vector<FileRange> gone = freed_.all();
    for (const plan::OutputRange& left : plan::without({0, plan_.space.begins.back()}, done)) {
        for (const plan::Slice& slice : plan::work_of(plan_, left)) {
            if (const plan::Operand* operand = consumption_.needing(slice, gone)) {
                throw Error(
                    ErrorCode::corrupt,
                    "a part of " + printable(plan_.tensor(slice.tensor).name) +
                        " that was written and checked is damaged by now, and its input "
                        "in " +
                        printable((*source_.files)[operand->file].path) + " was dropped",
                    "restore the checkpoint, or " + output_.path().string() + ", from a copy");
            }
        }
    }
    std::vector<FileRange> freed;
    for (const DoneBlock& block : options_.resumption.blocks) {
        const plan::OutputRange range = places_.range(block);
        if (plan::without(range, done).empty()) {
            take(block, freed);
        }
    }
    if (rank_ == 0) {
        give_back(freed);
    }
}

void Dropper::drop_behind(std::span<const DoneBlock> blocks) {
    require_written(blocks);
    std::vector<FileRange> freed;
    for (const DoneBlock& block : blocks) {
        take(block, freed);
    }
    give_back(freed);
}

/// Reads them from the disk, and compares their checksums.
void Dropper::require_written(std::span<const DoneBlock> blocks) const {
    std::map<std::uint32_t, std::vector<io::WrittenStretch>> by_file;
    for (const DoneBlock& block : blocks) {
        const plan::Slice slice = places_.slice(block);
        by_file[plan_.placement.slots[slice.tensor].file].push_back(
            {file_offset_of(plan_, slice), plan_.bytes_of(slice), block.digest});
    }
    for (auto& [file, stretches] : by_file) {
        std::ranges::sort(stretches, {}, &io::WrittenStretch::offset);
        const std::string& name = plan_.placement.files[file].name;
        const auto changed =
            io::first_changed(output_, name, options_.made[file], stretches, {true, true});
        if (changed) {
            io::throw_changed(output_.path() / name, "holds other bytes at offset " +
                                                         std::to_string(changed->offset) +
                                                         " than were written there");
        }
    }
}

/// On the disk before anything is given back: what is gone must be known.
void Dropper::note(const std::vector<FileRange>& freed) {
    if (!log_.is_open()) {
        log_ = io::OutputFile::create(log_path_);
        io::sync_directory(log_path_.parent_path());
    }
    std::vector<std::byte> bytes;
    for (const FileRange& range : freed) {
        const DroppedRecord record = dropped_record(range);
        bytes.insert(bytes.end(), record.begin(), record.end());
    }
    log_.write_at(log_size_, bytes);
    log_size_ += bytes.size();
    log_.sync();
}

void Dropper::give_back(const std::vector<FileRange>& freed) {
    if (freed.empty()) {
        return;
    }
    note(freed);
    std::map<std::uint32_t, std::vector<FileRange>> by_file;
    for (const FileRange& range : freed) {
        by_file[range.file].push_back(range);
    }
    for (const auto& [at, ranges] : by_file) {
        const auto file = io::HoleFile::open(source_.directory / (*source_.files)[at].path);
        for (const FileRange& range : ranges) {
            const FileRange grown = freed_.add(range);
            const Bytes before = range.begin - std::min(range.begin, kAroundRange);
            file.punch(std::max(grown.begin, before),
                       std::min(grown.end, range.end + kAroundRange));
        }
    }
}

}  // namespace shardweld::execute
