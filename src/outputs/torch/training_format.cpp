#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/text.hpp"
#include "outputs/training.hpp"
#include "shardweld/error.hpp"

#include "dcp_file.hpp"
#include "rank_file.hpp"

namespace shardweld::outputs {

namespace {

using torch::TorchRankFile;

/// What a framer holds for each tensor of a file: its records of the zip, twice, and its pickle.
constexpr Bytes kFramedTensor = 4096;

class TrainingFormat final : public OutputFormat {
  public:
    explicit TrainingFormat(TrainingSave save) : save_(std::move(save)) {
        add_files();
        const std::vector<DeviceMesh>& mesh = save_.mesh;
        if (!mesh.empty()) {
            n_ranks_ = volume_of(mesh.front().shape, "a mesh");
            if (save_.files.size() % to_bytes(n_ranks_, "a mesh") != 0) {
                throw Error(ErrorCode::internal, "a device mesh without a file for each rank");
            }
        }
    }

    [[nodiscard]] std::string_view name() const override { return is_dcp() ? "dcp" : "torch"; }
    [[nodiscard]] std::vector<std::string_view> endings() const override {
        return {is_dcp() ? ".distcp" : ".pt"};
    }

    [[nodiscard]] bool states_checksums() const override { return true; }

    [[nodiscard]] Placement place(const OutputTensors& tensors,
                                  Bytes /*max_shard_size*/) const override {
        Placement placement;
        placement.format = this;
        placement.slots.resize(tensors.size());
        placement.side_files = save_.side_files;
        if (is_dcp()) {
            place_shards(tensors, placement);
        } else {
            place_rank_files(tensors, placement);
        }
        return placement;
    }

    [[nodiscard]] Framer framer() const override {
        return [this](Placement& placement, std::size_t at, const OutputTensors& tensors) {
            const PlacedFile& placed = placement.files.at(at);
            return frame_of({placed.name, rank_of(placed.name), placed.tensors}, tensors);
        };
    }

    [[nodiscard]] Memory memory(const Placement& placement) const override {
        return {placement.most_tensors() * kFramedTensor, 0};
    }

  private:
    [[nodiscard]] bool is_dcp() const { return save_.is_dcp; }

    void add_side_files(const torch::DcpContent& content, Placement& placement) const {
        for (const auto& [file, value] : save_.beside) {
            placement.side_files.push_back({file, torch::plain_archive(file, value)});
        }
        const std::string directory = save_.directory.empty() ? "" : save_.directory + "/";
        placement.side_files.push_back({directory + ".metadata", dcp_metadata(content)});
    }

    /// Those that tensors and values name, behind those that are listed.
    void add_files() {
        std::unordered_set<SharedText> known(save_.files.begin(), save_.files.end());
        std::vector<std::string> more;
        const auto add = [&](SharedText file) {
            if (known.insert(file).second) {
                more.push_back(file);
            }
        };
        for (const TrainingTensor& tensor : save_.tensors) {
            add(tensor.file);
        }
        for (const auto& [file, value] : save_.beside) {
            if (!is_dcp()) {
                add(file);
            }
        }
        std::ranges::sort(more, natural_less);
        save_.files.insert(save_.files.end(), more.begin(), more.end());
        for (const std::string& name : save_.files) {
            ranks_.emplace(name, static_cast<Index>(ranks_.size()));
        }
    }

    [[nodiscard]] Index rank_of(SharedText file) const {
        return n_ranks_ > 0 ? ranks_.at(file) % n_ranks_ : ranks_.at(file);
    }

    [[nodiscard]] std::vector<TorchRankFile> files_of(const OutputTensors& tensors) const {
        std::vector<TorchRankFile> files;
        for (const std::string& name : save_.files) {
            files.push_back({name, rank_of(name), {}});
        }
        for (std::uint32_t i = 0; i < tensors.size(); ++i) {
            if (save_.tensors.size() != tensors.size() || save_.tensors[i].file.text().empty()) {
                throw Error(ErrorCode::internal,
                            tensors[i].name.text() + " has no place in a file");
            }
            files[as_size(ranks_.at(save_.tensors[i].file))].tensors.push_back(i);
        }
        for (TorchRankFile& file : files) {
            std::ranges::stable_sort(file.tensors, {},
                                     [&](std::uint32_t i) { return save_.tensors[i].order; });
        }
        return files;
    }

    /// Puts a tensor behind those of the file that is made next.
    static void place_tensor(std::uint32_t tensor, Bytes offset, const OutputTensors& tensors,
                             PlacedFile& placed, Placement& placement) {
        placement.slots[tensor] = {static_cast<std::uint32_t>(placement.files.size()), offset};
        placed.tensors.push_back(tensor);
        placement.tensor_bytes += tensors[tensor].bytes();
    }

    void place_rank_files(const OutputTensors& tensors, Placement& placement) const {
        torch::RankArchives archives(save_, tensors);
        for (const TorchRankFile& file : files_of(tensors)) {
            PlacedFile placed;
            placed.name = file.name;
            placed.size = archives.each_tensor(file, [&](std::uint32_t tensor, Bytes offset) {
                place_tensor(tensor, offset, tensors, placed, placement);
            });
            placement.files.push_back(std::move(placed));
        }
    }

    void place_shards(const OutputTensors& tensors, Placement& placement) const {
        torch::DcpContent content;
        for (const TorchRankFile& file : files_of(tensors)) {
            PlacedFile placed;
            placed.name = file.name;
            torch::each_item(save_, file, tensors, [&](const torch::DcpItem& item) {
                placed.size = item.place.offset + item.place.length;
                const auto put_tensor = [&](std::uint32_t tensor, Bytes offset) {
                    place_tensor(tensor, item.place.offset + offset, tensors, placed, placement);
                };
                if (item.archive != nullptr) {
                    item.archive->each_tensor(put_tensor);
                }
                add_to_metadata(save_, item, tensors, content);
            });
            placement.files.push_back(std::move(placed));
        }
        add_side_files(content, placement);
    }

    [[nodiscard]] Frame frame_of(const TorchRankFile& file, const OutputTensors& tensors) const {
        torch::FrameBytes frame;
        if (!is_dcp()) {
            torch::rank_archive(save_, file, tensors).put_frame(0, frame);
            return std::move(frame).finish();
        }
        torch::each_item(save_, file, tensors, [&](const torch::DcpItem& item) {
            if (item.archive != nullptr) {
                item.archive->put_frame(item.place.offset, frame);
            } else {
                frame.add_bytes(item.place.offset, *item.bytes);
            }
        });
        return std::move(frame).finish();
    }

    TrainingSave save_;
    std::unordered_map<SharedText, Index> ranks_;  ///< by file
    Index n_ranks_ = 0;  ///< of a mesh, over which files are dealt out in turn
};

}  // namespace

std::shared_ptr<const OutputFormat> training_format_of(TrainingSave save) {
    return std::make_shared<const TrainingFormat>(std::move(save));
}

}  // namespace shardweld::outputs
