// Archives of torch.save, laid out before any byte of a tensor is known: a stored zip of data.pkl
// and one record for each storage.
// Source: torch 2.15 torch/serialization.py (_save), caffe2/serialize/inline_container.cc.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frame_bytes.hpp"
#include "tensor_pickle.hpp"
#include "zip_records.hpp"

namespace shardweld::outputs::torch {

/// A record that every archive has.
struct FixedRecord {
    std::string_view name;
    std::string_view content;
};
/// Between data.pkl and the storages.
inline constexpr std::array<FixedRecord, 3> kRecordsBefore = {
    {{".format_version", "1"}, {".storage_alignment", "64"}, {"byteorder", "little"}}};
/// Behind the storages, before the last one, kSerializationId.
inline constexpr FixedRecord kVersionRecord = {"version", "3\n"};
inline constexpr std::string_view kSerializationId = ".data/serialization_id";
/// One half of that record's content.
std::string serialization_half(std::uint64_t hash);

/// The bytes of one storage.
struct Storage {
    Bytes size = 0;
    std::optional<std::uint32_t> tensor = {};  ///< the output tensor that they are
    std::string content = {};                  ///< if they are none's
};

/// The pickle of one archive and the storages it names, numbered as they come.
class TorchPickle {
  public:
    PickleWriter pickle{2};
    void add_tensor(DType dtype, std::span<const Index> shape, Storage storage);
    [[nodiscard]] const std::vector<Storage>& storages() const { return storages_; }

  private:
    std::vector<Storage> storages_;
};

/// Where everything lies in an archive; offsets count from its first byte.
class Archive {
  public:
    /// Its records' names begin with `name`/.
    Archive(const std::string& name, const TorchPickle& content);

    [[nodiscard]] Bytes size() const { return size_; }
    /// Calls visit(tensor, offset) for each output tensor, in order.
    template <typename Visit>
    void each_tensor(const Visit& visit) const {
        for (const ArchiveRecord& record : records_) {
            if (record.tensor) {
                visit(*record.tensor, record.entry.data());
            }
        }
    }
    /// All but the tensors, of an archive that begins at `begin` of its file.
    void put_frame(Bytes begin, FrameBytes& out) const;

  private:
    struct ArchiveRecord {
        ZipRecord entry;
        std::string content;
        std::optional<std::uint32_t> tensor;
    };
    void add(std::string name, const Storage& storage);
    void add(std::string name, std::string_view content);
    void put_directory(Bytes begin, FrameBytes& out) const;

    std::vector<ArchiveRecord> records_;
    Bytes directory_ = 0;  ///< where the central directory begins
    Bytes size_ = 0;
};

/// torch.save's name for the archive in a file: the file's without directories and the last '.'.
std::string archive_name(std::string_view file);

}  // namespace shardweld::outputs::torch
