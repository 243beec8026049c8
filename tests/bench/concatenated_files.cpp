#include "concatenated_files.hpp"

#include <algorithm>

namespace shardweld::bench {

namespace {

constexpr Bytes kPage = 4096;

}  // namespace

ConcatenatedFiles::ConcatenatedFiles(std::vector<SizedFile> files) : files_(std::move(files)) {
    for (const SizedFile& file : files_) {
        begins_.push_back(checked_add_bytes(begins_.back(), file.size, "the size of all files"));
    }
}

ConcatenatedFiles ConcatenatedFiles::make(const fs::path& directory, Bytes size, Bytes file_size) {
    std::vector<SizedFile> files;
    for (Bytes begin = 0; begin < size; begin += file_size) {
        files.push_back(
            {directory / std::to_string(files.size()), std::min(file_size, size - begin)});
    }
    return ConcatenatedFiles(std::move(files));
}

/// The file that holds a position before the end; empty files hold none.
std::size_t ConcatenatedFiles::file_at(Bytes position) const {
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), position);
    return static_cast<std::size_t>(after - begins_.begin()) - 1;
}

Bytes ConcatenatedFiles::cut(int rank, int n_ranks) const {
    const auto n = static_cast<Bytes>(n_ranks);
    const auto r = static_cast<Bytes>(rank);
    const Bytes ideal = size() / n * r + size() % n * r / n;
    if (ideal >= size()) {
        return size();
    }
    const Bytes begin = begins_[file_at(ideal)];
    return begin + (ideal - begin) / kPage * kPage;
}

ByteRange ConcatenatedFiles::share(int rank, int n_ranks) const {
    return {cut(rank, n_ranks), cut(rank + 1, n_ranks)};
}

std::vector<FilePart> ConcatenatedFiles::parts(ByteRange stretch, Bytes extent) const {
    std::vector<FilePart> parts;
    for (Bytes at = stretch.begin; at < stretch.end;) {
        const std::size_t file = file_at(at);
        const Bytes offset = at - begins_[file];
        const Bytes end = std::min(
            {stretch.end, begins_[file + 1], begins_[file] + (offset / extent + 1) * extent});
        parts.push_back({file, offset, end - at, at});
        at = end;
    }
    return parts;
}

}  // namespace shardweld::bench
