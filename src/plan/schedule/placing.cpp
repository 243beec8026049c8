#include "placing.hpp"

#include <utility>

namespace shardweld::plan {

outputs::Placement place(const std::vector<Target>& targets,
                         const std::vector<outputs::OutputTensor>& tensors,
                         const PlanChoice& choice) {
    outputs::Placement placement;
    for (std::size_t begin = 0; begin < targets.size();) {
        const std::string& file = targets[begin].file;
        std::size_t end = begin;
        while (end < targets.size() && targets[end].file == file) {
            ++end;
        }
        const std::vector<outputs::OutputTensor> part(
            tensors.begin() + static_cast<std::ptrdiff_t>(begin),
            tensors.begin() + static_cast<std::ptrdiff_t>(end));
        outputs::Placement more = file.empty()
                                      ? choice.output_format->place(part, choice.max_shard_size)
                                      : outputs::place_in_one_file(part, file);
        if (begin == 0) {
            placement = std::move(more);
        } else {
            outputs::append(placement, std::move(more));
        }
        begin = end;
    }
    return placement;
}

}  // namespace shardweld::plan
