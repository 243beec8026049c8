#include "dcp_metadata.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/by_name.hpp"
#include "core/text.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "dcp_records.hpp"
#include "dcp_storage.hpp"
#include "dcp_views.hpp"
#include "pickle_arena.hpp"
#include "pickle_bytes.hpp"
#include "torch_file.hpp"
#include "torch_storage.hpp"

namespace shardweld::formats {

namespace {

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
