#include "pickle_arena.hpp"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include "core/text.hpp"
#include "io/input_file.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

#include "pickle.hpp"

namespace shardweld::formats {

namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): one for each thread
thread_local PickleMemory* kept_memory = nullptr;

}  // namespace

PickleMemory::PickleMemory() : outer_(std::exchange(kept_memory, this)) {}

PickleMemory::~PickleMemory() {
    kept_memory = outer_;
}

std::vector<std::byte> PickleMemory::spare_bytes() {
    return kept_memory == nullptr ? std::vector<std::byte>()
                                  : std::exchange(kept_memory->bytes_, {});
}

PickleArena::PickleArena(std::vector<std::byte> bytes)
    : bytes_(std::move(bytes)),
      next_chunk_(std::clamp(bytes_.size() * 4, kSmallestChunk, kLargestChunk)) {}

std::string_view Pickle::bytes() const {
    return memory_->bytes();
}

PickleArena::~PickleArena() {
    if (kept_memory == nullptr) {
        return;
    }
    kept_memory->chunks_.splice(kept_memory->chunks_.begin(), chunks_);
    if (kept_memory->bytes_.size() < bytes_.size()) {
        kept_memory->bytes_ = std::move(bytes_);
    }
}

std::string_view PickleArena::keep(std::string_view text) {
    auto* const chars = static_cast<char*>(allocate(text.size()));
    std::memcpy(chars, text.data(), text.size());
    return {chars, text.size()};
}

void* PickleArena::from_new_chunk(std::size_t size) {
    const auto fresh = [](std::size_t n_bytes) {
        return std::make_unique_for_overwrite<std::byte[]>(n_bytes);
    };
    if (size > kLargestChunk / 4) {
        return others_.emplace_back(fresh(size)).get();
    }
    const std::size_t chunk = std::max(next_chunk_, size);
    next_chunk_ = std::min(chunk * 2, kLargestChunk);
    Chunks& chunks = chunk == kLargestChunk ? chunks_ : others_;
    if (chunk == kLargestChunk && kept_memory != nullptr && !kept_memory->chunks_.empty()) {
        chunks.splice(chunks.end(), kept_memory->chunks_, kept_memory->chunks_.begin());
    } else {
        chunks.push_back(fresh(chunk));
    }
    at_ = chunks.back().get();
    end_ = at_ + chunk;
    return std::exchange(at_, at_ + size);
}

void check_start(const io::InputFile& file, Bytes offset, Bytes size) {
    constexpr Bytes kLarge = Bytes{1} << 20U;
    constexpr std::size_t kLooked = 65536;
    if (size <= kLarge || offset > file.size() || size > file.size() - offset) {
        return;  // cheap to read, or refused by its reader
    }
    std::vector<std::byte> first(kLooked);
    file.read_at(offset, first);
    Bytes consumed = 0;
    try {
        consumed = Pickle::parse(std::move(first)).consumed();
    } catch (const PickleCutShort&) {
        return;
    }
    throw Error(ErrorCode::corrupt, "pickle: it ends after " + std::to_string(consumed) + " of " +
                                        std::to_string(size) +
                                        " bytes: zeros or other bytes lie behind it");
}

std::vector<std::byte> read_pickle(const fs::path& path) {
    {
        const auto file = io::InputFile::open(path);
        check_start(file, 0, file.size());
    }
    return io::read_bytes(path, kMaxPickleBytes);
}

void throw_no_memory(const fs::path& path) {
    std::error_code failed;
    const auto size = fs::file_size(path, failed);
    throw Error(ErrorCode::memory,
                "memory ran out while the file " + path.string() +
                    (failed ? std::string() : " of " + human_bytes(size)) + " was examined",
                "give the job more memory per rank, or fewer ranks on a node");
}

}  // namespace shardweld::formats
