// Files of an existing checkpoint once more, with other tensors in them (--like).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/index.hpp"

#include "format.hpp"

namespace shardweld::outputs {

/// Bytes whose CRC-32 the file states elsewhere.
struct StatedSum {
    Bytes begin = 0;
    Bytes size = 0;
    std::vector<Bytes> places;  ///< of the CRC-32s, four bytes each
};

/// The sums of one file.
struct ImageSums {
    std::vector<StatedSum> sums;
    /// Each with the sums that it follows from: it is written where one of these changes.
    std::vector<std::pair<ChecksumText, std::vector<StatedSum>>> texts;
};

/// Where a tensor is written.
struct ImageSlot {
    Slot place;
    bool is_same = false;  ///< its bytes are those that are there
};

/// A checkpoint that is the template: its files, and where the new tensors go.
struct Image {
    std::vector<PlacedFile> files;           ///< their names and sizes
    std::map<std::string, ImageSlot> slots;  ///< by OutputTensor::name
    /// Reads the bytes of a file, by its number, as they are.
    std::function<void(std::size_t file, Bytes offset, ByteSpan out)> read;
    /// The sums that a file states, in any order.
    std::function<ImageSums(std::size_t file)> sums;
};

/// Writes every byte of these files as it is, but for the tensors and the checksums of their bytes.
/// A sum over a part of a tensor becomes 0, which states none. Error(internal) for tensors without
/// a slot, Error(unsupported) for a file with more than 256 MiB that are no tensor's.
std::shared_ptr<const OutputFormat> image_format_of(Image image);

}  // namespace shardweld::outputs
