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
    put_object(out, kMetadata, "ChunkStorageMetadata").op(PickleOp::empty_dict).op(PickleOp::mark);
    out.text("offsets");
    put_size(out, chunk.offsets);
    out.text("sizes");
    put_size(out, chunk.sizes);
    out.op(PickleOp::setitems).op(PickleOp::build);
}

void put_tensor(PickleWriter& out, const DcpStoredTensor& tensor) {
    put_object(out, kMetadata, "TensorStorageMetadata").op(PickleOp::empty_dict).op(PickleOp::mark);
    out.text("properties");
    put_properties(out, tensor.dtype);
    out.text("size");
    put_size(out, tensor.shape);
    out.text("chunks").op(PickleOp::empty_list).op(PickleOp::mark);
    for (const auto& chunk : tensor.chunks) {
        put_chunk(out, chunk);
    }
    out.op(PickleOp::appends).op(PickleOp::setitems).op(PickleOp::build);
}

/// Key and value of storage_data; byte objects have no offsets. Each writer's texts are its own.
void put_place(PickleWriter& out, const std::string& key, const std::vector<Index>* offsets,
               const DcpPlace& place) {
    put_object(out, kMetadata, "MetadataIndex").op(PickleOp::empty_dict).op(PickleOp::mark);
    out.text("fqn").text(key, place.file).text("index").op(PickleOp::none);
    if (offsets != nullptr) {
        out.text("offset");
        put_size(out, *offsets);
    }
    out.op(PickleOp::setitems).op(PickleOp::build);
    put_object(out, kFilesystem, "_StorageInfo").op(PickleOp::empty_dict).op(PickleOp::mark);
    out.text("relative_path").text(place.file, place.file);
    out.text("offset").integer(static_cast<Index>(place.offset));
    out.text("length").integer(static_cast<Index>(place.length));
    out.op(PickleOp::setitems).op(PickleOp::build);
}

void put_state(PickleWriter& out, const DcpContent& content) {
    out.text("state_dict_metadata").op(PickleOp::empty_dict).op(PickleOp::mark);
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
    out.text("storage_data").op(PickleOp::empty_dict).op(PickleOp::mark);
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
    for (const std::string& name : path == nullptr ? std::vector{SharedText(key)} : *path) {
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
        out.op(PickleOp::none);
        return;
    }
    out.op(PickleOp::empty_dict).op(PickleOp::mark);
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
    put_object(out, kMetadata, "Metadata").op(PickleOp::empty_dict).op(PickleOp::mark);
    put_state(out, content);
    out.text("planner_data");
    put_paths(out, content);
    put_storage(out, content);
    out.text("storage_meta");
    put_object(out, kMetadata, "StorageMeta").op(PickleOp::empty_dict).op(PickleOp::mark);
    out.text("checkpoint_id").text("").text("save_id").op(PickleOp::none);
    out.text("load_id").op(PickleOp::none).text("modules").op(PickleOp::empty_list);
    out.op(PickleOp::setitems).op(PickleOp::build);
    out.text("version").text("1.0.0");
    out.op(PickleOp::setitems).op(PickleOp::build);
    return out.finish();
}

}  // namespace shardweld::outputs::torch
