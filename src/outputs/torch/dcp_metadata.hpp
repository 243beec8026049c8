// torch.distributed.checkpoint's `.metadata`, written: which tensors there are and where their
// chunks lie.
// Sources: torch 2.15 torch/distributed/checkpoint/{metadata,filesystem}.py.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "core/index.hpp"
#include "core/shared_list.hpp"
#include "core/shared_text.hpp"

namespace shardweld::outputs::torch {

/// Where an archive lies.
struct DcpPlace {
    std::string file;  ///< beside `.metadata`
    Bytes offset = 0;
    Bytes length = 0;
};

struct DcpStoredChunk {
    std::vector<Index> offsets;
    std::vector<Index> sizes;
    DcpPlace place;
};

struct DcpStoredTensor {
    DType dtype = DType::bf16;
    std::vector<Index> shape;
    std::vector<DcpStoredChunk> chunks;
};

/// What was written, by key.
struct DcpContent {
    std::map<std::string, DcpStoredTensor> tensors;
    std::map<std::string, DcpPlace> objects;
    /// The names that a key is made of, where they are several. If any key has several,
    /// planner_data tells those of all keys.
    std::map<std::string, SharedList<SharedText>> paths = {};

    void merge(DcpContent other);
};

/// The pickle of `.metadata`; the same content gives the same bytes.
std::string dcp_metadata(const DcpContent& content);

}  // namespace shardweld::outputs::torch
