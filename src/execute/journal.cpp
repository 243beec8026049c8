#include "journal.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include <xxhash.h>

#include "core/text.hpp"
#include "io/input_file.hpp"
#include "io/output_file.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "plan/plan.hpp"

namespace shardweld::execute {

namespace {

constexpr std::size_t kChecked = 32;
constexpr std::size_t kEntry = kChecked + sizeof(std::uint64_t);
constexpr std::size_t kRecordsAtOnce = 4096;
constexpr Index kNone = -1;
constexpr std::uint32_t kOfInput = 1;
constexpr std::uint32_t kReadBack = 2;
constexpr std::uint64_t kMostCounted = (std::uint64_t{1} << 21U) - 1;

using JournalEntry = std::array<std::byte, kEntry>;

template <typename T>
void put_little(T value, std::byte* out) {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
        out[i] = static_cast<std::byte>((value >> (8 * i)) & 0xFFU);
    }
}

template <typename T>
T get_little(const std::byte* in) {
    T value = 0;
    for (std::size_t i = sizeof(T); i-- > 0;) {
        value = static_cast<T>(value << 8U) | static_cast<T>(std::to_integer<unsigned>(in[i]));
    }
    return value;
}

std::uint64_t check_of(const std::byte* record) {
    return XXH3_64bits(record, kChecked);
}

JournalEntry checked(JournalEntry record) {
    put_little(check_of(record.data()), record.data() + kChecked);
    return record;
}

JournalEntry record_of(const DoneBlock& block) {
    JournalEntry record{};
    put_little(static_cast<std::uint64_t>(block.number), record.data());
    put_little(block.tensor, record.data() + 8);
    std::ranges::copy(block.digest, record.begin() + 16);
    return checked(record);
}

JournalEntry record_of(const RangeSum& sum) {
    JournalEntry record{};
    put_little(sum.begin, record.data());
    put_little(sum.record, record.data() + 8);
    put_little(kOfInput, record.data() + 12);
    put_little(sum.end, record.data() + 16);
    put_little(sum.crc32, record.data() + 24);
    return checked(record);
}

JournalEntry record_of(const SeenBlock& seen) {
    const numeric::Census& census = seen.census;
    std::uint64_t counts = census.is_constant ? 1 : 0;
    for (const Index n : {census.n_zero, census.n_inf, census.n_nan}) {
        counts = (counts << 21U) | (static_cast<std::uint64_t>(n) & kMostCounted);
    }
    JournalEntry record{};
    put_little(static_cast<std::uint64_t>(seen.number), record.data());
    put_little(seen.tensor, record.data() + 8);
    put_little(kReadBack, record.data() + 12);
    put_little(counts, record.data() + 16);
    put_little(census.bits, record.data() + 24);
    return checked(record);
}

/// Whether it was written whole.
bool is_whole(const std::byte* record) {
    return get_little<std::uint64_t>(record + kChecked) == check_of(record);
}

std::uint32_t kind_of(const std::byte* record) {
    return get_little<std::uint32_t>(record + 12);
}

RangeSum sum_in(const std::byte* record) {
    return {get_little<Bytes>(record), get_little<Bytes>(record + 16),
            get_little<std::uint32_t>(record + 8), get_little<std::uint32_t>(record + 24)};
}

/// nullopt when it names no block of the plan.
std::optional<DoneBlock> block_in(const std::byte* record, const BlockPlaces& places) {
    DoneBlock block;
    block.number = static_cast<Index>(get_little<std::uint64_t>(record));
    block.tensor = get_little<std::uint32_t>(record + 8);
    std::copy_n(record + 16, block.digest.size(), block.digest.begin());
    return places.has(block) ? std::optional(block) : std::nullopt;
}

/// The census that a record holds of a block that the plan has.
numeric::Census census_in(const std::byte* record, const plan::Slice& slice, DType dtype) {
    numeric::Census census;
    if (!numeric::is_counted(dtype)) {
        return census;
    }
    auto counts = get_little<std::uint64_t>(record + 16);
    for (Index* const n : {&census.n_nan, &census.n_inf, &census.n_zero}) {
        *n = static_cast<Index>(counts & kMostCounted);
        counts >>= 21U;
    }
    census.n_elements = slice.end - slice.begin;
    census.bits = get_little<std::uint64_t>(record + 24);
    census.is_constant = counts != 0;
    census.has_nonzero = census.n_zero < census.n_elements;
    return census;
}

/// Each rank writes those that it is at work on again and again.
std::size_t most_sums(const BlockPlaces& places) {
    constexpr std::size_t kRepeated = std::size_t{1} << 16U;
    return 4 * places.count() + kRepeated;
}

std::size_t n_blocks_of(const plan::Plan& plan, std::uint32_t tensor) {
    const plan::WrittenTensor& written = plan.tensor(tensor);
    const auto block = static_cast<Bytes>(plan.block_elements(tensor)) * size_of(written.dtype);
    return (written.bytes() + block - 1) / block;
}

/// The session in a file's name "SESSION-RANK"; 0 when it is none, or none that another can follow.
Index session_in(const fs::path& path) {
    const std::string name = path.filename().string();
    const auto parts = split(name, '-');
    if (parts.size() != 2 || !parse_index(parts[1])) {
        return 0;
    }
    const Index session = parse_index(parts[0]).value_or(0);
    return session < std::numeric_limits<Index>::max() ? session : 0;
}

std::vector<std::pair<Index, fs::path>> files_by_session(const fs::path& directory) {
    std::vector<std::pair<Index, fs::path>> files;
    for (const fs::directory_entry& entry : io::entries_of(directory)) {
        if (const Index session = session_in(entry.path()); session > 0) {
            files.emplace_back(session, entry.path());
        }
    }
    std::ranges::sort(files);
    return files;
}

}  // namespace

BlockPlaces::BlockPlaces(const plan::Plan& plan) : plan_(plan), begins_(plan.tensors.size()) {
    for (const std::size_t i : indices(plan.space.order)) {
        const std::uint32_t tensor = plan.space.order[i];
        begins_[tensor] = {plan.space.begins[i], n_blocks_};
        n_blocks_ += n_blocks_of(plan, tensor) * n_together({0, tensor, {}});
    }
}

bool BlockPlaces::has(const DoneBlock& block) const {
    return block.tensor < begins_.size() && block.number >= 0 &&
           static_cast<std::size_t>(block.number) < n_blocks_of(plan_, block.tensor);
}

std::uint32_t BlockPlaces::first_of(std::uint32_t tensor) const {
    return plan_.is_constant(tensor) ? tensor : tensor - plan_.tensors[tensor].output;
}

std::size_t BlockPlaces::n_together(const DoneBlock& block) const {
    return plan_.is_constant(block.tensor) ? 1 : plan_.target_of(block.tensor).n_made();
}

bool BlockPlaces::are_together(const DoneBlock& a, const DoneBlock& b) const {
    return a.number == b.number && a.tensor != b.tensor && first_of(a.tensor) == first_of(b.tensor);
}

std::size_t BlockPlaces::index(const DoneBlock& block) const {
    const std::uint32_t first = first_of(block.tensor);
    return begins_[first].block + n_together(block) * static_cast<std::size_t>(block.number) +
           (block.tensor - first);
}

plan::OutputRange BlockPlaces::range(const DoneBlock& block) const {
    const plan::Slice part = slice(block);
    return {part.output_begin, part.output_begin + plan_.bytes_of(part)};
}

plan::Slice BlockPlaces::slice(const DoneBlock& block) const {
    const std::uint32_t first = first_of(block.tensor);
    const Index n = plan_.block_elements(first);
    const Index begin = block.number * n;
    const bool is_alone = n_together(block) == 1;
    const Bytes size = is_alone ? static_cast<Bytes>(n) * size_of(plan_.tensor(first).dtype)
                                : plan_.target_of(first).strip_bytes();
    const plan::Slice of_first{first, begin, std::min(begin + n, plan_.tensor(first).volume()),
                               begins_[first].output + static_cast<Bytes>(block.number) * size};
    return is_alone ? of_first : plan::made_with(plan_, of_first)[block.tensor - first];
}

std::vector<plan::OutputRange> BlockPlaces::ranges(std::span<const DoneBlock> blocks) const {
    std::vector<plan::OutputRange> ranges =
        collect_list(blocks, [&](const DoneBlock& block) { return range(block); });
    return plan::united(std::move(ranges));
}

JournalRead read_journal(const fs::path& directory, const plan::Plan& plan) {
    const BlockPlaces places(plan);
    JournalRead read;
    std::vector<DoneBlock> found(places.count(), DoneBlock{kNone});
    std::map<std::size_t, SeenBlock> seen;
    const auto take = [&](const std::byte* record) {
        const bool is_readable = is_whole(record);
        if (is_readable && kind_of(record) == kOfInput) {
            if (read.sums.size() < most_sums(places)) {
                read.sums.push_back(sum_in(record));
            }
            return;
        }
        const auto block = is_readable ? block_in(record, places) : std::nullopt;
        if (!block) {
            ++read.n_unreadable;
        } else if (kind_of(record) == kReadBack) {
            const DType dtype = plan.tensor(block->tensor).dtype;
            seen[places.index(*block)] = {block->number, block->tensor,
                                          census_in(record, places.slice(*block), dtype)};
        } else {
            // Written anew since it was read back, if it ever was.
            seen.erase(places.index(*block));
            found[places.index(*block)] = *block;
        }
    };
    ByteBuffer bytes;
    for (const auto& [session, path] : files_by_session(directory)) {
        read.last_session = session;
        const io::InputFile file = io::InputFile::open(path);
        const Bytes whole = file.size() / kEntry * kEntry;
        read.n_unreadable += file.size() > whole ? 1 : 0;
        for (Bytes at = 0; at < whole; at += bytes.size()) {
            bytes.resize(std::min<Bytes>(whole - at, kEntry * kRecordsAtOnce));
            file.read_at(at, bytes);
            for (std::size_t i = 0; i < bytes.size(); i += kEntry) {
                take(bytes.data() + i);
            }
        }
    }
    for (const auto& [index, block] : seen) {
        if (found[index].number != kNone) {
            read.seen.push_back(block);
        }
    }
    std::erase_if(found, [](const DoneBlock& block) { return block.number == kNone; });
    read.blocks = std::move(found);
    return read;
}

Bytes journal_bytes(const plan::Plan& plan) {
    return BlockPlaces(plan).count() * 2 * kEntry;
}

bool is_noted_late(const plan::Plan& plan) {
    return plan.space.begins.back() / static_cast<Bytes>(plan.n_ranks()) > kFlushBytes;
}

Journal::Journal(const fs::path& directory, Index session, int rank, bool sync)
    : above_(directory.parent_path()),
      path_(directory / (std::to_string(session) + "-" + std::to_string(rank))),
      sync_(sync) {}

bool Journal::is_begun() {
    is_begun_ = is_begun_ || io::is_directory(path_.parent_path());
    return is_begun_;
}

void Journal::append(std::span<const DoneBlock> blocks, std::span<const RangeSum> sums,
                     std::span<const SeenBlock> seen) {
    if (blocks.empty() && sums.empty() && seen.empty()) {
        return;
    }
    if (!file_.is_open()) {
        above_.require_same();
        file_ = io::OutputFile::create(path_);
        if (sync_) {
            io::sync_directory(path_.parent_path());
        }
    }
    ByteBuffer bytes;
    bytes.reserve((blocks.size() + sums.size() + seen.size()) * kEntry);
    const auto add = [&](const auto& items) {
        for (const auto& item : items) {
            const JournalEntry record = record_of(item);
            append_all(bytes, record);
        }
    };
    add(sums);
    add(blocks);
    add(seen);
    file_.write_at(size_, bytes);
    size_ += bytes.size();
    if (sync_) {
        file_.sync();
    }
}

}  // namespace shardweld::execute
