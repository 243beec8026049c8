#include <algorithm>
#include <bit>
#include <utility>

#include "core/text.hpp"
#include "outputs/gguf.hpp"
#include "outputs/little_endian.hpp"
#include "shardweld/error.hpp"

namespace shardweld::outputs {

namespace {

constexpr Bytes kAlignment = 32;  // GGUF_DEFAULT_ALIGNMENT
constexpr std::uint32_t kVersion = 3;
constexpr std::size_t kLongestName = 63;  // llama.cpp's GGML_MAX_NAME, with its end
constexpr std::size_t kMostDims = 4;
constexpr std::uint32_t kList = 9;

/// The format's number of a type: they follow each other, from GGUF_TYPE_UINT32, as ours do.
std::uint32_t number_of(MetadataField::Type type) {
    constexpr std::uint32_t kFirst = 4;
    return kFirst + static_cast<std::uint32_t>(type);
}

/// Bytes of a header, little-endian.
class HeaderText {
  public:
    void u32(std::uint32_t value) { append_number(bytes_, value, 4); }
    void u64(std::uint64_t value) { append_number(bytes_, value, 8); }
    void text(std::string_view value) {
        u64(value.size());
        bytes_ += value;
    }

    void field(const MetadataField& field) {
        text(field.key);
        const std::uint32_t type = number_of(field.type);
        if (field.is_list) {
            u32(kList);
            u32(type);
            u64(field.integers.size() + field.reals.size() + field.texts.size());
        } else {
            u32(type);
        }
        for (const std::int64_t value : field.integers) {
            append_number(bytes_, static_cast<std::uint64_t>(value),
                          field.type == MetadataField::Type::boolean ? 1 : 4);
        }
        for (const float value : field.reals) {
            u32(std::bit_cast<std::uint32_t>(value));
        }
        for (const std::string& value : field.texts) {
            text(value);
        }
    }

    void fill_up() { bytes_.resize((bytes_.size() + kAlignment - 1) / kAlignment * kAlignment); }
    [[nodiscard]] std::string take() { return std::move(bytes_); }

  private:
    std::string bytes_ = "GGUF";
};

/// The extents of a tensor's values, the fastest first.
std::vector<Index> dims_of(const OutputTensor& tensor, const EncodingFacts& facts) {
    std::vector<Index> dims = tensor.shape;
    std::ranges::reverse(dims);
    const auto block = static_cast<Index>(facts.block_bytes / size_of(facts.codes));
    if (!dims.empty()) {
        dims.front() = dims.front() / block * facts.tile_columns;
    }
    return dims;
}

/// What the file calls the type of a tensor's elements.
Encoding encoding_of(const OutputTensor& tensor) {
    if (const auto known = tensor.encoding ? tensor.encoding : ggml_type_of(tensor.dtype)) {
        return *known;
    }
    throw Error(ErrorCode::unsupported, tensor.name.text() + " of type " +
                                            std::string(safetensors_name(tensor.dtype)) +
                                            " cannot be written to GGUF");
}

void require_readable(const OutputTensor& tensor) {
    if (tensor.name.text().size() > kLongestName || tensor.shape.size() > kMostDims) {
        throw Error(ErrorCode::unsupported,
                    printable(tensor.name.text()) +
                        " cannot be written to GGUF: llama.cpp reads names of up to 63 letters and "
                        "tensors of up to 4 dims");
    }
}

class Gguf final : public OutputFormat {
  public:
    Gguf(Encoding encoding, Metadata metadata, std::string file)
        : encoding_(encoding), metadata_(std::move(metadata)), file_(std::move(file)) {}

    [[nodiscard]] std::string_view name() const override { return "gguf"; }
    [[nodiscard]] std::vector<std::string_view> endings() const override { return {kGgufEnding}; }

    [[nodiscard]] Placement place(const OutputTensors& tensors,
                                  Bytes /*max_shard_size*/) const override {
        Placement placement;
        placement.format = this;
        placement.slots.resize(tensors.size());
        PlacedFile file;
        file.name = !file_.empty()
                        ? file_
                        : "model-" + std::string(facts_of(encoding_).name.substr(5)) + ".gguf";
        place_behind_each_other(tensors, placement, file);
        file.header = header_of(tensors, placement);
        for (Slot& slot : placement.slots) {
            slot.offset += file.header.size();
        }
        file.size += file.header.size();
        placement.files.push_back(std::move(file));
        return placement;
    }

  private:
    /// Offsets and size without the header.
    static void place_behind_each_other(const OutputTensors& tensors, Placement& placement,
                                        PlacedFile& file) {
        for (std::uint32_t i = 0; i < tensors.size(); ++i) {
            require_readable(tensors[i]);
            const Bytes bytes = tensors[i].bytes();
            placement.slots[i].offset = file.size;
            file.tensors.push_back(i);
            file.size = checked_add_bytes(file.size, bytes + (kAlignment - 1), "an output file") /
                        kAlignment * kAlignment;
            placement.tensor_bytes += bytes;
        }
    }

    [[nodiscard]] std::string header_of(const OutputTensors& tensors,
                                        const Placement& placement) const {
        HeaderText header;
        header.u32(kVersion);
        header.u64(tensors.size());
        header.u64(metadata_.size());
        for (const MetadataField& field : metadata_) {
            header.field(field);
        }
        for (const std::size_t i : indices(tensors)) {
            const Encoding encoding = encoding_of(tensors[i]);
            const std::vector<Index> dims = dims_of(tensors[i], facts_of(encoding));
            header.text(tensors[i].name.text());
            header.u32(static_cast<std::uint32_t>(dims.size()));
            for (const Index dim : dims) {
                header.u64(static_cast<std::uint64_t>(dim));
            }
            header.u32(facts_of(encoding).ggml_type);
            header.u64(placement.slots[i].offset);
        }
        header.fill_up();
        return header.take();
    }

    Encoding encoding_;
    Metadata metadata_;
    std::string file_;  ///< its name, if it was given one
};

}  // namespace

std::shared_ptr<const OutputFormat> gguf_format_of(Encoding encoding, Metadata metadata,
                                                   std::string file) {
    return std::make_shared<const Gguf>(encoding, std::move(metadata), std::move(file));
}

}  // namespace shardweld::outputs
