#include "output.hpp"

#include <algorithm>

#include "core/in_context.hpp"
#include "core/json.hpp"
#include "core/lists.hpp"
#include "core/text.hpp"

namespace shardweld::outputs {

namespace {

constexpr const char* kSize = "its size";

/// Consecutive tensors whose bytes fit the limit, at least one each; those that are made together
/// count as one.
std::vector<std::vector<std::uint32_t>> cut(const OutputTensors& tensors, Bytes limit) {
    std::vector<std::vector<std::uint32_t>> files(1);
    Bytes used = 0;
    for (std::uint32_t i = 0; i < tensors.size();) {
        const std::uint32_t first = i;
        Bytes bytes = 0;
        do {
            bytes = checked_add_bytes(bytes, tensors[i].bytes(), "an output file");
        } while (++i < tensors.size() && tensors[i].is_made_with_last);
        if (!files.back().empty() && checked_add_bytes(used, bytes, "an output file") > limit) {
            files.emplace_back();
            used = 0;
        }
        for (std::uint32_t at = first; at < i; ++at) {
            files.back().push_back(at);
        }
        used += bytes;
    }
    return files;
}

std::string file_name(std::size_t at, std::size_t n_files, std::string_view ending) {
    std::string name = "model";
    if (n_files > 1) {
        name += formatted("-%05zu-of-%05zu", at + 1, n_files);
    }
    return name + std::string(ending);
}

/// Which tensor is in which file, in the order of `tensors`.
std::string index_text(const OutputTensors& tensors, const Placement& placement) {
    std::string text =
        "{\n  \"metadata\": {\n    \"total_size\": " + std::to_string(placement.tensor_bytes) +
        "\n  },\n  \"weight_map\": {";
    for (const std::size_t i : indices(tensors)) {
        text += (i == 0 ? "\n    " : ",\n    ") + json_string(tensors[i].name.text()) + ": " +
                json_string(placement.files[placement.slots[i].file].name);
    }
    return text + "\n  }\n}\n";
}

}  // namespace

Bytes OutputTensor::bytes() const {
    return in_context("tensor ", name, [&] {
        return checked_mul_bytes(to_bytes(volume_of(shape, kSize), kSize), size_of(dtype), kSize);
    });
}

std::size_t Placement::most_tensors() const {
    std::size_t most = 0;
    for (const PlacedFile& file : files) {
        most = std::max(most, file.tensors.size());
    }
    return most;
}

Bytes Placement::total_bytes() const {
    return add_up(files, &PlacedFile::size);
}

Placement pack(const OutputTensors& tensors, Bytes limit, std::string_view ending) {
    Placement placement;
    placement.slots.resize(tensors.size());
    auto files = cut(tensors, limit);
    for (const std::size_t at : indices(files)) {
        PlacedFile file;
        file.name = file_name(at, files.size(), ending);
        file.tensors = std::move(files[at]);
        std::ranges::stable_sort(file.tensors, [&](std::uint32_t a, std::uint32_t b) {
            return size_of(tensors[a].dtype) > size_of(tensors[b].dtype);
        });
        for (const std::uint32_t i : file.tensors) {
            placement.slots[i].file = static_cast<std::uint32_t>(at);
            placement.tensor_bytes += tensors[i].bytes();
        }
        placement.files.push_back(std::move(file));
    }
    if (placement.files.size() > 1) {
        placement.side_files.push_back(
            {"model" + std::string(ending) + ".index.json", index_text(tensors, placement)});
    }
    return placement;
}

void put_in_order(Placement& placement, PlacedFile& file, const OutputTensors& tensors) {
    for (const std::uint32_t i : file.tensors) {
        placement.slots[i].offset = file.size;
        file.size = checked_add_bytes(file.size, tensors[i].bytes(), "an output file");
    }
}

void append(Placement& placement, Placement more) {
    const auto first_file = static_cast<std::uint32_t>(placement.files.size());
    const auto first_tensor = static_cast<std::uint32_t>(placement.slots.size());
    for (PlacedFile& file : more.files) {
        for (std::uint32_t& tensor : file.tensors) {
            tensor += first_tensor;
        }
        placement.files.push_back(std::move(file));
    }
    for (const Slot& slot : more.slots) {
        placement.slots.push_back({slot.file + first_file, slot.offset});
    }
    append_all(placement.side_files, std::move(more.side_files));
    placement.tensor_bytes =
        checked_add_bytes(placement.tensor_bytes, more.tensor_bytes, "the output");
}

}  // namespace shardweld::outputs
