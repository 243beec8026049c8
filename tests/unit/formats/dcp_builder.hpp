// Builds `.metadata` pickles in pieces, so that a test can make one piece wrong.
// Knows DCP's classes; the numbers are the tests' business.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "torch_builder.hpp"

namespace shardweld::test {

using Pairs = std::vector<std::pair<std::string, std::string>>;

inline std::string items(const Pairs& pairs) {
    std::string text = "}(";
    for (const auto& [key, value] : pairs) {
        text += key + value;
    }
    return text + "u";
}

/// An object of a class with attributes.
inline std::string object(const std::string& name, const Pairs& attributes) {
    Pairs named;
    for (const auto& [key, value] : attributes) {
        named.emplace_back(unicode(key), value);
    }
    return global(name) + ")\x81" + items(named) + "b";
}

inline const std::string kDcp = "torch.distributed.checkpoint.metadata ";

inline std::string size_of_counts(const std::vector<std::int64_t>& values) {
    return call("torch Size", {counts(values)});
}

inline std::string chunk_of(const std::vector<std::int64_t>& offsets,
                            const std::vector<std::int64_t>& sizes) {
    return object(kDcp + "ChunkStorageMetadata",
                  {{"offsets", size_of_counts(offsets)}, {"sizes", size_of_counts(sizes)}});
}

inline std::string properties_of(const std::string& dtype) {
    return global(kDcp + "TensorProperties") + ")\x81" +
           tuple({global(dtype),
                  call("torch.serialization _get_layout", {unicode("torch.strided")}), "\x89",
                  call(kDcp + "_MEM_FORMAT_ENCODING", {integer(0)}), "\x89"}) +
           "b";
}

inline std::string tensor_of(const std::vector<std::int64_t>& size,
                             const std::vector<std::string>& chunks,
                             const std::string& dtype = "torch bfloat16") {
    std::string list = "](";
    for (const std::string& chunk : chunks) {
        list += chunk;
    }
    return object(kDcp + "TensorStorageMetadata", {{"properties", properties_of(dtype)},
                                                   {"size", size_of_counts(size)},
                                                   {"chunks", list + "e"}});
}

/// A MetadataIndex; `offset` is "N" or a size.
inline std::string index_of(const std::string& name, const std::string& offset) {
    return object(kDcp + "MetadataIndex",
                  {{"fqn", unicode(name)}, {"offset", offset}, {"index", "N"}});
}

inline std::string place_of(const std::string& path, std::int64_t offset, std::int64_t length,
                            const std::string& transforms = "N") {
    return object("torch.distributed.checkpoint.filesystem _StorageInfo",
                  {{"relative_path", unicode(path)},
                   {"offset", integer(offset)},
                   {"length", integer(length)},
                   {"transform_descriptors", transforms}});
}

inline std::string metadata_of(const Pairs& entries, const Pairs& places, const Pairs& more = {},
                               const std::string& module = kDcp) {
    Pairs attributes = {{"state_dict_metadata", items(entries)}, {"storage_data", items(places)}};
    attributes.insert(attributes.end(), more.begin(), more.end());
    return "\x80\x04" + object(module + "Metadata", attributes) + ".";
}

inline const std::string kByteCheckpoint = "bytecheckpoint.checkpointer.meta_type ";

/// ByteCheckpoint's: `views` are what its all_tensor_metadata holds.
inline std::string bytecheckpoint_metadata_of(const Pairs& entries, const Pairs& places,
                                              const Pairs& views) {
    return metadata_of(entries, places, {{"all_tensor_metadata", items(views)}}, kByteCheckpoint);
}

/// A tensor pickled beside the index, as BINBYTES.
inline std::string view_of(const std::string& value) {
    const std::string pickle = "\x80\x02" + value + ".";
    return "B" + little(pickle.size(), 4) + pickle;
}

}  // namespace shardweld::test
