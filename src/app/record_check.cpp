#include "record_check.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/formats/shared/zip.hpp"
#include "shardweld/io/file.hpp"

namespace shardweld::app {

namespace {

constexpr Bytes kPart = Bytes{256} << 10U;

/// Of all records of a file, the name of the one that lies there, for the message; an archive
/// inside a larger file is not looked into.
std::string name_of_record(const io::InputFile& file, const CheckedRecord& record) {
    try {
        const auto archive = formats::ZipArchive::read(file, 0, file.size());
        for (const formats::NamedZipEntry& entry : archive.entries) {
            if (entry.entry.offset == record.offset) {
                return "record " + printable(std::string(entry.name)) + " ";
            }
        }
    } catch (const Error&) {
        // The bytes are named anyway.
    }
    return "the record ";
}

void check_record(const io::InputFile& file, const CheckedRecord& record,
                  std::vector<std::byte>& part, const std::function<void(Bytes)>& before_part) {
    std::uint32_t sum = 0;
    for (Bytes done = 0; done < record.bytes; done += part.size()) {
        before_part(std::min(kPart, record.bytes - done));
        part.resize(std::min(kPart, record.bytes - done));
        file.read_at(record.offset + done, part);
        sum = formats::crc32(part, sum);
    }
    if (sum != record.crc32) {
        throw Error(ErrorCode::corrupt, file.path().string() + ": " + name_of_record(file, record) +
                                            "(" + std::to_string(record.bytes) + " bytes at " +
                                            std::to_string(record.offset) + ", tensor " +
                                            printable(record.tensor) + ")" +
                                            formats::wrong_crc32(sum, record.crc32));
    }
}

/// The rank that begins where this share of all bytes lies, or another one that sees the file.
int reader_of(const CheckedRecord& record, double share, const plan::Visibility& visibility) {
    const auto n_ranks = static_cast<int>(visibility.group_of_rank.size());
    const int first = std::min(n_ranks - 1, static_cast<int>(share * n_ranks));
    for (int i = 0; i < n_ranks; ++i) {
        const int rank = (first + i) % n_ranks;
        if (visibility.sees(rank, record.file)) {
            return rank;
        }
    }
    return first;
}

}  // namespace

CheckedRecords checked_records(const catalogue::Catalogue& catalogue) {
    CheckedRecords checked;
    std::vector<CheckedRecord>& records = checked.records;
    const auto add = [&](const catalogue::Piece& piece, const std::string& tensor) {
        if (piece.storage_bytes > 0) {
            records.push_back({piece.file, piece.crc32, piece.base, piece.storage_bytes, tensor});
        }
    };
    for (const catalogue::Tensor& tensor : catalogue.tensors) {
        for (const catalogue::Piece& piece : tensor.pieces) {
            add(piece, tensor.name);
        }
    }
    for (const catalogue::Shard& shard : catalogue.shards) {
        add(shard.piece, shard.name);
    }
    const auto place = [](const CheckedRecord& record) {
        return std::tie(record.file, record.offset, record.bytes);
    };
    std::stable_sort(
        records.begin(), records.end(),
        [&](const CheckedRecord& a, const CheckedRecord& b) { return place(a) < place(b); });
    records.erase(std::unique(records.begin(), records.end(),
                              [&](const CheckedRecord& a, const CheckedRecord& b) {
                                  return place(a) == place(b);
                              }),
                  records.end());
    checked.n_without =
        std::erase_if(records, [](const CheckedRecord& record) { return record.crc32 == 0; });
    return checked;
}

std::string text_of(const CheckedRecords& checked, Bytes bytes) {
    if (checked.records.empty()) {
        return "--check_crc: no file states a CRC-32";
    }
    return "the CRC-32 of " + std::to_string(checked.records.size()) + " records (" +
           human_bytes(bytes) + ") and of what describes them is right" +
           (checked.n_without == 0 ? "" : "; " + std::to_string(checked.n_without) + " state none");
}

Bytes check_records(mpi::Comm& comm, const std::vector<CheckedRecord>& records,
                    const execute::Source& source, const plan::Visibility& visibility,
                    const mpi::WhyStop& why_stop) {
    Bytes total = 0;
    for (const CheckedRecord& record : records) {
        total += record.bytes;
    }
    mpi::run_freely(comm, why_stop, [&](const mpi::Step& step) {
        const auto before_part = [&](Bytes bytes) {
            step();
            if (source.throttle) {
                source.throttle->take(bytes);
            }
        };
        Bytes before = 0;
        std::vector<std::byte> part;
        std::optional<io::InputFile> file;
        std::uint32_t opened = 0;
        for (const CheckedRecord& record : records) {
            const double share = static_cast<double>(before) / static_cast<double>(total);
            before += record.bytes;
            if (reader_of(record, share, visibility) != comm.rank()) {
                continue;
            }
            if (!file || opened != record.file) {
                file = io::InputFile::open(source.directory / source.files->at(record.file).path);
                opened = record.file;
            }
            check_record(*file, record, part, before_part);
        }
    });
    return total;
}

}  // namespace shardweld::app
