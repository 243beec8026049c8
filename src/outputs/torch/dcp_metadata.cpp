#include "dcp_metadata.hpp"

#include <utility>

#include "core/text.hpp"

#include "tensor_pickle.hpp"

namespace shardweld::outputs::torch {

namespace {

constexpr std::string_view kMetadata = "torch.distributed.checkpoint.metadata";
constexpr std::string_view kFilesystem = "torch.distributed.checkpoint.filesystem";

/// Without the strides that torch 2.15 adds: it reads five values too, and others read no six.
void put_properties(PickleWriter& out, DType dtype) {
    put_object(out, kMetadata, "TensorProperties").op(PickleOp::mark);
    put_dtype(out, dtype);
    put_strided_layout(out);
    out.boolean(false);
    out.global(kMetadata, "_MEM_FORMAT_ENCODING")
        .integer(0)
        .op(PickleOp::tuple1)
        .op(PickleOp::reduce);
    out.boolean(false).op(PickleOp::tuple).op(PickleOp::build);
}

void put_chunk(PickleWriter& out, const DcpStoredChunk& chunk) {
    begin_object(out, kMetadata, "ChunkStorageMetadata");
    out.text("offsets");
    put_size(out, chunk.offsets);
    out.text("sizes");
    put_size(out, chunk.sizes);
    out.end_object();
}

void put_tensor(PickleWriter& out, const DcpStoredTensor& tensor) {
    begin_object(out, kMetadata, "TensorStorageMetadata");
    out.text("properties");
    put_properties(out, tensor.dtype);
    out.text("size");
    put_size(out, tensor.shape);
    out.text("chunks").op(PickleOp::empty_list).op(PickleOp::mark);
    for (const auto& chunk : tensor.chunks) {
        put_chunk(out, chunk);
    }
    out.op(PickleOp::appends).end_object();
}

/// Key and value of storage_data; byte objects have no offsets. Each writer's texts are its own.
void put_place(PickleWriter& out, const std::string& key, const std::vector<Index>* offsets,
               const DcpPlace& place) {
    begin_object(out, kMetadata, "MetadataIndex");
    out.text("fqn").text(key, place.file).text("index").none();
    if (offsets != nullptr) {
        out.text("offset");
        put_size(out, *offsets);
    }
    out.end_object();
    begin_object(out, kFilesystem, "_StorageInfo");
    out.text("relative_path").text(place.file, place.file);
    out.text("offset").integer(static_cast<Index>(place.offset));
    out.text("length").integer(static_cast<Index>(place.length));
    out.end_object();
}

void put_state(PickleWriter& out, const DcpContent& content) {
    out.text("state_dict_metadata").begin_dictionary();
    for (const auto& [key, tensor] : content.tensors) {
        out.text(key);
        put_tensor(out, tensor);
    }
    for (const auto& [key, place] : content.objects) {
        put_object(out.text(key), kMetadata, "BytesStorageMetadata");
    }
    out.op(PickleOp::setitems);
}

void put_storage(PickleWriter& out, const DcpContent& content) {
    out.text("storage_data").begin_dictionary();
    for (const auto& [key, place] : content.objects) {
        put_place(out, key, nullptr, place);
    }
    for (const auto& [key, tensor] : content.tensors) {
        for (const auto& chunk : tensor.chunks) {
            put_place(out, key, &chunk.offsets, chunk.place);
        }
    }
    out.op(PickleOp::setitems);
}

void put_path(PickleWriter& out, const DcpContent& content, const std::string& key) {
    auto* const path = find_value(content.paths, key);
    out.text(key).op(PickleOp::mark);
    for (const std::string& name : path == nullptr ? SharedList<SharedText>{key} : *path) {
        if (const auto number = parse_index(name)) {
            out.integer(*number);
        } else {
            out.text(name);
        }
    }
    out.op(PickleOp::tuple);
}

void put_paths(PickleWriter& out, const DcpContent& content) {
    if (content.paths.empty()) {
        out.none();
        return;
    }
    out.begin_dictionary();
    for (const auto& [key, tensor] : content.tensors) {
        put_path(out, content, key);
    }
    for (const auto& [key, place] : content.objects) {
        put_path(out, content, key);
    }
    out.op(PickleOp::setitems);
}

}  // namespace

void DcpContent::merge(DcpContent other) {
    for (auto& [key, tensor] : other.tensors) {
        auto& mine = tensors[key];
        mine.dtype = tensor.dtype;
        mine.shape = std::move(tensor.shape);
        for (auto& chunk : tensor.chunks) {
            mine.chunks.push_back(std::move(chunk));
        }
    }
    objects.merge(other.objects);
    paths.merge(other.paths);
}

std::string dcp_metadata(const DcpContent& content) {
    PickleWriter out(4);
    begin_object(out, kMetadata, "Metadata");
    put_state(out, content);
    out.text("planner_data");
    put_paths(out, content);
    put_storage(out, content);
    out.text("storage_meta");
    begin_object(out, kMetadata, "StorageMeta");
    out.text("checkpoint_id").text("").text("save_id").none();
    out.text("load_id").none().text("modules").op(PickleOp::empty_list);
    out.end_object();
    out.text("version").text("1.0.0");
    out.end_object();
    return out.finish();
}

}  // namespace shardweld::outputs::torch
