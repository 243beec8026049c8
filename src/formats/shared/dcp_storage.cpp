#include "dcp_storage.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"

#include "torch_storage.hpp"

namespace shardweld::formats {

namespace {

[[noreturn]] void fail(const std::string& message) {
    throw Error(ErrorCode::corrupt, ".metadata: " + message);
}

// Paths are opened below the checkpoint's directory: none may lead out of it.
void check_path(std::string_view path) {
    const auto parts = split(path, '/');
    const bool is_plain = std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
        return !part.empty() && part != "." && part != "..";
    });
    if (!is_plain || path.find('\0') != std::string_view::npos) {
        fail("relative_path '" + printable(path) + "' leaves the checkpoint directory");
    }
}

Bytes read_bytes_count(const PickleValue& info, std::string_view attribute, std::string_view name) {
    const PickleValue* const value = info.attribute(attribute);
    const std::string what =
        "the " + std::string(attribute) + " of an item of '" + printable(name) + "'";
    if (value == nullptr) {
        fail(what + " is missing");
    }
    return to_bytes(read_count(*value, what), what);
}

std::string_view text_attribute(const PickleValue& object, std::string_view attribute) {
    const PickleValue* const value = object.attribute(attribute);
    if (value == nullptr || value->kind != PickleKind::text) {
        fail("an entry of storage_data has no " + std::string(attribute));
    }
    return value->text();
}

}  // namespace

std::vector<Index> read_extents(const PickleValue& value, const std::string& what) {
    const bool is_extents = value.kind == PickleKind::tuple || value.kind == PickleKind::list ||
                            value.class_name() == "torch Size";
    if (!is_extents) {
        fail(what + " is " + describe(value) + ", expected a torch.Size");
    }
    std::vector<Index> extents;
    extents.reserve(value.elements().size());
    for (const PickleValue* const element : value.elements()) {
        extents.push_back(read_count(*element, what));
    }
    return extents;
}

std::uint32_t DcpStorage::file_number(std::string_view path) {
    const auto [at, is_new] =
        file_numbers_.try_emplace(path, static_cast<std::uint32_t>(files_.size()));
    if (is_new) {
        check_path(path);
        files_.emplace_back(path);
    }
    return at->second;
}

void DcpStorage::add(const PickleValue& index, const PickleValue& info) {
    const std::string_view name = text_attribute(index, "fqn");
    Item item;
    if (const PickleValue* const at = index.attribute("offset");
        at != nullptr && at->kind != PickleKind::none) {
        item.has_place = true;
        item.at = read_extents(*at, "the offset of an item of '" + printable(name) + "'");
    }
    item.file = file_number(text_attribute(info, "relative_path"));
    item.offset = read_bytes_count(info, "offset", name);
    item.length = read_bytes_count(info, "length", name);
    checked_add_bytes(item.offset, item.length, "the end of an item of .metadata");
    if (const PickleValue* const transforms = info.attribute("transform_descriptors");
        transforms != nullptr && transforms->kind != PickleKind::none) {
        item.is_transformed = !transforms->elements().empty();
        has_transforms_ = has_transforms_ || item.is_transformed;
    }
    items_[name].push_back(std::move(item));
}

// Files get numbers in the order they are met; callers want natural order.
void DcpStorage::sort_files() {
    std::vector<std::uint32_t> order(files_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::sort(order.begin(), order.end(), [this](std::uint32_t a, std::uint32_t b) {
        return natural_less(files_[a], files_[b]);
    });
    std::vector<std::uint32_t> place(order.size());
    std::vector<std::string> sorted;
    for (const std::uint32_t file : order) {
        place[file] = static_cast<std::uint32_t>(sorted.size());
        sorted.push_back(std::move(files_[file]));
    }
    files_ = std::move(sorted);
    file_numbers_.clear();
    for (auto& [name, items] : items_) {
        for (Item& item : items) {
            item.file = place[item.file];
        }
    }
}

void DcpStorage::sort_items() {
    for (auto& [name, items] : items_) {
        std::sort(items.begin(), items.end(),
                  [](const Item& a, const Item& b) { return a.at < b.at; });
        const auto twice = std::adjacent_find(
            items.begin(), items.end(), [](const Item& a, const Item& b) { return a.at == b.at; });
        if (twice != items.end()) {
            fail("two items of '" + printable(name) + "' at " + shape_text(twice->at));
        }
    }
}

DcpStorage DcpStorage::read(const PickleValue& storage_data) {
    if (!storage_data.is_mapping()) {
        fail("storage_data is " + describe(storage_data));
    }
    DcpStorage storage;
    for (std::size_t i = 0; i < storage_data.pair_count(); ++i) {
        storage.add(storage_data.key(i), storage_data.value(i));
    }
    storage.sort_files();
    storage.sort_items();
    return storage;
}

Bytes DcpStorage::object_bytes(std::string_view name) const {
    const auto found = items_.find(name);
    return found == items_.end() || found->second.size() != 1 ? 0 : found->second.front().length;
}

void DcpStorage::place(DcpTensor& tensor) const {
    const auto found = items_.find(tensor.name);
    for (DcpChunk& chunk : tensor.chunks) {
        const Item* item = nullptr;
        if (found != items_.end()) {
            const std::vector<Item>& items = found->second;
            const auto at = std::lower_bound(
                items.begin(), items.end(), chunk.offsets,
                [](const Item& a, const std::vector<Index>& b) { return a.at < b; });
            item = at != items.end() && at->at == chunk.offsets ? &*at : nullptr;
            // A tensor of one piece may be indexed without an offset.
            const bool is_whole = items.size() == 1 && tensor.chunks.size() == 1;
            if (item == nullptr && is_whole && !items.front().has_place) {
                item = &items.front();
            }
        }
        if (item == nullptr) {
            fail("tensor '" + printable(tensor.name) + "': the chunk at " +
                 shape_text(chunk.offsets) + " is not in storage_data");
        }
        if (item->is_transformed) {
            throw Error(ErrorCode::unsupported,
                        ".metadata: tensor '" + printable(tensor.name) +
                            "' is stored through a transform (compressed); save it without");
        }
        chunk.file = item->file;
        chunk.offset = item->offset;
        chunk.length = item->length;
    }
}

}  // namespace shardweld::formats
