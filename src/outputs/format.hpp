// The interface of an output format and the registry of all of them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "output.hpp"

namespace shardweld::outputs {

/// Consecutive bytes of a file.
struct FileBytes {
    Bytes offset = 0;
    ByteView bytes;
};

/// Where the CRC-32 of a tensor's bytes, which only who writes them learns, belongs: four bytes,
/// little-endian. What the frame has there is the sum's share of bytes around the tensor, 0 where
/// there are none; the tensor's is added to it (crc32_moved).
struct ChecksumPlace {
    std::uint32_t tensor = 0;  ///< index into the tensor list
    Bytes offset = 0;          ///< from the start of the file
    Bytes behind = 0;          ///< bytes that the sum is of, too, behind the tensor
};

/// Digits that follow from checksums that the file states, in a record with a checksum of its own.
struct ChecksumText {
    Bytes record = 0;            ///< where the record begins
    Bytes offset = 0;            ///< where the digits begin, which end with the record
    std::vector<Bytes> sums;     ///< where those checksums are stated
    std::array<Bytes, 2> own{};  ///< where that of the record is
    std::string (*text)(const std::vector<std::uint32_t>& sums) = nullptr;
};

/// What a file needs beside its header and its tensors. Parts may reach over both, where they do
/// not count; anything else of the file may stay as the file system makes it.
struct Frame {
    std::vector<FileBytes> parts;               ///< apart from each other
    std::shared_ptr<const void> owner;          ///< of their bytes
    std::vector<ChecksumPlace> checksums = {};  ///< by offset
    std::vector<ChecksumText> texts = {};       ///< all of each in the parts
};

/// Makes the frame of one file of a placement. If that is not settled, what is true of this file
/// takes the place of the estimates. Local; neither reads nor writes files.
using Framer =
    std::function<Frame(Placement& placement, std::size_t file, const OutputTensors& tensors)>;

/// Memory of a rank, beside its lists of tensors and files.
struct Memory {
    Bytes making = 0;  ///< while files are made
    Bytes kept = 0;    ///< of that, until the run ends
};

/// A kind of file that tensors are written to.
class OutputFormat {
  public:
    OutputFormat() = default;
    OutputFormat(const OutputFormat&) = delete;
    OutputFormat& operator=(const OutputFormat&) = delete;
    virtual ~OutputFormat() = default;

    [[nodiscard]] virtual std::string_view name() const = 0;  ///< the value of --output_format
    /// Endings of its files' names, as ".h5"; the first one is that of files it writes.
    [[nodiscard]] virtual std::vector<std::string_view> endings() const = 0;

    /// Which files there will be, and where in them the tensors lie; says it is made by this
    /// format. `tensors` are in natural order of names. Pure. Error(unsupported) for names, dtypes
    /// and sizes that such files cannot hold.
    [[nodiscard]] virtual Placement place(const OutputTensors& tensors,
                                          Bytes max_shard_size) const = 0;

    /// Puts config.json into the files of a placement, for formats that hold it too. Pure.
    virtual void embed_config(Placement& /*placement*/, const std::string& /*text*/) const {}

    /// Every rank asks for one, whether it makes files or not, so that all of them learn here what
    /// is missing: Error(unsupported). None: nothing is added to header and tensors.
    [[nodiscard]] virtual Framer framer() const { return {}; }

    /// Whether its frames have places for checksums of tensors (Frame::checksums).
    [[nodiscard]] virtual bool states_checksums() const { return false; }

    /// Memory that the framer takes for a placement of this format. Pure.
    [[nodiscard]] virtual Memory memory(const Placement& /*placement*/) const { return {}; }

    /// Whether a LoRA adapter may stand beside the model, in PEFT's own file.
    [[nodiscard]] virtual bool takes_adapter() const { return false; }
};

/// All that --output_format names; the default one first.
const std::vector<const OutputFormat*>& all_formats();
const OutputFormat& default_format();

/// Tensors are packed greedily into files of at most max_shard_size tensor bytes (a larger tensor
/// stands alone); inside a file by element size descending, then natural name. Headers are padded
/// with spaces so that data begins at a multiple of 4096. Several files get
/// model.safetensors.index.json. Error(unsupported) when a header would exceed the format's 100 MB.
const OutputFormat& safetensors_format();

/// Packed as safetensors are: one contiguous dataset at the root for each tensor, and config.json.
/// The library decides where raw data lies, so that placements are not settled. Error(unsupported)
/// for names that cannot be links at the root ("", ".", with '/' or a zero byte, or
/// kConfigDataset).
const OutputFormat& hdf5_format();

/// Whether a file of this name holds tensors in one of the formats.
bool is_output_name(std::string_view name);

}  // namespace shardweld::outputs
