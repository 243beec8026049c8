#include "dcp_storage.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "torch_storage.hpp"

namespace shardweld::formats {

namespace {

bool is_less(std::span<const Index> a, std::span<const Index> b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

bool is_equal(std::span<const Index> a, std::span<const Index> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace

DcpStorage::DcpStorage(const PickleValue& storage_data, DcpRecords& records) : records_(records) {
    if (!storage_data.is_mapping()) {
        bad_metadata("storage_data is " + describe(storage_data));
    }
    std::vector<StorageItem>* items = nullptr;
    std::string_view last;
    for (std::size_t i = 0; i < storage_data.pair_count(); ++i) {
        StorageItem item;
        item.key = records.key_number(storage_data.key(i));
        const std::string_view name = records.key(item.key).name;
        item.place = records.place_number(storage_data.value(i), name);
        has_transforms_ = has_transforms_ || records.place(item.place).is_transformed;
        // Items of a tensor follow one another as a rule, with one text for its name.
        if (items == nullptr || name.data() != last.data() || name.size() != last.size()) {
            items = &items_[name];
            last = name;
        }
        items->push_back(item);
    }
    sort_files();
    sort_items();
    find_ends();
}

// Files get numbers in the order they are met; callers want natural order.
void DcpStorage::sort_files() {
    const std::vector<std::string>& met = records_.files();
    std::vector<std::uint32_t> order(met.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(),
              [&met](std::uint32_t a, std::uint32_t b) { return natural_less(met[a], met[b]); });
    file_places_.resize(order.size());
    for (const std::uint32_t file : order) {
        file_places_[file] = static_cast<std::uint32_t>(files_.size());
        files_.push_back(met[file]);
    }
}

void DcpStorage::find_ends() {
    ends_.resize(files_.size(), 0);
    for (const auto& [name, items] : items_) {
        for (const StorageItem& item : items) {
            const DcpRecords::Place& place = records_.place(item.place);
            Bytes& end = ends_[file_places_[place.file]];
            end = std::max(end, checked_add_bytes(place.offset, place.length, "an item's end"));
        }
    }
}

void DcpStorage::sort_items() {
    for (auto& [name, items] : items_) {
        const auto by_place = [this](const StorageItem& a, const StorageItem& b) {
            return is_less(at(a), at(b));
        };
        if (!std::is_sorted(items.begin(), items.end(), by_place)) {
            std::sort(items.begin(), items.end(), by_place);
        }
        const auto twice = std::adjacent_find(
            items.begin(), items.end(),
            [this](const StorageItem& a, const StorageItem& b) { return is_equal(at(a), at(b)); });
        if (twice != items.end()) {
            bad_metadata("two items of '" + printable(name) + "' at " + shape_text(at(*twice)));
        }
    }
}

void DcpStorage::place(DcpObject& object) const {
    const auto found = items_.find(object.name);
    if (found == items_.end() || found->second.size() != 1) {
        return;
    }
    const DcpRecords::Place& place = records_.place(found->second.front().place);
    object.length = place.length;
    object.file = file_places_[place.file];
    object.offset = place.offset;
}

// A tensor of one piece may be indexed without an offset.
bool DcpStorage::is_only(const std::vector<StorageItem>& items, const DcpTensor& tensor) const {
    return items.size() == 1 && tensor.chunks.size() == 1 &&
           !records_.key(items.front().key).has_place;
}

void DcpStorage::place(DcpTensor& tensor) const {
    static const std::vector<StorageItem> kNone;
    const auto found = items_.find(tensor.name);
    const std::vector<StorageItem>& items = found == items_.end() ? kNone : found->second;
    // Both are sorted: one walk over both.
    auto item = items.begin();
    for (DcpChunk& chunk : tensor.chunks) {
        while (item != items.end() && is_less(at(*item), chunk.offsets)) {
            ++item;
        }
        if (item != items.end() && is_equal(at(*item), chunk.offsets)) {
            put(*item, tensor, chunk);
        } else if (is_only(items, tensor)) {
            put(items.front(), tensor, chunk);
        } else {
            bad_metadata("tensor '" + printable(tensor.name) + "': the chunk at " +
                         shape_text(chunk.offsets) + " is not in storage_data");
        }
    }
}

void DcpStorage::put(const StorageItem& item, const DcpTensor& tensor, DcpChunk& chunk) const {
    const DcpRecords::Place& place = records_.place(item.place);
    if (place.is_transformed) {
        throw Error(ErrorCode::unsupported,
                    ".metadata: tensor '" + printable(tensor.name) +
                        "' is stored through a transform (compressed)",
                    "save it without");
    }
    chunk.file = file_places_[place.file];
    chunk.offset = place.offset;
    chunk.length = place.length;
}

}  // namespace shardweld::formats
