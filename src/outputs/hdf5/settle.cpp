#include "settle.hpp"

#include <algorithm>

#include "shardweld/core/error.hpp"

#include "hdf5_output.hpp"

namespace shardweld::outputs {

namespace {

struct NamedRange {
    Bytes begin = 0;
    Bytes bytes = 0;
    std::string what;
};

void require_apart(std::vector<NamedRange> ranges, const PlacedFile& file) {
    std::sort(ranges.begin(), ranges.end(),
              [](const NamedRange& a, const NamedRange& b) { return a.begin < b.begin; });
    Bytes reached = 1;  // the file's signature stands at 0
    for (const NamedRange& range : ranges) {
        if (range.begin < reached || range.bytes > file.size ||
            range.begin > file.size - range.bytes) {
            throw Error(ErrorCode::io, "the HDF5 library put the " + std::to_string(range.bytes) +
                                           " bytes of " + range.what + " at offset " +
                                           std::to_string(range.begin) + " of " + file.name +
                                           ", outside of its " + std::to_string(file.size) +
                                           " bytes or over another dataset");
        }
        reached = range.begin + range.bytes;
    }
}

}  // namespace

void settle(Placement& placement, std::size_t file, const std::vector<OutputTensor>& tensors,
            std::span<const Bytes> offsets, Bytes file_size) {
    PlacedFile& settled = placement.files.at(file);
    settled.size = file_size;
    settled.header_offset = settled.header.empty() ? 0 : offsets.back();
    std::vector<NamedRange> ranges;
    const auto add = [&](Bytes begin, Bytes bytes, const std::string& what) {
        if (bytes > 0) {
            ranges.push_back({begin, bytes, what});
        }
    };
    add(offsets.back(), settled.header.size(), kConfigDataset);
    for (std::size_t k = 0; k < settled.tensors.size(); ++k) {
        const OutputTensor& tensor = tensors.at(settled.tensors[k]);
        add(offsets[k], tensor.bytes(), tensor.name);
        placement.slots.at(settled.tensors[k]).offset = tensor.bytes() > 0 ? offsets[k] : 0;
    }
    require_apart(std::move(ranges), settled);
}

}  // namespace shardweld::outputs
