// `.metadata`'s storage_data: where the bytes of each chunk lie.
// Knows the mapping only, not what the tensors look like.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "shardweld/formats/shared/dcp_metadata.hpp"
#include "shardweld/formats/shared/pickle.hpp"

namespace shardweld::formats {

/// A torch.Size of non-negative numbers. Error(corrupt) naming `what` otherwise.
std::vector<Index> read_extents(const PickleValue& value, const std::string& what);

/// Borrows names from the pickle it was read from.
class DcpStorage {
  public:
    /// `storage_data`: MetadataIndex -> _StorageInfo. Error(corrupt) when malformed or when a path
    /// leaves the directory.
    static DcpStorage read(const PickleValue& storage_data);

    [[nodiscard]] const std::vector<std::string>& files() const { return files_; }
    [[nodiscard]] bool has_transforms() const { return has_transforms_; }
    /// Length of a byte object; 0 when it is not stored.
    [[nodiscard]] Bytes object_bytes(std::string_view name) const;
    /// Fills in file, offset and length of every chunk; the chunks are sorted by their offsets.
    /// Error(corrupt) naming tensor and chunk when one is not stored, Error(unsupported) when one
    /// is transformed.
    void place(DcpTensor& tensor) const;

  private:
    struct Item {
        std::vector<Index> at;  // offsets in the tensor
        bool has_place = false;
        bool is_transformed = false;
        std::uint32_t file = 0;
        Bytes offset = 0;
        Bytes length = 0;
    };
    void add(const PickleValue& index, const PickleValue& info);
    std::uint32_t file_number(std::string_view path);
    void sort_files();
    void sort_items();

    std::vector<std::string> files_;
    std::unordered_map<std::string_view, std::uint32_t> file_numbers_;
    std::unordered_map<std::string_view, std::vector<Item>> items_;  // by tensor, sorted by `at`
    bool has_transforms_ = false;
};

}  // namespace shardweld::formats
