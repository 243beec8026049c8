#include "dcp_records.hpp"

#include <algorithm>
#include <utility>

#include "core/names/names.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "pickle_arena.hpp"
#include "torch_storage.hpp"

namespace shardweld::formats {

namespace {

Bytes read_bytes_count(const PickleValue& info, std::string_view attribute, std::string_view name) {
    const PickleValue* const value = info.attribute(attribute);
    if (value != nullptr && value->kind == PickleKind::integer && value->integer >= 0) {
        return static_cast<Bytes>(value->integer);
    }
    const std::string what =
        "the " + std::string(attribute) + " of an item of '" + printable(name) + "'";
    if (value == nullptr) {
        bad_metadata(what + " is missing");
    }
    return to_bytes(read_count(*value, what), what);
}

std::string_view text_attribute(const PickleValue& object, std::string_view attribute) {
    const PickleValue* const value = object.attribute(attribute);
    if (value == nullptr || value->kind != PickleKind::text) {
        bad_metadata("an entry of storage_data has no " + std::string(attribute));
    }
    return value->text();
}

bool is_extents(const PickleValue& value) {
    return value.is_list() || value.class_name() == "torch Size";
}

}  // namespace

[[noreturn]] void bad_metadata(const std::string& message) {
    throw Error(ErrorCode::corrupt, ".metadata: " + message);
}

const PickleValue& required(const PickleValue& object, std::string_view attribute,
                            const std::string& owner) {
    const PickleValue* const value = object.attribute(attribute);
    if (value == nullptr) {
        bad_metadata(owner + " has no " + std::string(attribute));
    }
    return *value;
}

std::vector<Index> read_extents(const PickleValue& value, const std::string& what) {
    if (!is_extents(value)) {
        bad_metadata(what + " is " + describe(value) + ", expected a torch.Size");
    }
    return collect_list(value.elements(), [&](const PickleValue* const element) {
        return read_count(*element, what);
    });
}

DcpRecords::DcpRecords(std::shared_ptr<PickleArena> memory) : memory_(std::move(memory)) {}

std::optional<std::uint32_t> DcpRecords::takes(std::string_view class_name) {
    if (!class_name.starts_with("torch.distributed.checkpoint.") &&
        !class_name.starts_with("bytecheckpoint.")) {
        return std::nullopt;
    }
    for (const auto& [name, kind] :
         {std::pair(std::string_view(" ChunkStorageMetadata"), RecordKind::chunk),
          std::pair(std::string_view(" MetadataIndex"), RecordKind::key),
          std::pair(std::string_view(" _StorageInfo"), RecordKind::place)}) {
        if (class_name.ends_with(name)) {
            return static_cast<std::uint32_t>(kind);
        }
    }
    return std::nullopt;
}

std::optional<std::int64_t> DcpRecords::reduce(std::uint32_t number, const PickleValue& object) {
    try {
        switch (static_cast<RecordKind>(number)) {
            case RecordKind::chunk:
                return add_chunk(object, "");
            case RecordKind::key:
                return add_key(object);
            case RecordKind::place:
                return add_place(object, "");
        }
    } catch (const Error&) {
        // Told where it is needed, with the name of the tensor.
    }
    return std::nullopt;
}

void DcpRecords::restart() {
    chunks_.clear();
    keys_.clear();
    places_.clear();
    files_.clear();
    file_numbers_.clear();
}

bool DcpRecords::is_reduced(const PickleValue& value, RecordKind kind) {
    return value.kind == PickleKind::reduced && value.size == static_cast<std::uint32_t>(kind);
}

DcpRecords::Chunk DcpRecords::chunk(const PickleValue& value, const std::string& owner) {
    return chunks_[is_reduced(value, RecordKind::chunk) ? static_cast<std::uint32_t>(value.integer)
                                                        : add_chunk(value, owner)];
}

std::uint32_t DcpRecords::key_number(const PickleValue& value) {
    return is_reduced(value, RecordKind::key) ? static_cast<std::uint32_t>(value.integer)
                                              : add_key(value);
}

std::uint32_t DcpRecords::place_number(const PickleValue& value, std::string_view name) {
    return is_reduced(value, RecordKind::place) ? static_cast<std::uint32_t>(value.integer)
                                                : add_place(value, name);
}

// `what`: makes the words for a message.
template <typename What>
std::span<const Index> DcpRecords::kept(const PickleValue& value, const What& what) {
    const auto elements = value.elements();
    const bool is_plain =
        is_extents(value) && std::ranges::all_of(elements, [](const PickleValue* element) {
            return element->kind == PickleKind::integer && element->integer >= 0;
        });
    if (!is_plain) {
        (void)read_extents(value, what());  // throws
    }
    if (elements.empty()) {
        return {};
    }
    auto* const numbers = static_cast<Index*>(memory_->allocate(elements.size() * sizeof(Index)));
    std::ranges::transform(elements, numbers,
                           [](const PickleValue* element) { return element->integer; });
    return {numbers, elements.size()};
}

std::uint32_t DcpRecords::add_chunk(const PickleValue& value, const std::string& owner) {
    Chunk chunk;
    chunk.offsets =
        kept(required(value, "offsets", owner), [&owner] { return owner + ": a chunk's offsets"; });
    chunk.sizes =
        kept(required(value, "sizes", owner), [&owner] { return owner + ": a chunk's sizes"; });
    chunks_.push_back(chunk);
    return static_cast<std::uint32_t>(chunks_.size() - 1);
}

std::uint32_t DcpRecords::add_key(const PickleValue& value) {
    Key key;
    key.name = text_attribute(value, "fqn");
    if (const PickleValue* const at = value.attribute("offset");
        at != nullptr && at->kind != PickleKind::none) {
        key.has_place = true;
        key.at =
            kept(*at, [&key] { return "the offset of an item of '" + printable(key.name) + "'"; });
    }
    keys_.push_back(key);
    return static_cast<std::uint32_t>(keys_.size() - 1);
}

std::uint32_t DcpRecords::add_place(const PickleValue& value, std::string_view name) {
    StoragePlace place;
    const std::string_view path = text_attribute(value, "relative_path");
    place.offset = read_bytes_count(value, "offset", name);
    place.length = read_bytes_count(value, "length", name);
    checked_add_bytes(place.offset, place.length, "the end of an item of .metadata");
    if (const PickleValue* const transforms = value.attribute("transform_descriptors");
        transforms != nullptr && transforms->kind != PickleKind::none) {
        place.is_transformed = !transforms->elements().empty();
    }
    place.file = file_number(path);
    places_.push_back(place);
    return static_cast<std::uint32_t>(places_.size() - 1);
}

std::uint32_t DcpRecords::file_number(std::string_view path) {
    if (auto* const known = find_value(file_numbers_, path)) {
        return *known;
    }
    // Paths are opened below the checkpoint's directory: none may lead out of it.
    if (!leads_below(path)) {
        bad_metadata("relative_path '" + printable(path) + "' leaves the checkpoint directory");
    }
    const auto number = static_cast<std::uint32_t>(files_.size());
    files_.emplace_back(path);
    file_numbers_.emplace(path, number);
    return number;
}

}  // namespace shardweld::formats
