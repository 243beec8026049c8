// `.metadata`'s storage_data: where the bytes of each chunk lie.
// Knows the mapping only, not what the tensors look like.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dcp_records.hpp"
#include "dcp_tensor.hpp"
#include "pickle.hpp"

namespace shardweld::formats {

/// Borrows names from the pickle it was read from.
class DcpStorage {
  public:
    /// `storage_data`: MetadataIndex -> _StorageInfo. Error(corrupt) when malformed or when a path
    /// leaves the directory. `records` must outlive it.
    DcpStorage(const PickleValue& storage_data, DcpRecords& records);

    [[nodiscard]] std::vector<std::string> take_files() { return std::move(files_); }
    /// Of each file, where the last of its items ends.
    [[nodiscard]] std::vector<Bytes> take_ends() { return std::move(ends_); }
    [[nodiscard]] bool has_transforms() const { return has_transforms_; }
    /// Fills in file, offset and length of a byte object that is stored in one place.
    void place(DcpObject& object) const;
    /// Fills in file, offset and length of every chunk; the chunks are sorted by their offsets.
    /// Error(corrupt) naming tensor and chunk when one is not stored, Error(unsupported) when one
    /// is transformed.
    void place(DcpTensor& tensor) const;

  private:
    /// Numbers of records.
    struct StorageItem {
        std::uint32_t key = 0;
        std::uint32_t place = 0;
    };
    [[nodiscard]] std::span<const Index> at(const StorageItem& item) const {
        return records_.key(item.key).at;
    }
    [[nodiscard]] bool is_only(const std::vector<StorageItem>& items,
                               const DcpTensor& tensor) const;
    void put(const StorageItem& item, const DcpTensor& tensor, DcpChunk& chunk) const;
    void sort_files();
    void sort_items();
    void find_ends();

    const DcpRecords& records_;
    std::vector<std::string> files_;
    std::vector<Bytes> ends_;
    std::vector<std::uint32_t> file_places_;  // from the records' numbers to those in files_
    std::unordered_map<std::string_view, std::vector<StorageItem>>
        items_;  // by tensor, sorted by `at`
    bool has_transforms_ = false;
};

}  // namespace shardweld::formats
