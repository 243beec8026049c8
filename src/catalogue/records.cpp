#include "shardweld/catalogue/records.hpp"

#include <algorithm>
#include <tuple>

#include "shardweld/catalogue/catalogue.hpp"

namespace shardweld::catalogue {

namespace {

void add(Records& records, const Piece& piece) {
    if (piece.storage_bytes > 0) {
        records.all.push_back({piece.file, piece.crc32, piece.base, piece.storage_bytes,
                               static_cast<std::uint32_t>(records.tensors.size())});
    }
}

/// Pieces of one storage are one record. Two that overlap become one of which nothing is known.
void unite(std::vector<Record>& records) {
    std::size_t n_kept = 0;
    for (const Record& record : records) {
        Record* last = n_kept > 0 ? &records[n_kept - 1] : nullptr;
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

std::size_t Records::first_behind(std::uint32_t file, Bytes byte) const {
    const auto ends_before = [&](const Record& record, Bytes at) {
        return std::tuple(record.file, record.offset + record.bytes) <= std::tuple(file, at);
    };
    return static_cast<std::size_t>(std::lower_bound(all.begin(), all.end(), byte, ends_before) -
                                    all.begin());
}

std::optional<std::uint32_t> Records::at(std::uint32_t file, Bytes byte) const {
    const std::size_t i = first_behind(file, byte);
    const bool is_in = i < all.size() && all[i].file == file && all[i].offset <= byte;
    return is_in ? std::optional(static_cast<std::uint32_t>(i)) : std::nullopt;
}

void append(Records& records, const Records& later) {
    const auto n_tensors = static_cast<std::uint32_t>(records.tensors.size());
    for (Record record : later.all) {
        record.tensor += n_tensors;
        records.all.push_back(record);
    }
    for (std::size_t i = 0; i < later.tensors.size(); ++i) {
        records.tensors.add(later.tensors[i]);
    }
}

Records records_of(const Catalogue& catalogue) {
    Records records;
    for (const Tensor& tensor : catalogue.tensors) {
        for (const Piece& piece : tensor.pieces) {
            add(records, piece);
        }
        records.tensors.add(tensor.name);
    }
    for (const Shard& shard : catalogue.shards) {
        add(records, shard.piece);
        records.tensors.add(shard.name);
    }
    std::stable_sort(records.all.begin(), records.all.end(), [](const Record& a, const Record& b) {
        return std::tie(a.file, a.offset, a.bytes) < std::tie(b.file, b.offset, b.bytes);
    });
    unite(records.all);
    return records;
}

}  // namespace shardweld::catalogue
