// torch.save archives with synthetic values, written from front to back.
// Knows torch's containers; nothing of Megatron's dictionaries.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "outputs/torch/tensor_pickle.hpp"

#include "append_file.hpp"
#include "values.hpp"

namespace shardweld::bench {

using outputs::torch::PickleOp;
using outputs::torch::PickleWriter;

/// A dense tensor with a storage of its own.
struct TorchTensor {
    DType dtype = DType::bf16;
    std::vector<Index> shape;
    std::vector<Band> bands;  ///< its elements; none for an empty tensor
    std::string raw{};        ///< or its bytes
    bool is_master = false;   ///< as Values::is_master
    bool is_square = false;   ///< as Values::is_square

    [[nodiscard]] Bytes bytes() const;
};

/// The pickle of one archive, and the tensors it names.
class TorchPickle {
  public:
    PickleWriter pickle{2};
    void tensor(TorchTensor tensor);
    [[nodiscard]] const std::vector<TorchTensor>& tensors() const { return tensors_; }

  private:
    std::vector<TorchTensor> tensors_;
};

/// Appends an archive whose entries begin with `name`/; alignment counts from its first byte.
void append_archive(AppendFile& file, std::string_view name, const TorchPickle& content,
                    const Values& values);

}  // namespace shardweld::bench
