// Files of torch.save as ranks of a training run write them: dictionaries of tensors.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "outputs/output.hpp"
#include "outputs/training.hpp"

#include "archive.hpp"

namespace shardweld::outputs::torch {

/// One of a checkpoint's files.
struct TorchRankFile {
    std::string name;
    Index rank = 0;                      ///< of a mesh
    std::vector<std::uint32_t> tensors;  ///< of the tensor list
};

/// The value without tensors.
void put_value(PickleWriter& out, const PlainValue& value);

/// Its whole archive. Dictionaries that hold tensors are OrderedDicts, as state_dict() makes them,
/// others plain ones.
Archive rank_archive(const TrainingSave& save, const TorchRankFile& file,
                     const OutputTensors& tensors);

/// Where tensors lie in the archives of one file after another. Hundreds of ranks in a row have
/// tensors of the same names, types and shapes, and so archives that are laid out alike: the last
/// layout is kept.
class RankArchives {
  public:
    RankArchives(const TrainingSave& save, const OutputTensors& tensors)
        : save_(save), tensors_(tensors) {}

    /// Calls visit(tensor, offset) for each tensor of the file, in order; returns its size.
    Bytes each_tensor(const TorchRankFile& file,
                      const std::function<void(std::uint32_t, Bytes)>& visit);

  private:
    [[nodiscard]] bool is_as_last(const TorchRankFile& file, const std::string& beside) const;
    void lay_out(const TorchRankFile& file);

    const TrainingSave& save_;
    const OutputTensors& tensors_;
    std::optional<TorchRankFile> last_;
    std::string beside_;  ///< pickled: what the last one has before the tensors
    std::vector<std::pair<std::size_t, Bytes>> offsets_;  ///< by place in the last one's list
    Bytes size_ = 0;
};

}  // namespace shardweld::outputs::torch
