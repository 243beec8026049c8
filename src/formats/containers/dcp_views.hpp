// ByteCheckpoint's all_tensor_metadata: its items are bare storages, and how a tensor views each is
// pickled beside the index. Knows those pickles; nothing of keys.
// Source: bytecheckpoint 0.0.2 bytecheckpoint/checkpointer/meta_type.py,
// utilities/serialization.py.
#pragma once

#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dcp_records.hpp"
#include "dcp_tensor.hpp"
#include "pickle.hpp"
#include "torch_file.hpp"

namespace shardweld::formats {

/// Borrows texts from the pickle it was read from.
class DcpViews {
  public:
    /// `root`: the Metadata; without all_tensor_metadata there are no views. Error(corrupt) when it
    /// is malformed. `records` must outlive it.
    DcpViews(const PickleValue& root, DcpRecords& records);

    /// Gives each chunk, whose length is known, its view. Error(corrupt) when one has none, or one
    /// of another dtype or shape or larger than the item.
    void place(DcpTensor& tensor);
    [[nodiscard]] std::vector<StoredTensor> take() { return std::move(views_); }

  private:
    struct Entry {
        std::uint32_t key = 0;
        std::string_view pickle;
    };
    [[nodiscard]] std::string_view pickle_of(const DcpTensor& tensor, const DcpChunk& chunk) const;
    [[nodiscard]] std::uint32_t number_of(std::string_view pickle, Bytes length);

    const DcpRecords& records_;
    bool has_views_ = false;
    std::unordered_map<std::string_view, std::vector<Entry>> entries_;  // by tensor, sorted by `at`
    std::map<std::pair<std::string_view, Bytes>, std::uint32_t> numbers_;  // most are alike
    std::vector<StoredTensor> views_;
};

}  // namespace shardweld::formats
