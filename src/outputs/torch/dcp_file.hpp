// A .distcp file: items one behind the other, byte objects first, each a whole archive.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "outputs/output.hpp"
#include "outputs/training.hpp"

#include "archive.hpp"
#include "dcp_metadata.hpp"
#include "rank_file.hpp"

namespace shardweld::outputs::torch {

/// An item of a file, of `archive` or of bytes that are taken over.
struct DcpItem {
    std::string key;
    DcpPlace place;
    std::optional<std::uint32_t> tensor = {};  ///< a chunk, in the tensor list; else an object
    const Archive* archive = nullptr;
    const std::string* bytes = nullptr;
};

/// Visits a file's items in order; what they point to lives as long as the visit. Objects are those
/// of the first file, whose rank is 0.
void each_item(const TrainingSave& save, const TorchRankFile& file, const OutputTensors& tensors,
               const std::function<void(const DcpItem&)>& visit);

/// A file beside them that has no tensors: its whole text.
std::string plain_archive(const std::string& file, const PlainValue& value);

/// Adds the item to what `.metadata` tells. Error(internal) for chunks of one tensor that disagree
/// about it.
void add_to_metadata(const TrainingSave& save, const DcpItem& item, const OutputTensors& tensors,
                     DcpContent& content);

}  // namespace shardweld::outputs::torch
