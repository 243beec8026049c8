#include "known_replicas.hpp"

#include <optional>
#include <unordered_map>

#include "read_shares.hpp"

namespace shardweld::plan {

namespace {

enum class Likeness { equal, unlike, unknown };

/// An operand's record and where in it the operand begins; nullopt where no checksum is stated.
struct PlaceInRecord {
    const catalogue::Record* record = nullptr;
    Bytes begin = 0;
};

std::optional<PlaceInRecord> place_of(const Target& target, const Operand& operand,
                                      const catalogue::Records& records) {
    const Bytes address = address_of(target, operand);
    const auto found = records.at(operand.file, address);
    if (!found || records.all[*found].crc32 == 0) {
        return std::nullopt;
    }
    return PlaceInRecord{&records.all[*found], address - records.all[*found].offset};
}

Likeness likeness(const PlaceInRecord& a, const PlaceInRecord& b) {
    if (a.begin != b.begin || a.record->bytes != b.record->bytes) {
        return Likeness::unknown;
    }
    return a.record->crc32 == b.record->crc32 ? Likeness::equal : Likeness::unlike;
}

}  // namespace

bool drop_equal(Target& target, const catalogue::Records& records) {
    if (target.replicas.empty()) {
        return true;
    }
    std::unordered_map<Index, const Operand*> originals;
    for (const Operand& operand : target.operands) {
        originals.emplace(operand.copy.dst_offset, &operand);
    }
    bool is_unlike = false;
    std::erase_if(target.replicas, [&](const Operand& replica) {
        const auto original = originals.find(replica.copy.dst_offset);
        if (original == originals.end() || original->second->copy != replica.copy) {
            return false;
        }
        const auto a = place_of(target, replica, records);
        const auto b = place_of(target, *original->second, records);
        const Likeness found = a && b ? likeness(*a, *b) : Likeness::unknown;
        is_unlike = is_unlike || found == Likeness::unlike;
        return found == Likeness::equal;
    });
    return !is_unlike;
}

}  // namespace shardweld::plan
