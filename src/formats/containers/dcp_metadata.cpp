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
#include "core/in_context.hpp"
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

bool is_before(std::span<const Index> a, std::span<const Index> b) {
    return std::ranges::lexicographical_compare(a, b);
}

/// What an index says of its chunks, by tensor and then by where the chunk begins in it. Borrows
/// names from the pickle that the records are of.
template <typename Value>
class ByChunk {
  public:
    struct Item {
        std::uint32_t key = 0;  ///< number of the record
        Value value;
    };

    explicit ByChunk(const DcpRecords& records) : records_(records) {}

    void add(std::uint32_t key, const Value& value) {
        const std::string_view name = records_.key(key).name;
        // Items of a tensor follow one another as a rule, with one text for its name.
        if (last_ == nullptr || name.data() != last_name_.data() ||
            name.size() != last_name_.size()) {
            last_ = &items_[name];
            last_name_ = name;
        }
        last_->push_back({key, value});
    }

    /// When all are added; `check` is called with each tensor's name and sorted items.
    template <typename Check>
    void sort(const Check& check) {
        const auto by_place = [this](const Item& a, const Item& b) {
            return is_before(at(a), at(b));
        };
        for (auto& [name, items] : items_) {
            if (!std::ranges::is_sorted(items, by_place)) {
                std::ranges::sort(items, by_place);
            }
            check(name, items);
        }
    }

    [[nodiscard]] std::span<const Item> of(std::string_view tensor) const {
        auto* const found = find_value(items_, tensor);
        return found == nullptr ? std::span<const Item>() : std::span(*found);
    }

    /// Calls `visit` with each chunk and its item, nullptr for none: one walk over both, as both
    /// are sorted.
    template <typename Visit>
    void for_each_chunk(DcpTensor& tensor, const Visit& visit) const {
        const auto items = of(tensor.name);
        auto item = items.begin();
        for (DcpChunk& chunk : tensor.chunks) {
            while (item != items.end() && is_before(at(*item), chunk.offsets)) {
                ++item;
            }
            const bool is_there =
                item != items.end() && std::ranges::equal(at(*item), chunk.offsets);
            visit(chunk, is_there ? &*item : nullptr);
        }
    }

    [[nodiscard]] std::span<const Index> at(const Item& item) const {
        return records_.key(item.key).at;
    }

  private:
    const DcpRecords& records_;
    std::unordered_map<std::string_view, std::vector<Item>> items_;
    std::vector<Item>* last_ = nullptr;
    std::string_view last_name_;
};

[[noreturn]] void refuse_absent(const DcpTensor& tensor, const DcpChunk& chunk, const char* list) {
    bad_metadata("tensor '" + printable(tensor.name) + "': the chunk at " +
                 shape_text(chunk.offsets) + " is not in " + list);
}

StoredTensor read_view(std::string_view pickle, Bytes length) {
    const auto bytes = std::as_bytes(std::span(pickle));
    const TorchFile file = TorchFile::read_bare({bytes.begin(), bytes.end()}, length);
    if (auto view = file.tensor(file.root())) {
        return std::move(*view);
    }
    bad_metadata("all_tensor_metadata holds something that is not a tensor");
}

/// ByteCheckpoint's all_tensor_metadata: its items are bare storages, and how a tensor views each
/// is pickled beside the index. Source: bytecheckpoint 0.0.2
/// bytecheckpoint/checkpointer/meta_type.py, utilities/serialization.py.
class DcpViews {
  public:
    /// `root`: the Metadata; without all_tensor_metadata there are no views. Error(corrupt) when it
    /// is malformed. `records` must outlive it.
    DcpViews(const PickleValue& root, DcpRecords& records) : pickles_(records) {
        const PickleValue* const all = root.attribute("all_tensor_metadata");
        has_views_ = all != nullptr;
        if (has_views_ && !all->is_mapping()) {
            bad_metadata("all_tensor_metadata is no dictionary");
        }
        if (has_views_) {
            for (const auto& [key, pickle] : all->pairs()) {
                if (pickle.kind == PickleKind::bytes) {  // byte objects have none
                    pickles_.add(records.key_number(key), pickle.text());
                }
            }
        }
        pickles_.sort([](std::string_view /*name*/, const auto& /*items*/) {});
    }

    /// Gives each chunk, whose length is known, its view. Error(corrupt) when one has none, or one
    /// of another dtype or shape or larger than the item.
    void place(DcpTensor& tensor) {
        if (!has_views_) {
            return;
        }
        in_context("tensor ", tensor.name, [&] {
            pickles_.for_each_chunk(tensor, [&](DcpChunk& chunk, const auto* item) {
                if (item == nullptr) {
                    refuse_absent(tensor, chunk, "all_tensor_metadata");
                }
                chunk.view = number_of(item->value, chunk.length);
                require_alike(views_[chunk.view], tensor.dtype, chunk);
            });
        });
    }

    [[nodiscard]] std::vector<StoredTensor> take() { return std::move(views_); }

  private:
    std::uint32_t number_of(std::string_view pickle, Bytes length) {
        const auto [at, is_new] =
            numbers_.try_emplace({pickle, length}, static_cast<std::uint32_t>(views_.size()));
        if (is_new) {
            views_.push_back(read_view(pickle, length));
        }
        return at->second;
    }

    static void require_alike(const StoredTensor& view, DType dtype, const DcpChunk& chunk) {
        if (view.dtype != dtype || !std::ranges::equal(view.shape, chunk.sizes)) {
            bad_metadata("the chunk at " + shape_text(chunk.offsets) + " is " + torch_name(dtype) +
                         " of shape " + shape_text(chunk.sizes) + ", but by all_tensor_metadata " +
                         torch_name(view.dtype) + " of shape " + shape_text(view.shape));
        }
    }

    bool has_views_ = false;
    ByChunk<std::string_view> pickles_;
    std::map<std::pair<std::string_view, Bytes>, std::uint32_t> numbers_;  // most are alike
    std::vector<StoredTensor> views_;
};

/// storage_data: where the bytes of each chunk lie.
class DcpStorage {
  public:
    /// `storage_data`: MetadataIndex -> _StorageInfo. Error(corrupt) when malformed or when a path
    /// leaves the directory. `records` must outlive it.
    DcpStorage(const PickleValue& storage_data, DcpRecords& records)
        : records_(records), places_(records) {
        if (!storage_data.is_mapping()) {
            bad_metadata("storage_data is " + describe(storage_data));
        }
        std::vector<Bytes> ends;
        for (const auto& [name, where] : storage_data.pairs()) {
            const std::uint32_t key = records.key_number(name);
            const std::uint32_t number = records.place_number(where, records.key(key).name);
            places_.add(key, number);
            const DcpRecords::StoragePlace& place = records.place(number);
            has_transforms_ = has_transforms_ || place.is_transformed;
            ends.resize(std::max<std::size_t>(ends.size(), place.file + 1U), 0);
            ends[place.file] = std::max(
                ends[place.file], checked_add_bytes(place.offset, place.length, "an item's end"));
        }
        number_files(ends);
        places_.sort([this](std::string_view name, const auto& items) {
            const auto twice = std::ranges::adjacent_find(items, [this](auto& a, auto& b) {
                return std::ranges::equal(places_.at(a), places_.at(b));
            });
            if (twice != items.end()) {
                bad_metadata("two items of '" + printable(name) + "' at " +
                             shape_text(places_.at(*twice)));
            }
        });
    }

    [[nodiscard]] std::vector<File> take_files() { return std::move(files_); }
    [[nodiscard]] bool has_transforms() const { return has_transforms_; }

    /// Fills in file, offset and length of a byte object that is stored in one place.
    void place(DcpObject& object) const {
        if (const auto items = places_.of(object.name); items.size() == 1) {
            const DcpRecords::StoragePlace& place = records_.place(items.front().value);
            object.length = place.length;
            object.file = file_places_[place.file];
            object.offset = place.offset;
        }
    }

    /// Fills in file, offset and length of every chunk. Error(corrupt) naming tensor and chunk when
    /// one is not stored, Error(unsupported) when one is transformed.
    void place(DcpTensor& tensor) const {
        const auto items = places_.of(tensor.name);
        // A tensor of one piece may be indexed without an offset.
        const bool is_only = items.size() == 1 && tensor.chunks.size() == 1 &&
                             !records_.key(items.front().key).has_place;
        places_.for_each_chunk(tensor, [&](DcpChunk& chunk, const auto* item) {
            if (item == nullptr && !is_only) {
                refuse_absent(tensor, chunk, "storage_data");
            }
            add_chunk(records_.place((item == nullptr ? items.front() : *item).value), tensor,
                      chunk);
        });
    }

  private:
    void add_chunk(const DcpRecords::StoragePlace& place, const DcpTensor& tensor,
                   DcpChunk& chunk) const {
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

    // Files get numbers in the order they are met; callers want natural order.
    void number_files(const std::vector<Bytes>& ends) {
        const std::vector<std::string>& met = records_.files();
        std::vector<std::uint32_t> order(met.size());
        std::iota(order.begin(), order.end(), 0U);
        std::ranges::sort(order, natural_less,
                          [&](std::uint32_t file) -> const std::string& { return met[file]; });
        file_places_.resize(order.size());
        for (const std::uint32_t file : order) {
            file_places_[file] = static_cast<std::uint32_t>(files_.size());
            files_.push_back({met[file], file < ends.size() ? ends[file] : 0});
        }
    }

    const DcpRecords& records_;
    ByChunk<std::uint32_t> places_;  // numbers of records
    std::vector<File> files_;
    std::vector<std::uint32_t> file_places_;  // from the records' numbers to those in files_
    bool has_transforms_ = false;
};

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
    if (!lies_inside(chunk.offsets, chunk.sizes, tensor.shape)) {
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
    if (!std::ranges::is_sorted(tensor.chunks, is_before, &DcpChunk::offsets)) {
        std::ranges::sort(tensor.chunks, is_before, &DcpChunk::offsets);
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
    for (const auto& [name, entry] : entries.pairs()) {
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
    if (planner == nullptr) {
        return;
    }
    for (const auto& [name, parts] : planner->pairs()) {
        std::vector<std::string> path;
        for (const PickleValue* const part : parts.elements()) {
            const bool is_number = part->kind == PickleKind::integer;
            path.push_back(is_number ? std::to_string(part->integer) : std::string(part->text()));
        }
        metadata.paths.insert_or_assign(std::string(name.text()), std::move(path));
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
    return has_part(head, "bytecheckpoint.");
}

}  // namespace shardweld::formats
