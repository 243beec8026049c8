#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/text.hpp"
#include "outputs/training.hpp"
#include "shardweld/error.hpp"

#include "dcp_file.hpp"
#include "rank_file.hpp"

namespace shardweld::outputs {

namespace {

using torch::RankFile;

/// What a framer holds for each tensor of a file: its records of the zip, twice, and its pickle.
constexpr Bytes kFramedTensor = 4096;

bool is_natural_before(const std::string& a, const std::string& b) {
    return natural_less(a, b);
}

class TrainingFormat final : public Format {
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

    [[nodiscard]] Placement place(const std::vector<OutputTensor>& tensors,
                                  Bytes /*max_shard_size*/) const override {
        Placement placement;
        placement.format = this;
        placement.slots.resize(tensors.size());
        placement.side_files = save_.side_files;
        torch::DcpContent content;
        for (const RankFile& file : files_of(tensors)) {
            place_file(file, tensors, placement, content);
        }
        if (is_dcp()) {
            add_side_files(content, placement);
        }
        return placement;
    }

    [[nodiscard]] Framer framer() const override {
        return
            [this](Placement& placement, std::size_t at, const std::vector<OutputTensor>& tensors) {
                const PlacedFile& placed = placement.files.at(at);
                return frame_of({placed.name, rank_of(placed.name), placed.tensors}, tensors);
            };
    }

    [[nodiscard]] Memory memory(const Placement& placement) const override {
        std::size_t largest = 0;
        for (const PlacedFile& file : placement.files) {
            largest = std::max(largest, file.tensors.size());
        }
        return {largest * kFramedTensor, 0};
    }

  private:
    [[nodiscard]] bool is_dcp() const { return save_.container == TrainingSave::Container::dcp; }

    void add_side_files(const torch::DcpContent& content, Placement& placement) const {
        for (const auto& [file, value] : save_.beside) {
            placement.side_files.push_back({file, torch::plain_archive(file, value)});
        }
        const std::string directory = save_.directory.empty() ? "" : save_.directory + "/";
        placement.side_files.push_back({directory + ".metadata", dcp_metadata(content)});
    }

    /// Those that tensors and values name, behind those that are listed.
    void add_files() {
        std::set<std::string> known(save_.files.begin(), save_.files.end());
        std::vector<std::string> more;
        const auto add = [&](const std::string& file) {
            if (known.insert(file).second) {
                more.push_back(file);
            }
        };
        for (const auto& [name, tensor] : save_.tensors) {
            add(tensor.file);
        }
        for (const auto& [file, value] : save_.beside) {
            if (!is_dcp()) {
                add(file);
            }
        }
        std::sort(more.begin(), more.end(), is_natural_before);
        save_.files.insert(save_.files.end(), more.begin(), more.end());
        for (const std::string& name : save_.files) {
            ranks_.emplace(name, static_cast<Index>(ranks_.size()));
        }
    }

    [[nodiscard]] Index rank_of(const std::string& file) const {
        return n_ranks_ > 0 ? ranks_.at(file) % n_ranks_ : ranks_.at(file);
    }

    [[nodiscard]] std::vector<RankFile> files_of(const std::vector<OutputTensor>& tensors) const {
        std::vector<RankFile> files;
        for (const std::string& name : save_.files) {
            files.push_back({name, rank_of(name), {}});
        }
        for (std::uint32_t i = 0; i < tensors.size(); ++i) {
            const auto found = save_.tensors.find(tensors[i].name);
            if (found == save_.tensors.end()) {
                throw Error(ErrorCode::internal, tensors[i].name + " has no place in a file");
            }
            files[static_cast<std::size_t>(ranks_.at(found->second.file))].tensors.push_back(i);
        }
        const auto order_of = [&](std::uint32_t i) {
            return save_.tensors.at(tensors[i].name).order;
        };
        for (RankFile& file : files) {
            std::ranges::stable_sort(file.tensors, {}, order_of);
        }
        return files;
    }

    /// Visits the file's archives and where they begin.
    template <typename Visit>
    void each_archive(const RankFile& file, const std::vector<OutputTensor>& tensors,
                      const Visit& visit) const {
        if (is_dcp()) {
            torch::each_item(save_, file, tensors, visit);
            return;
        }
        const torch::Archive archive = torch::rank_archive(save_, file, tensors);
        visit({{}, {file.name, 0, archive.size()}, {}, &archive, nullptr});
    }

    void place_file(const RankFile& file, const std::vector<OutputTensor>& tensors,
                    Placement& placement, torch::DcpContent& content) const {
        PlacedFile placed;
        placed.name = file.name;
        const std::function<void(const torch::DcpItem&)> visit = [&](const torch::DcpItem& item) {
            placed.size = item.place.offset + item.place.length;
            if (item.archive != nullptr) {
                item.archive->each_tensor([&](std::uint32_t tensor, Bytes offset) {
                    placement.slots[tensor] = {static_cast<std::uint32_t>(placement.files.size()),
                                               item.place.offset + offset};
                    placed.tensors.push_back(tensor);
                    placement.tensor_bytes += tensors[tensor].bytes();
                });
            }
            if (is_dcp()) {
                note(save_, item, tensors, content);
            }
        };
        each_archive(file, tensors, visit);
        placement.files.push_back(std::move(placed));
    }

    [[nodiscard]] Frame frame_of(const RankFile& file,
                                 const std::vector<OutputTensor>& tensors) const {
        torch::FrameBytes frame;
        const std::function<void(const torch::DcpItem&)> visit = [&](const torch::DcpItem& item) {
            if (item.archive != nullptr) {
                item.archive->put_frame(item.place.offset, frame);
            } else {
                frame.put(item.place.offset, *item.bytes);
            }
        };
        each_archive(file, tensors, visit);
        return std::move(frame).finish();
    }

    TrainingSave save_;
    std::map<std::string, Index> ranks_;  ///< by file
    Index n_ranks_ = 0;                   ///< of a mesh, over which files are dealt out in turn
};

}  // namespace

std::shared_ptr<const Format> training_format_of(TrainingSave save) {
    return std::make_shared<const TrainingFormat>(std::move(save));
}

}  // namespace shardweld::outputs
