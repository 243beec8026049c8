// Which HDF5 files there will be. Calls no library: where tensors lie is known when the files are
// created (create.hpp of execute).
#include <algorithm>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/outputs/output.hpp"

#include "packing.hpp"

namespace shardweld::outputs {

namespace {

// Superblock, group and one object header with its attribute for each dataset, as libhdf5 1.10
// writes them; generous.
constexpr Bytes kFileBytes = 16'384;
constexpr Bytes kDatasetBytes = 768;

void require_link_name(const std::string& name) {
    if (name.empty() || name == "." || name == kConfigDataset ||
        name.find('/') != std::string::npos || name.find('\0') != std::string::npos ||
        !is_utf8(name)) {
        throw Error(ErrorCode::unsupported, "tensor name \"" + printable(name) +
                                                "\" cannot be the name of an HDF5 dataset: use "
                                                "--output_format safetensors");
    }
}

struct Range {
    Bytes begin = 0;
    Bytes bytes = 0;
    std::string what;
};

void require_apart(std::vector<Range> ranges, const OutputFile& file) {
    std::sort(ranges.begin(), ranges.end(),
              [](const Range& a, const Range& b) { return a.begin < b.begin; });
    Bytes reached = 1;  // the file's signature stands at 0
    for (const Range& range : ranges) {
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

std::vector<RawOffsets> raw_offsets(const Placement& placement) {
    std::vector<RawOffsets> raw;
    if (placement.format != OutputFormat::hdf5) {
        return raw;
    }
    for (const OutputFile& file : placement.files) {
        RawOffsets& offsets = raw.emplace_back(RawOffsets{{}, file.header_offset, file.size});
        for (const std::uint32_t tensor : file.tensors) {
            offsets.tensors.push_back(placement.slots[tensor].offset);
        }
    }
    return raw;
}

void settle(Placement& placement, std::size_t file, const std::vector<OutputTensor>& tensors,
            const RawOffsets& raw) {
    OutputFile& settled = placement.files.at(file);
    settled.size = raw.file_size;
    settled.header_offset = settled.header.empty() ? 0 : raw.header;
    std::vector<Range> ranges;
    const auto add = [&](Bytes begin, Bytes bytes, const std::string& what) {
        if (bytes > 0) {
            ranges.push_back({begin, bytes, what});
        }
    };
    add(raw.header, settled.header.size(), kConfigDataset);
    for (std::size_t k = 0; k < settled.tensors.size(); ++k) {
        const OutputTensor& tensor = tensors.at(settled.tensors[k]);
        add(raw.tensors.at(k), tensor.bytes(), tensor.name);
        placement.slots.at(settled.tensors[k]).offset = tensor.bytes() > 0 ? raw.tensors[k] : 0;
    }
    require_apart(std::move(ranges), settled);
}

void embed_config(Placement& placement, const std::string& text) {
    if (placement.format != OutputFormat::hdf5) {
        return;
    }
    for (OutputFile& file : placement.files) {
        file.header = text;
        file.size += text.size();
    }
}

Placement place_hdf5(const std::vector<OutputTensor>& tensors, Bytes max_shard_size) {
    std::for_each(tensors.begin(), tensors.end(),
                  [](const OutputTensor& tensor) { require_link_name(tensor.name); });
    Placement placement = pack(tensors, max_shard_size, "h5");
    placement.format = OutputFormat::hdf5;
    placement.is_settled = false;
    for (OutputFile& file : placement.files) {
        file.size = kFileBytes + kDatasetBytes * file.tensors.size();
        for (const std::uint32_t i : file.tensors) {
            placement.slots[i].offset = file.size;
            file.size = checked_add_bytes(file.size, tensors[i].bytes(), "an output file");
        }
    }
    return placement;
}

}  // namespace shardweld::outputs
