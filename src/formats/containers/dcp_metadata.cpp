#include "dcp_metadata.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/by_name.hpp"
#include "core/text.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "dcp_records.hpp"
#include "pickle.hpp"
#include "pickle_arena.hpp"
#include "torch_file.hpp"
#include "torch_storage.hpp"

namespace shardweld::formats {

namespace {

/// ByteCheckpoint's all_tensor_metadata: its items are bare storages, and how a tensor views each
/// is pickled beside the index. Source: bytecheckpoint 0.0.2
/// bytecheckpoint/checkpointer/meta_type.py, utilities/serialization.py. Borrows texts from the
/// pickle it was read from.
class DcpViews {
  public:
    /// `root`: the Metadata; without all_tensor_metadata there are no views. Error(corrupt) when it
    /// is malformed. `records` must outlive it.
    DcpViews(const PickleValue& root, DcpRecords& records);

    /// Gives each chunk, whose length is known, its view. Error(corrupt) when one has none, or one
    /// of another dtype or shape or larger than the item.
    void place(DcpTensor& tensor);
    [[nodiscard]] std::vector<StoredTensor> take() { return std::move(views_); }

  private:
    struct Entry {
        std::uint32_t key = 0;
        std::string_view pickle;
    };
    [[nodiscard]] std::string_view pickle_of(const DcpTensor& tensor, const DcpChunk& chunk) const;
    [[nodiscard]] std::uint32_t number_of(std::string_view pickle, Bytes length);

    const DcpRecords& records_;
    bool has_views_ = false;
    std::unordered_map<std::string_view, std::vector<Entry>> entries_;  // by tensor, sorted by `at`
    std::map<std::pair<std::string_view, Bytes>, std::uint32_t> numbers_;  // most are alike
    std::vector<StoredTensor> views_;
};

bool is_before(std::span<const Index> a, std::span<const Index> b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

StoredTensor read_view(std::string_view pickle, Bytes length) {
    const auto bytes = std::as_bytes(std::span(pickle));
    const TorchFile file = TorchFile::read_bare({bytes.begin(), bytes.end()}, length);
    if (auto view = file.tensor(file.root())) {
        return std::move(*view);
    }
    bad_metadata("all_tensor_metadata holds something that is not a tensor");
}

DcpViews::DcpViews(const PickleValue& root, DcpRecords& records) : records_(records) {
    const PickleValue* const all = root.attribute("all_tensor_metadata");
    if (all == nullptr) {
        return;
    }
    if (!all->is_mapping()) {
        bad_metadata("all_tensor_metadata is no dictionary");
    }
    has_views_ = true;
    for (std::size_t i = 0; i < all->pair_count(); ++i) {
        const PickleValue& pickle = all->value(i);
        if (pickle.kind == PickleKind::bytes) {  // byte objects have none
            const std::uint32_t key = records.key_number(all->key(i));
            entries_[records.key(key).name].push_back({key, pickle.text()});
        }
    }
    for (auto& [name, entries] : entries_) {
        std::sort(entries.begin(), entries.end(), [this](const Entry& a, const Entry& b) {
            return is_before(records_.key(a.key).at, records_.key(b.key).at);
        });
    }
}

std::string_view DcpViews::pickle_of(const DcpTensor& tensor, const DcpChunk& chunk) const {
    const auto found = entries_.find(tensor.name);
    if (found != entries_.end()) {
        const auto at =
            std::lower_bound(found->second.begin(), found->second.end(), chunk.offsets,
                             [this](const Entry& entry, std::span<const Index> offsets) {
                                 return is_before(records_.key(entry.key).at, offsets);
                             });
        if (at != found->second.end() &&
            std::ranges::equal(records_.key(at->key).at, chunk.offsets)) {
            return at->pickle;
        }
    }
    bad_metadata("tensor '" + printable(tensor.name) + "': the chunk at " +
                 shape_text(chunk.offsets) + " is not in all_tensor_metadata");
}

std::uint32_t DcpViews::number_of(std::string_view pickle, Bytes length) {
    const auto [at, is_new] =
        numbers_.try_emplace({pickle, length}, static_cast<std::uint32_t>(views_.size()));
    if (is_new) {
        views_.push_back(read_view(pickle, length));
    }
    return at->second;
}

void DcpViews::place(DcpTensor& tensor) {
    if (!has_views_) {
        return;
    }
    try {
        for (DcpChunk& chunk : tensor.chunks) {
            chunk.view = number_of(pickle_of(tensor, chunk), chunk.length);
            const StoredTensor& view = views_[chunk.view];
            if (view.dtype != tensor.dtype || !std::ranges::equal(view.shape, chunk.sizes)) {
                bad_metadata("the chunk at " + shape_text(chunk.offsets) + " is " +
                             std::string(torch_name(tensor.dtype)) + " of shape " +
                             shape_text(chunk.sizes) + ", but by all_tensor_metadata " +
                             std::string(torch_name(view.dtype)) + " of shape " +
                             shape_text(view.shape));
            }
        }
    } catch (Error& error) {
        error.add_context("tensor " + printable(tensor.name));
        throw;
    }
}

/// storage_data: where the bytes of each chunk lie.
/// Borrows names from the pickle it was read from.
class DcpStorage {
  public:
    /// `storage_data`: MetadataIndex -> _StorageInfo. Error(corrupt) when malformed or when a path
    /// leaves the directory. `records` must outlive it.
    DcpStorage(const PickleValue& storage_data, DcpRecords& records);

    [[nodiscard]] std::vector<std::string> take_files() { return std::move(files_); }
    /// Where the last item of each file ends.
    [[nodiscard]] std::vector<Bytes> take_ends() { return std::move(ends_); }
    [[nodiscard]] bool has_transforms() const { return has_transforms_; }
    /// Fills in file, offset and length of a byte object that is stored in one place.
    void place(DcpObject& object) const;
    /// Fills in file, offset and length of every chunk; the chunks are sorted by their offsets.
    /// Error(corrupt) naming tensor and chunk when one is not stored, Error(unsupported) when one
    /// is transformed.
    void place(DcpTensor& tensor) const;

  private:
    /// Numbers of records.
    struct StorageItem {
        std::uint32_t key = 0;
        std::uint32_t place = 0;
    };
    [[nodiscard]] std::span<const Index> at(const StorageItem& item) const {
        return records_.key(item.key).at;
    }
    [[nodiscard]] bool is_only(const std::vector<StorageItem>& items,
                               const DcpTensor& tensor) const;
    void put(const StorageItem& item, const DcpTensor& tensor, DcpChunk& chunk) const;
    void sort_files();
    void sort_items();
    void find_ends();

    const DcpRecords& records_;
    std::vector<std::string> files_;
    std::vector<Bytes> ends_;
    std::vector<std::uint32_t> file_places_;  // from the records' numbers to those in files_
    std::unordered_map<std::string_view, std::vector<StorageItem>>
        items_;  // by tensor, sorted by `at`
    bool has_transforms_ = false;
};

bool is_less(std::span<const Index> a, std::span<const Index> b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

bool is_equal(std::span<const Index> a, std::span<const Index> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

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

// The class without its module: torch moved these between modules over time.
bool is_class(const PickleValue& value, std::string_view name) {
    const std::string_view full = value.class_name();
    return full.size() > name.size() && full.ends_with(name) &&
           full[full.size() - name.size() - 1] == ' ';
}

// TensorProperties is built with a tuple (dtype first) by its __getstate__, or with a dict.
DType read_dtype(const PickleValue& metadata, const std::string& owner) {
    const PickleValue& properties = required(metadata, "properties", owner);
    const PickleValue* dtype = properties.attribute("dtype");
    const PickleValue* const state = properties.state();
    if (state != nullptr && state->kind == PickleKind::tuple && !state->elements().empty() &&
        dtype == nullptr) {
        dtype = state->elements().front();
    }
    try {
        if (dtype != nullptr && dtype->kind != PickleKind::none) {
            return *dtype_of_global(*dtype);
        }
    } catch (Error& error) {
        error.add_context(owner);
        throw;
    }
    bad_metadata(owner + " has no dtype");
}

void check_bounds(const DcpTensor& tensor, const DcpChunk& chunk) {
    const std::size_t rank = tensor.shape.size();
    bool is_inside = chunk.offsets.size() == rank && chunk.sizes.size() == rank;
    for (std::size_t axis = 0; is_inside && axis < rank; ++axis) {
        is_inside = chunk.offsets[axis] <= tensor.shape[axis] &&
                    chunk.sizes[axis] <= tensor.shape[axis] - chunk.offsets[axis];
    }
    if (!is_inside) {
        bad_metadata("tensor '" + printable(tensor.name) + "' of shape " +
                     shape_text(tensor.shape) + " has a chunk outside of it: " +
                     shape_text(chunk.sizes) + " at " + shape_text(chunk.offsets));
    }
}

DcpTensor read_tensor(std::string_view name, const PickleValue& metadata, DcpRecords& records,
                      const DcpStorage& storage, DcpViews& views) {
    const std::string owner = "tensor '" + printable(name) + "'";
    DcpTensor tensor;
    tensor.name = name;
    tensor.dtype = read_dtype(metadata, owner);
    tensor.shape = read_extents(required(metadata, "size", owner), owner + ": its size");
    volume_of(tensor.shape, owner);
    const PickleValue& chunks = required(metadata, "chunks", owner);
    tensor.chunks.reserve(chunks.elements().size());
    for (const PickleValue* const part : chunks.elements()) {
        const auto [offsets, sizes] = records.chunk(*part, owner);
        tensor.chunks.push_back({.offsets = offsets, .sizes = sizes});
        check_bounds(tensor, tensor.chunks.back());
    }
    const auto by_place = [](const DcpChunk& a, const DcpChunk& b) {
        return std::lexicographical_compare(a.offsets.begin(), a.offsets.end(), b.offsets.begin(),
                                            b.offsets.end());
    };
    if (!std::is_sorted(tensor.chunks.begin(), tensor.chunks.end(), by_place)) {
        std::sort(tensor.chunks.begin(), tensor.chunks.end(), by_place);
    }
    storage.place(tensor);
    views.place(tensor);
    return tensor;
}

void read_entries(const PickleValue& root, DcpRecords& records, const DcpStorage& storage,
                  DcpViews& views, DcpMetadata& metadata) {
    const PickleValue& entries = required(root, "state_dict_metadata", "Metadata");
    if (!entries.is_mapping()) {
        bad_metadata("state_dict_metadata is " + describe(entries));
    }
    for (std::size_t i = 0; i < entries.pair_count(); ++i) {
        const PickleValue& name = entries.key(i);
        const PickleValue& entry = entries.value(i);
        if (name.kind != PickleKind::text) {
            bad_metadata("a key of state_dict_metadata is " + describe(name));
        }
        if (is_class(entry, "TensorStorageMetadata")) {
            metadata.tensors.push_back(read_tensor(name.text(), entry, records, storage, views));
        } else if (is_class(entry, "BytesStorageMetadata")) {
            metadata.objects.push_back({.name = std::string(name.text())});
            storage.place(metadata.objects.back());
        } else {
            bad_metadata("entry '" + printable(name.text()) + "' is " + describe(entry) +
                         ", expected a tensor or bytes");
        }
    }
}

template <typename Entry>
void sort_entries(std::vector<Entry>& entries) {
    if (const Entry* const twice = sort_by_name(entries)) {
        bad_metadata("two entries with one name: '" + printable(twice->name) + "'");
    }
}

// planner_data: flattened name -> (text or number, ...).
void read_paths(const PickleValue& root, DcpMetadata& metadata) {
    const PickleValue* const planner = root.attribute("planner_data");
    if (planner == nullptr || !planner->is_mapping()) {
        return;
    }
    for (std::size_t i = 0; i < planner->pair_count(); ++i) {
        std::vector<std::string> path;
        for (const PickleValue* const part : planner->value(i).elements()) {
            const bool is_number = part->kind == PickleKind::integer;
            path.push_back(is_number ? std::to_string(part->integer) : std::string(part->text()));
        }
        metadata.paths.insert_or_assign(std::string(planner->key(i).text()), std::move(path));
    }
}

// storage_meta.checkpoint_id: a text, or a path object of its parts.
std::string checkpoint_id_of(const PickleValue& root) {
    const PickleValue* const meta = root.attribute("storage_meta");
    const PickleValue* const id = meta == nullptr ? nullptr : meta->attribute("checkpoint_id");
    if (id == nullptr) {
        return "";
    }
    fs::path path(id->kind == PickleKind::text ? id->text() : std::string_view());
    for (const PickleValue* const part : id->arguments()) {
        path /= part->kind == PickleKind::text ? part->text() : std::string_view();
    }
    return path.string();
}

}  // namespace

DcpMetadata DcpMetadata::read(const fs::path& path) {
    try {
        // Megatron appends every rank's plan: most of the file, and nothing a reader needs.
        const auto numbers = std::make_shared<PickleArena>();
        DcpRecords records(numbers);
        const Pickle pickle = Pickle::parse(read_pickle(path), "all_local_plans", &records);
        if (!is_class(pickle.root(), "Metadata")) {
            bad_metadata("it holds " + describe(pickle.root()) + ", expected torch's Metadata");
        }
        DcpStorage storage(required(pickle.root(), "storage_data", "Metadata"), records);
        DcpMetadata metadata;
        metadata.numbers = numbers;
        metadata.has_transforms = storage.has_transforms();
        DcpViews views(pickle.root(), records);
        read_entries(pickle.root(), records, storage, views, metadata);
        metadata.views = views.take();
        metadata.files = storage.take_files();
        metadata.ends = storage.take_ends();
        metadata.checkpoint_id = checkpoint_id_of(pickle.root());
        sort_entries(metadata.tensors);
        sort_entries(metadata.objects);
        read_paths(pickle.root(), metadata);
        return metadata;
    } catch (Error& error) {
        error.add_context("file " + path.string());
        throw;
    } catch (const std::bad_alloc&) {
        throw_no_memory(path);
    }
}

bool is_bytecheckpoint(const fs::path& path) {
    constexpr std::size_t kHead = 32;  // protocol, frame and the module of the first class
    if (!io::is_file(path)) {
        return false;
    }
    const auto file = io::InputFile::open(path);
    std::string head(std::min<Bytes>(file.size(), kHead), '\0');
    file.read_at(0, std::as_writable_bytes(std::span(head)));
    return head.find("bytecheckpoint.") != std::string::npos;
}

}  // namespace shardweld::formats
