// torch's fingerprint of an archive: what its records' CRC-32s have to come to.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text.hpp"

#include "zip.hpp"

namespace shardweld::formats {

namespace {

constexpr std::string_view kRecord = ".data/serialization_id";
// Two numbers of 64 bits with leading zeros: of the names, of the CRC-32s.
constexpr std::size_t kIdDigits = 20;

/// c10::hash_combine.
std::uint64_t combine(std::uint64_t seed, std::uint64_t value) {
    constexpr std::uint64_t kGolden = 0x9e3779b9;
    return seed ^ (value + kGolden + (seed << 6U) + (seed >> 2U));
}

/// Records with content before the fingerprint, in their order; nullopt where one has no CRC-32.
/// torch takes CRC-32s from data descriptors, which empty records do not have.
std::optional<std::vector<ZipEntry>> records_of(const ZipArchive& archive) {
    std::vector<ZipEntry> records;
    records.reserve(archive.entries.size());
    for (const auto& [name, entry] : archive.entries) {
        if (archive.own_name(name) == kRecord) {
            break;
        }
        if (entry.size != 0 && entry.crc32 == 0) {
            return std::nullopt;
        }
        if (entry.size != 0) {
            records.push_back(entry);
        }
    }
    return records;
}

std::string text_of(std::uint64_t hash) {
    return zero_filled(std::to_string(hash), kIdDigits);
}

}  // namespace

std::string fingerprint_of(const std::vector<std::uint32_t>& sums) {
    std::uint64_t hash = 0;
    for (const std::uint32_t sum : sums) {
        hash = combine(hash, sum);
    }
    return text_of(hash);
}

namespace {

std::string hash_of(const std::vector<ZipEntry>& records) {
    auto sums = collect_list<std::uint32_t>(records, &ZipEntry::crc32);
    return fingerprint_of(sums);
}

/// Whether the records were those of the fingerprint before two of one size changed places.
bool is_exchanged(std::vector<ZipEntry> records, const std::string& stated) {
    std::uint64_t steps_left = 50'000'000;
    for (const std::size_t i : indices(records)) {
        for (std::size_t k = i + 1; k < records.size(); ++k) {
            if (records[i].size != records[k].size || records[i].crc32 == records[k].crc32) {
                continue;
            }
            if (steps_left < records.size()) {
                return false;
            }
            steps_left -= records.size();
            std::swap(records[i].crc32, records[k].crc32);
            if (hash_of(records) == stated) {
                return true;
            }
            std::swap(records[i].crc32, records[k].crc32);
        }
    }
    return false;
}

/// The keys of the storages, as they lie in the file.
std::vector<std::string_view> keys_of(const ZipArchive& archive) {
    std::vector<std::string_view> keys;
    for (const auto& [name, entry] : archive.entries) {
        if (const auto own = archive.own_name(name); own.starts_with(kStorages)) {
            keys.push_back(own.substr(kStorages.size()));
        }
    }
    return keys;
}

bool is_before_as_number(std::string_view a, std::string_view b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
}

/// torch numbers storages as it meets them, and writes them in this order or sorted as text.
bool is_in_order(const std::vector<std::string_view>& keys) {
    return std::ranges::is_sorted(keys, is_before_as_number) || std::ranges::is_sorted(keys);
}

}  // namespace

std::optional<FingerprintPlace> fingerprint_in(const ZipArchive& archive) {
    const ZipEntry* const entry = archive.find(kRecord);
    auto records =
        entry != nullptr && entry->size == 2 * kIdDigits ? records_of(archive) : std::nullopt;
    return records ? std::optional(
                         FingerprintPlace{*entry, entry->offset + kIdDigits, *std::move(records)})
                   : std::nullopt;
}

std::string changed_since_save(const ZipArchive& archive, RangeReader& reader) {
    const auto place = fingerprint_in(archive);
    if (!place) {
        return "";
    }
    const auto bytes = reader.at(place->digits - reader.begin(), kIdDigits, kRecord);
    const std::string stated(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::string found = hash_of(place->of);
    if (stated != found) {
        // Another writer that kept the record says nothing by it, but where it still tells.
        return archive.is_as_torch_lays_out || is_exchanged(place->of, stated)
                   ? "its serialization_id ends in " + printable(stated) +
                         ", its records' CRC-32s give " + found
                   : "";
    }
    return is_in_order(keys_of(archive)) ? ""
                                         : "its storages are not in the order of their numbers";
}

}  // namespace shardweld::formats
