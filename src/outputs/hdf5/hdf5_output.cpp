// Which HDF5 files there will be, and what they take. Calls no library until files are made.
#include <algorithm>

#include "core/text.hpp"
#include "outputs/format.hpp"
#include "shardweld/error.hpp"

#include "hdf5_module.hpp"

namespace shardweld::outputs {

namespace {

// Superblock, group and one object header with its attribute for each dataset, as libhdf5 1.10
// writes them; generous.
constexpr Bytes kFileBytes = 16'384;
constexpr Bytes kDatasetBytes = 768;

// Measured with parallel HDF5 1.10.8: the library once it is loaded; for each dataset of a file
// what it keeps until its cache is full (src/hdf5/create.cpp) and what the file gets; our lists.
constexpr Bytes kLibrary = Bytes{1536} << 10U;
constexpr Bytes kCachedDataset = 6656;
constexpr Bytes kCachedDatasets = Bytes{14} << 20U;
constexpr Bytes kMadeDataset = 512;
constexpr Bytes kListedDataset = 200;

void require_link_name(std::string_view name) {
    if (name.empty() || name == "." || name == kConfigDataset ||
        name.find('/') != std::string::npos || name.find('\0') != std::string::npos ||
        !is_utf8(name)) {
        throw Error(ErrorCode::unsupported,
                    "tensor name \"" + printable(name) + "\" cannot be the name of an HDF5 dataset",
                    "use --output_format safetensors");
    }
}

/// The library makes the file's structure in memory, and others write it: errors are then those of
/// any other file.
Frame frame_of(const Hdf5Module& module, Placement& placement, std::size_t at,
               const OutputTensors& tensors) {
    const PlacedFile& file = placement.files[at];
    auto structure = module.make(file, tensors);
    place_datasets(placement, at, tensors, std::span(structure->offsets, file.tensors.size() + 1),
                   structure->file_bytes);
    Frame frame;
    for (const shardweld_hdf5_part& part : std::span(structure->parts, structure->n_parts)) {
        frame.parts.push_back(
            {part.offset, {static_cast<const std::byte*>(part.bytes), part.size}});
    }
    frame.owner = std::move(structure);
    return frame;
}

class Hdf5Output final : public OutputFormat {
  public:
    [[nodiscard]] std::string_view name() const override { return "hdf5"; }
    [[nodiscard]] std::vector<std::string_view> endings() const override {
        return {".h5", ".hdf5"};
    }

    [[nodiscard]] Placement place(const OutputTensors& tensors,
                                  Bytes max_shard_size) const override {
        std::ranges::for_each(
            tensors, [](const OutputTensor& tensor) { require_link_name(tensor.name.text()); });
        Placement placement = pack(tensors, max_shard_size, endings().front());
        placement.format = this;
        placement.is_settled = false;
        for (PlacedFile& file : placement.files) {
            file.size = kFileBytes + kDatasetBytes * file.tensors.size();
            put_in_order(placement, file, tensors);
        }
        return placement;
    }

    void embed_config(Placement& placement, const std::string& text) const override {
        for (PlacedFile& file : placement.files) {
            file.header = text;
            file.size += text.size();
        }
    }

    [[nodiscard]] Framer framer() const override {
        return [module = Hdf5Module::load()](Placement& placement, std::size_t file,
                                             const OutputTensors& tensors) {
            return frame_of(module, placement, file, tensors);
        };
    }

    [[nodiscard]] Memory memory(const Placement& placement) const override {
        const Bytes largest = placement.most_tensors();
        const Bytes all = placement.slots.size();
        return {kLibrary + std::min(largest * kCachedDataset, kCachedDatasets) +
                    largest * kMadeDataset + all * kListedDataset,
                kLibrary};
    }
};

/// Where each begins, how many bytes it has, and whose they are.
using NamedRanges = std::vector<std::tuple<Bytes, Bytes, std::string>>;

void require_apart(NamedRanges ranges, const PlacedFile& file) {
    std::ranges::sort(ranges);
    Bytes reached = 1;  // the file's signature stands at 0
    for (const auto& [begin, bytes, what] : ranges) {
        if (begin < reached || bytes > file.size || begin > file.size - bytes) {
            throw Error(ErrorCode::io, "the HDF5 library put the " + std::to_string(bytes) +
                                           " bytes of " + what + " at offset " +
                                           std::to_string(begin) + " of " + file.name +
                                           ", outside of its " + std::to_string(file.size) +
                                           " bytes or over another dataset");
        }
        reached = begin + bytes;
    }
}

}  // namespace

const OutputFormat& hdf5_format() {
    static const Hdf5Output format;
    return format;
}

void place_datasets(Placement& placement, std::size_t file, const OutputTensors& tensors,
                    std::span<const Bytes> offsets, Bytes file_size) {
    PlacedFile& settled = placement.files.at(file);
    settled.size = file_size;
    settled.header_offset = settled.header.empty() ? 0 : offsets.back();
    NamedRanges ranges;
    const auto add = [&](Bytes begin, Bytes bytes, const std::string& what) {
        if (bytes > 0) {
            ranges.emplace_back(begin, bytes, what);
        }
    };
    add(offsets.back(), settled.header.size(), kConfigDataset);
    for (const std::size_t k : indices(settled.tensors)) {
        const OutputTensor& tensor = tensors.at(settled.tensors[k]);
        add(offsets[k], tensor.bytes(), tensor.name);
        placement.slots.at(settled.tensors[k]).offset = tensor.bytes() > 0 ? offsets[k] : 0;
    }
    require_apart(std::move(ranges), settled);
}

}  // namespace shardweld::outputs
