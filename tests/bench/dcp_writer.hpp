// Files of torch.distributed.checkpoint, written from front to back.
#pragma once

#include <string>

#include "outputs/torch/dcp_metadata.hpp"

#include "torch_writer.hpp"

namespace shardweld::bench {

using outputs::torch::DcpContent;
using outputs::torch::DcpPlace;
using outputs::torch::DcpStoredTensor;

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

}  // namespace shardweld::bench
