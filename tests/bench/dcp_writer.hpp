// torch.distributed.checkpoint directories, written: `.metadata` and files of archives.
// Knows DCP's classes; nothing of Megatron's keys. Sources: torch 2.15
// torch/distributed/checkpoint/{metadata,filesystem}.py.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "torch_writer.hpp"

namespace shardweld::bench {

/// Where an archive lies.
struct DcpPlace {
    std::string file;
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

    void merge(DcpContent other);
};

/// One .distcp file being written.
class DcpFile {
  public:
    DcpFile(const std::filesystem::path& directory, std::string name);
    DcpPlace add(const TorchPickle& content, const Values& values);
    void close() { file_.close(); }

  private:
    std::string name_;
    AppendFile file_;
};

/// The pickle of `.metadata`.
std::string dcp_metadata(const DcpContent& content);

}  // namespace shardweld::bench
