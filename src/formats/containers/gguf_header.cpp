#include "gguf_header.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/strides.hpp"
#include "core/text.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

namespace {

constexpr Bytes kLongestGguf = Bytes{256} << 20U;
constexpr Bytes kGgufWindow = Bytes{1} << 20U;
constexpr Bytes kLongestGgufText = Bytes{16} << 20U;
/// The second differs from the third in no byte of a little-endian file.
constexpr std::array<std::uint32_t, 2> kGgufVersions = {2, 3};
constexpr std::uint32_t kMostDims = 4;
constexpr Index kUsualAlignment = 32;
constexpr std::uint32_t kU32Type = 4;
constexpr std::uint32_t kTextType = 8;
constexpr std::uint32_t kListType = 9;
/// Bytes of a key's value, by type; 0: texts and lists.
constexpr std::array<Bytes, 13> kValueBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

[[noreturn]] void refuse_gguf(const std::string& what) {
    throw Error(ErrorCode::corrupt, "malformed GGUF header: " + what);
}

/// Reads forward, a megabyte at once.
class GgufReader {
  public:
    explicit GgufReader(const io::InputFile& file) : file_(file) {}

    [[nodiscard]] Bytes position() const { return begin_ + at_; }

    template <typename Number>
    Number number() {
        Number value = 0;
        std::memcpy(&value, take(sizeof(value)), sizeof(value));
        return value;
    }

    std::string text() {
        const auto size = number<std::uint64_t>();
        if (size > kLongestGgufText) {
            refuse_gguf("a text of " + std::to_string(size) + " bytes");
        }
        std::string value(static_cast<std::size_t>(size), '\0');
        for (std::size_t done = 0; done < value.size();) {
            const std::size_t n = std::min<std::size_t>(value.size() - done, kGgufWindow);
            std::memcpy(value.data() + done, take(n), n);
            done += n;
        }
        return value;
    }

    void skip(Bytes bytes) {
        require(bytes);
        const Bytes target = position() + bytes;
        if (bytes <= window_.size() - at_) {
            at_ += static_cast<std::size_t>(bytes);
        } else {
            begin_ = target;
            at_ = 0;
            window_.clear();
        }
    }

  private:
    void require(Bytes bytes) const {
        if (bytes > std::min(file_.size(), kLongestGguf) ||
            position() > std::min(file_.size(), kLongestGguf) - bytes) {
            refuse_gguf(file_.size() < kLongestGguf
                            ? "it goes on beyond the file's end: is it cut short?"
                            : "it is larger than 256 MiB");
        }
    }

    /// At most kGgufWindow.
    const std::byte* take(std::size_t bytes) {
        require(bytes);
        if (bytes > window_.size() - at_) {
            begin_ = position();
            at_ = 0;
            window_.resize(
                static_cast<std::size_t>(std::min<Bytes>(kGgufWindow, file_.size() - begin_)));
            file_.read_at(begin_, window_);
        }
        const std::byte* const found = window_.data() + at_;
        at_ += bytes;
        return found;
    }

    const io::InputFile& file_;
    std::vector<std::byte> window_;
    Bytes begin_ = 0;     ///< of the window, in the file
    std::size_t at_ = 0;  ///< in the window
};

Bytes value_bytes(std::uint32_t type) {
    if (type >= kValueBytes.size()) {
        refuse_gguf("a value of type " + std::to_string(type));
    }
    return kValueBytes[type];
}

/// Passes over a list and gives its length.
Index skip_gguf_list(GgufReader& reader) {
    const auto inner = reader.number<std::uint32_t>();
    const auto count = reader.number<std::uint64_t>();
    if (inner == kListType) {
        refuse_gguf("a list of lists");
    }
    if (inner != kTextType) {
        reader.skip(checked_mul_bytes(count, value_bytes(inner), "a GGUF list"));
    } else {
        for (std::uint64_t i = 0; i < count; ++i) {
            reader.skip(reader.number<std::uint64_t>());
        }
    }
    return to_index(count, "a GGUF list");
}

/// A whole number or a flag, of the width of its type; nullopt for the others.
std::optional<Index> whole_number(GgufReader& reader, std::uint32_t type) {
    switch (type) {
        case 0:
            return reader.number<std::uint8_t>();
        case 1:
            return reader.number<std::int8_t>();
        case 2:
            return reader.number<std::uint16_t>();
        case 3:
            return reader.number<std::int16_t>();
        case kU32Type:
            return reader.number<std::uint32_t>();
        case 5:
            return reader.number<std::int32_t>();
        case 7:
            return reader.number<std::uint8_t>();
        case 10:
            return to_index(reader.number<std::uint64_t>(), "a GGUF number");
        case 11:
            return reader.number<std::int64_t>();
        default:
            reader.skip(value_bytes(type));
            return std::nullopt;
    }
}

void read_value(GgufReader& reader, const std::string& name, std::uint32_t type,
                GgufHeader& header) {
    if (type == kTextType) {
        header.texts.emplace(name, reader.text());
    } else if (type == kListType) {
        header.lengths.emplace(name, skip_gguf_list(reader));
    } else if (const auto number = whole_number(reader, type)) {
        header.numbers.emplace(name, *number);
    }
}

/// The metadata; gives the alignment of data.
std::uint32_t read_keys(GgufReader& reader, std::uint64_t count, GgufHeader& header) {
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::string name = reader.text();
        if (!header.keys.insert(name).second) {
            refuse_gguf("the key " + printable(name) + " comes twice");
        }
        read_value(reader, name, reader.number<std::uint32_t>(), header);
    }
    const Index alignment =
        copy_or(find_value(header.numbers, "general.alignment"), kUsualAlignment);
    if (alignment > std::numeric_limits<std::uint32_t>::max() ||
        !std::has_single_bit(static_cast<std::uint64_t>(std::max<Index>(alignment, 0)))) {
        refuse_gguf("an alignment of " + std::to_string(alignment));
    }
    return static_cast<std::uint32_t>(alignment);
}

/// How GGML lays out a type: blocks of so many values, in so many bytes; floats and integers have
/// blocks of one. Source: gguf 0.19, GGML_QUANT_SIZES.
struct GgmlType {
    std::uint32_t number;
    Index values;
    Bytes bytes;
    DType dtype = DType::u8;
};

constexpr std::array<GgmlType, 34> kGgmlTypes = {{{0, 1, 4, DType::f32},
                                                  {1, 1, 2, DType::f16},
                                                  {2, 32, 18},
                                                  {3, 32, 20},
                                                  {6, 32, 22},
                                                  {7, 32, 24},
                                                  {8, 32, 34},
                                                  {9, 32, 40},
                                                  {10, 256, 84},
                                                  {11, 256, 110},
                                                  {12, 256, 144},
                                                  {13, 256, 176},
                                                  {14, 256, 210},
                                                  {15, 256, 292},
                                                  {16, 256, 66},
                                                  {17, 256, 74},
                                                  {18, 256, 98},
                                                  {19, 256, 50},
                                                  {20, 32, 18},
                                                  {21, 256, 110},
                                                  {22, 256, 82},
                                                  {23, 256, 136},
                                                  {24, 1, 1, DType::i8},
                                                  {25, 1, 2, DType::i16},
                                                  {26, 1, 4, DType::i32},
                                                  {27, 1, 8, DType::i64},
                                                  {28, 1, 8, DType::f64},
                                                  {29, 256, 56},
                                                  {30, 1, 2, DType::bf16},
                                                  {34, 256, 54},
                                                  {35, 256, 66},
                                                  {39, 32, 17},
                                                  {40, 64, 36},
                                                  {41, 128, 18}}};

const GgmlType& ggml_type(std::uint32_t number, const std::string& name) {
    const auto* const at = find_item(kGgmlTypes, number, &GgmlType::number);
    if (at == nullptr) {
        throw Error(ErrorCode::unsupported, printable(name) + " has GGML's type " +
                                                std::to_string(number) +
                                                ", which this program does not know");
    }
    return *at;
}

struct ListedTensor {
    std::string name;
    std::vector<Index> extents;
    StoredTensor tensor;
    Bytes offset = 0;  ///< from where data begin
};

ListedTensor read_listed(GgufReader& reader) {
    ListedTensor listed;
    listed.name = reader.text();
    const auto n_dims = reader.number<std::uint32_t>();
    if (n_dims > kMostDims) {
        refuse_gguf(printable(listed.name) + " has " + std::to_string(n_dims) + " dims");
    }
    std::vector<Index>& shape = listed.tensor.shape;
    for (std::uint32_t k = 0; k < n_dims; ++k) {
        shape.insert(shape.begin(), to_index(reader.number<std::uint64_t>(), listed.name));
    }
    listed.extents = shape;
    const GgmlType& type = ggml_type(reader.number<std::uint32_t>(), listed.name);
    listed.offset = reader.number<std::uint64_t>();
    if (type.values > 1 && !shape.empty()) {
        if (shape.back() % type.values != 0) {
            refuse_gguf(printable(listed.name) + " has rows that fill no blocks");
        }
        shape.back() = to_index(checked_mul_bytes(to_bytes(shape.back() / type.values, listed.name),
                                                  type.bytes, listed.name),
                                listed.name);
    }
    listed.tensor.dtype = type.dtype;
    listed.tensor.storage_bytes = checked_mul_bytes(
        to_bytes(volume_of(shape, listed.name), listed.name), size_of(type.dtype), listed.name);
    listed.tensor.strides = dense_strides(shape);
    return listed;
}

Bytes gguf_aligned(Bytes at, Bytes alignment) {
    return checked_add_bytes(at, alignment - 1, "a GGUF file") / alignment * alignment;
}

}  // namespace

GgufHeader read_gguf(const io::InputFile& file) {
    constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
    GgufReader reader(file);
    if (reader.number<std::uint32_t>() != kMagic) {
        refuse_gguf("it does not begin with GGUF");
    }
    if (const auto version = reader.number<std::uint32_t>(); !contains(kGgufVersions, version)) {
        throw Error(ErrorCode::unsupported,
                    "GGUF of version " + std::to_string(version) +
                        " (or of another byte order): versions 2 and 3 are read");
    }
    const auto n_tensors = reader.number<std::uint64_t>();
    const auto n_keys = reader.number<std::uint64_t>();
    GgufHeader header;
    const Bytes alignment = read_keys(reader, n_keys, header);
    std::vector<ListedTensor> all;
    for (std::uint64_t i = 0; i < n_tensors; ++i) {
        all.push_back(read_listed(reader));
    }
    const Bytes data = gguf_aligned(reader.position(), alignment);
    Bytes end = 0;
    for (ListedTensor& listed : all) {
        const Bytes next = checked_add_bytes(end, listed.tensor.storage_bytes, "a GGUF file");
        if (listed.offset != end) {
            refuse_gguf(printable(listed.name) + " begins at " + std::to_string(listed.offset) +
                        ", behind the one before it is " + std::to_string(end));
        }
        if (data > file.size() || next > file.size() - data) {
            refuse_gguf(printable(listed.name) + " ends beyond the file: is it cut short?");
        }
        listed.tensor.storage_offset = data + end;
        end = gguf_aligned(next, alignment);
        header.extents.emplace(listed.name, std::move(listed.extents));
        if (!header.tensors.emplace(listed.name, std::move(listed.tensor)).second) {
            refuse_gguf(printable(listed.name) + " comes twice");
        }
    }
    return header;
}

}  // namespace shardweld::formats
