// The three things of which a `.metadata` holds one for each chunk, as small records: what is kept
// of them while millions are read.
// Sources: torch 2.15 torch/distributed/checkpoint/{metadata,filesystem}.py, bytecheckpoint 0.0.2
// bytecheckpoint/checkpointer/meta_type.py.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/index.hpp"

#include "pickle.hpp"
#include "pickle_arena.hpp"

namespace shardweld::formats {

/// Error(corrupt) that names the file.
[[noreturn]] void bad_metadata(const std::string& message);

/// An attribute that must be there; `owner` has it, for the message. Error(corrupt).
const PickleValue& required(const PickleValue& object, std::string_view attribute,
                            const std::string& owner);

/// A torch.Size of non-negative numbers. Error(corrupt) naming `what` otherwise.
std::vector<Index> read_extents(const PickleValue& value, const std::string& what);

/// Records by number; texts are borrowed from the pickle, numbers live in `memory`.
class DcpRecords final : public PickleReducer {
  public:
    /// ChunkStorageMetadata.
    struct Chunk {
        std::span<const Index> offsets;
        std::span<const Index> sizes;
    };
    /// MetadataIndex.
    struct Key {
        std::string_view name;
        std::span<const Index> at;  ///< offsets in the tensor
        bool has_place = false;
    };
    /// _StorageInfo.
    struct StoragePlace {
        Bytes offset = 0;
        Bytes length = 0;
        std::uint32_t file = 0;
        bool is_transformed = false;
    };

    explicit DcpRecords(std::shared_ptr<PickleArena> memory);

    std::optional<std::uint32_t> takes(std::string_view class_name) override;
    /// Malformed objects stay values: they are errors where they are needed.
    std::optional<std::int64_t> reduce(std::uint32_t number, const PickleValue& object) override;
    void restart() override;

    /// The record of a value, reduced or not. Error(corrupt) when malformed; `owner`: the tensor,
    /// for the message.
    Chunk chunk(const PickleValue& value, const std::string& owner);
    std::uint32_t key_number(const PickleValue& value);
    std::uint32_t place_number(const PickleValue& value, std::string_view name);
    [[nodiscard]] const Key& key(std::uint32_t number) const { return keys_[number]; }
    [[nodiscard]] const StoragePlace& place(std::uint32_t number) const { return places_[number]; }

    /// In the order in which they were met; StoragePlace::file counts in it.
    [[nodiscard]] const std::vector<std::string>& files() const { return files_; }

  private:
    enum class RecordKind : std::uint32_t { chunk, key, place };
    [[nodiscard]] static bool is_reduced(const PickleValue& value, RecordKind kind);
    std::uint32_t add_chunk(const PickleValue& value, const std::string& owner);
    std::uint32_t add_key(const PickleValue& value);
    std::uint32_t add_place(const PickleValue& value, std::string_view name);
    template <typename What>
    std::span<const Index> kept(const PickleValue& value, const What& what);
    std::uint32_t file_number(std::string_view path);

    std::shared_ptr<PickleArena> memory_;
    BlockList<Chunk> chunks_;
    BlockList<Key> keys_;
    BlockList<StoragePlace> places_;
    std::vector<std::string> files_;
    std::unordered_map<std::string_view, std::uint32_t> file_numbers_;
};

}  // namespace shardweld::formats
