// torch.save files (zip and pre-zip), read without torch: the pickled object and where tensor bytes
// lie.
// Sources: torch 2.15 torch/serialization.py, torch/_utils.py (_rebuild_tensor_v2/_v3).
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/index.hpp"

#include "pickle.hpp"

namespace shardweld::io {
class InputFile;
}  // namespace shardweld::io

namespace shardweld::formats {

/// Where the storages of a torch file lie, by their keys, which are numbers as a rule.
class TorchRecords {
  public:
    struct Record {
        Bytes offset = 0;  ///< absolute
        Bytes size = 0;
        std::uint32_t crc32 = 0;  ///< 0 if none is recorded
    };

    /// Expects up to `count` records; torch numbers them from 0.
    void reserve(std::size_t count) { numbered_.resize(count, {kAbsent, 0, 0}); }
    void add(std::string_view key, const Record& record);
    /// nullptr when there is none.
    [[nodiscard]] const Record* find(std::string_view key) const;
    /// The size of all records together. Error(corrupt) on overflow.
    [[nodiscard]] Bytes bytes() const;

  private:
    static constexpr Bytes kAbsent = ~Bytes{0};
    [[nodiscard]] std::size_t number_of(std::string_view key) const;

    std::vector<Record> numbered_;  // by the number that is the key
    std::map<std::string, Record, std::less<>> others_;
};

class EdgeReads;
class RangeReader;
struct StorageId;

/// A few pickles, the last first: those of archives of one tensor each differ in its shape alone.
using KnownPickles = std::list<std::shared_ptr<const Pickle>>;

/// A tensor as stored: a strided view of raw bytes at an absolute place of the file.
struct StoredTensor {
    DType dtype = DType::f32;
    std::vector<Index> shape;
    std::vector<Index> strides;  ///< elements; non-negative
    Bytes storage_offset = 0;    ///< bytes: absolute file offset of the storage's first byte
    Bytes storage_bytes = 0;     ///< size of the storage
    Index element_offset = 0;  ///< elements from the storage's start to the tensor's first element
    std::uint32_t crc32 = 0;   ///< of the whole storage, 0 if none is recorded

    [[nodiscard]] Index volume() const;
    [[nodiscard]] bool is_contiguous() const;
};

/// One opened torch file (or one inside a larger file).
class TorchFile {
  public:
    /// Reads the archive in [begin, begin + length) of `file` (default: whole file): finds
    /// data.pkl, parses it, indexes the storages. Pre-zip files (magic 0x1950a86a20f9469cfc6c) are
    /// recognised and their storages located. Error(corrupt) for anything malformed, empty file
    /// included ("is empty"), Error(unsupported) for big-endian files, tar files and TorchScript
    /// archives. With `check_crc` also Error(corrupt) when a record that is read here, data.pkl or
    /// byteorder, has not the CRC-32 that the archive states for it. `edges` hold the ends of the
    /// file's archives. `known` are pickles of archives before it, to which this one's is added:
    /// one of the same bytes is not parsed again.
    static TorchFile read(const io::InputFile& file, Bytes begin = 0,
                          std::optional<Bytes> length = std::nullopt, bool check_crc = false,
                          EdgeReads* edges = nullptr, KnownPickles* known = nullptr);
    /// A pickled tensor without an archive, whose one storage of `bytes` bytes lies apart: offsets
    /// count from its first. Error(corrupt) when it has not one storage.
    static TorchFile read_bare(std::vector<std::byte> pickle, Bytes bytes);

    [[nodiscard]] const PickleValue& root() const { return pickle_->root(); }
    [[nodiscard]] const Pickle& pickle() const { return *pickle_; }
    /// What the archive calls itself: torch.save takes it from the file's name, without directories
    /// and the last '.' (torch 2.15, caffe2/serialize/inline_container.cc), "archive" for streams.
    /// "" for pre-zip files.
    [[nodiscard]] const std::string& archive_name() const { return archive_name_; }

    /// `value` as a tensor: unwraps _rebuild_tensor, _v2, _v3, _rebuild_parameter(_with_state),
    /// torch.nn.Parameter and _rebuild_from_type_v2 wrappers. nullopt when it is not a tensor at
    /// all. Throws Error(corrupt) when it is one but does not fit (negative extents or strides,
    /// overflow, storage missing, storage too short for shape and strides, storage key not a plain
    /// record name), Error(unsupported) for quantised, sparse, meta or unknown-dtype tensors.
    [[nodiscard]] std::optional<StoredTensor> tensor(const PickleValue& value) const;
    /// Reads tensor(value) into `tensor`, whose memory is used again; false when it is not a tensor
    /// at all.
    [[nodiscard]] bool read_tensor(const PickleValue& value, StoredTensor& tensor) const;

    /// Error(mismatch) when the archive's own fingerprint shows that records were exchanged or
    /// replaced after torch.save (zip.hpp). To be asked last: what else is
    /// wrong tells more.
    void require_unchanged() const;

    /// Total bytes of all storages.
    [[nodiscard]] Bytes storage_bytes() const;
    /// Bytes of the storage that a persistent value names; 0 when there is none.
    [[nodiscard]] Bytes storage_bytes(const PickleValue& persistent) const;

  private:
    using Record = TorchRecords::Record;
    static TorchFile read_archive(RangeReader& reader, bool check_crc, KnownPickles* known);
    static TorchFile read_stream(RangeReader& reader);  // pre-zip
    [[nodiscard]] Record storage_of(const StorageId& id) const;
    void rebuild(const PickleValue& call, PickleValues arguments, StoredTensor& tensor) const;

    TorchRecords records_;
    std::shared_ptr<const Pickle> pickle_;
    std::string archive_name_;
    std::string change_;  // since torch.save; "" if none is seen
};

/// torch dtype written as a global ("torch bfloat16"); nullopt if `value` is none.
/// Error(unsupported) for a torch dtype shardweld does not know, Error(corrupt) for anything else.
std::optional<DType> dtype_of_global(const PickleValue& value);

}  // namespace shardweld::formats
