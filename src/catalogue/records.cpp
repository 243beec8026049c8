#include "records.hpp"

#include <algorithm>
#include <tuple>

#include "core/shared_text.hpp"

#include "catalogue.hpp"

namespace shardweld::catalogue {

namespace {

void add(Records& records, const Piece& piece) {
    if (piece.storage_bytes > 0) {
        records.all.push_back({piece.file, piece.crc32, piece.base, piece.storage_bytes,
                               static_cast<std::uint32_t>(records.tensors.size())});
    }
}

/// Pieces of one storage are one record. Two that overlap become one of which nothing is known.
void unite(std::vector<StorageRecord>& records) {
    std::size_t n_kept = 0;
    for (const StorageRecord& record : records) {
        StorageRecord* last = n_kept > 0 ? &records[n_kept - 1] : nullptr;
        if (last == nullptr || last->file != record.file ||
            last->offset + last->bytes <= record.offset) {
            records[n_kept++] = record;
        } else if (last->offset != record.offset || last->bytes != record.bytes) {
            last->bytes =
                std::max(last->offset + last->bytes, record.offset + record.bytes) - last->offset;
            last->crc32 = 0;
        }
    }
    records.resize(n_kept);
    records.shrink_to_fit();
}

}  // namespace

void index_files(Records& records) {
    records.begins.clear();
    for (const std::size_t i : indices(records.all)) {
        records.begins.resize(std::max(records.begins.size(), records.all[i].file + std::size_t{1}),
                              i);
    }
    records.begins.push_back(records.all.size());
}

std::size_t Records::first_behind(std::uint32_t file, Bytes byte) const {
    if (file + std::size_t{1} >= begins.size()) {
        return all.size();
    }
    const auto at = [&](std::size_t i) { return all.begin() + static_cast<std::ptrdiff_t>(i); };
    const auto found = std::partition_point(
        at(begins[file]), at(begins[file + 1]),
        [&](const StorageRecord& record) { return record.offset + record.bytes <= byte; });
    return static_cast<std::size_t>(found - all.begin());
}

std::optional<std::uint32_t> Records::at(std::uint32_t file, Bytes byte) const {
    const std::size_t i = first_behind(file, byte);
    const bool is_in = i < all.size() && all[i].file == file && all[i].offset <= byte;
    return is_in ? std::optional(static_cast<std::uint32_t>(i)) : std::nullopt;
}

void append(Records& records, const Records& later) {
    const auto n_tensors = static_cast<std::uint32_t>(records.tensors.size());
    for (StorageRecord record : later.all) {
        record.tensor += n_tensors;
        records.all.push_back(record);
    }
    append_all(records.tensors, later.tensors);
    index_files(records);
}

Records records_of(const Catalogue& catalogue) {
    Records records;
    each_tensor(catalogue, [&](const Tensor& tensor) {
        for (const Piece& piece : tensor.pieces) {
            add(records, piece);
        }
        records.tensors.push_back(SharedText(tensor.name));  // to the process' end
    });
    each_shard(catalogue, [&](const Shard& shard) {
        add(records, shard.piece);
        records.tensors.push_back(shard.name);
    });
    std::ranges::stable_sort(records.all, [](const StorageRecord& a, const StorageRecord& b) {
        return std::tie(a.file, a.offset, a.bytes) < std::tie(b.file, b.offset, b.bytes);
    });
    unite(records.all);
    index_files(records);
    return records;
}

}  // namespace shardweld::catalogue
