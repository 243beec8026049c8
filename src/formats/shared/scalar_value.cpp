#include "scalar_value.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <span>
#include <vector>

#include "core/text.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

namespace {

// Longer texts are data paths and command lines.
constexpr std::size_t kLongestWord = 1024;
constexpr std::size_t kLargestElement = 8;
constexpr int kMostWrappers = 4;

/// How an element is stored: numpy's letters, and 'g' for bfloat16.
struct ElementType {
    char kind = 0;
    std::size_t bytes = 0;
    bool is_big_endian = false;
};

std::string flag_text(bool value) {
    return value ? "true" : "false";
}

template <typename Number>
std::string decimal(Number value) {
    std::array<char, 64> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
    return {buffer.data(), end};
}

float from_half(std::uint16_t bits) {
    const auto exponent = static_cast<int>(bits >> 10U & 0x1FU);
    const auto fraction = static_cast<float>(bits & 0x3FFU);
    float size = std::ldexp(fraction, -24);
    if (exponent == 0x1F) {
        size = fraction == 0 ? HUGE_VALF : NAN;
    } else if (exponent != 0) {
        size = std::ldexp(fraction + 1024, exponent - 25);
    }
    return (bits & 0x8000U) != 0 ? -size : size;
}

std::string real_element(ElementType type, std::uint64_t bits) {
    if (type.bytes == sizeof(double)) {
        return decimal(std::bit_cast<double>(bits));
    }
    if (type.bytes == sizeof(float)) {
        return decimal(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    }
    return decimal(type.kind == 'g' ? std::bit_cast<float>(static_cast<std::uint32_t>(bits << 16U))
                                    : from_half(static_cast<std::uint16_t>(bits)));
}

/// `element` has at most eight bytes, the least significant first.
std::optional<std::string> element_text(ElementType type, ByteView element) {
    std::uint64_t bits = 0;
    for (std::size_t i = element.size(); i-- > 0;) {
        bits = bits << 8U | std::to_integer<std::uint64_t>(element[i]);
    }
    switch (type.kind) {
        case 'b':
            return flag_text(bits != 0);
        case 'u':
            return std::to_string(bits);
        case 'i': {
            const auto above = static_cast<unsigned>(64 - 8 * type.bytes);
            return std::to_string(static_cast<std::int64_t>(bits << above) >> above);
        }
        case 'f':
        case 'g':
            return type.bytes >= 2 ? std::optional(real_element(type, bits)) : std::nullopt;
        default:
            return std::nullopt;
    }
}

ElementType element_type(DType dtype) {
    switch (dtype) {
        case DType::boolean:
            return {'b', 1};
        case DType::u8:
        case DType::u16:
        case DType::u32:
        case DType::u64:
            return {'u', size_of(dtype)};
        case DType::i8:
        case DType::i16:
        case DType::i32:
        case DType::i64:
            return {'i', size_of(dtype)};
        case DType::f16:
        case DType::f32:
        case DType::f64:
            return {'f', size_of(dtype)};
        case DType::bf16:
            return {'g', size_of(dtype)};
        default:
            return {};
    }
}

/// What numpy's dtype object says: ("i8", False, True), whose state begins (3, "<").
std::optional<ElementType> numpy_type(const PickleValue& dtype) {
    const auto arguments = dtype.arguments();
    if (dtype.class_name() != "numpy dtype" || arguments.empty()) {
        return std::nullopt;
    }
    const std::string_view text = arguments.front()->text();
    const auto size = text.size() < 2 ? std::nullopt : parse_index(text.substr(1));
    if (!size || *size < 1 || *size > static_cast<Index>(kLongestWord)) {
        return std::nullopt;
    }
    const PickleValue* const state = dtype.state();
    const bool has_order = state != nullptr && state->elements().size() > 1;
    return ElementType{text.front(), static_cast<std::size_t>(*size),
                       has_order && state->elements()[1]->is_text(">")};
}

/// Code points of four bytes each.
std::optional<std::string> wide_text(ByteView bytes) {
    std::string text;
    for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
        if (bytes[i] > std::byte{0x7F} || bytes[i + 1] != std::byte{0}) {
            return std::nullopt;
        }
        text += bytes[i] == std::byte{0} ? "" : std::string(1, static_cast<char>(bytes[i]));
    }
    return plain_word(text);
}

std::optional<std::string> numpy_text(const ElementType& type, std::string_view stored) {
    const auto raw = std::as_bytes(std::span(stored));
    std::vector<std::byte> bytes(raw.begin(), raw.end());
    if (type.kind == 'U') {
        return type.is_big_endian ? std::nullopt : wide_text(bytes);
    }
    if (type.kind == 'S') {
        return plain_word(stored);
    }
    if (bytes.size() != type.bytes || bytes.size() > kLargestElement) {
        return std::nullopt;
    }
    if (type.is_big_endian) {
        std::ranges::reverse(bytes);
    }
    return element_text(type, bytes);
}

bool is_numpys(const PickleValue& value, std::string_view function) {
    const std::string_view name = value.class_name();
    return name.starts_with("numpy.") && name.ends_with(function);
}

/// The state of an array: version, shape, dtype, order, bytes. Empty for everything else.
PickleValues array_state(const PickleValue& value) {
    const PickleValue* const state = value.state();
    const bool is_array = is_numpys(value, ".multiarray _reconstruct") && state != nullptr &&
                          state->elements().size() >= 5;
    return is_array ? state->elements() : PickleValues();
}

/// The element type of a numpy scalar or array; nullopt for everything else.
std::optional<ElementType> type_of_numpy(const PickleValue& value) {
    if (is_numpys(value, ".multiarray scalar") && value.arguments().size() == 2) {
        return numpy_type(*value.arguments()[0]);
    }
    const auto parts = array_state(value);
    return parts.empty() ? std::nullopt : numpy_type(*parts[2]);
}

/// A scalar, or an array of one element; nullopt for everything else.
std::optional<std::string> text_of_numpy(const PickleValue& value) {
    const auto type = type_of_numpy(value);
    if (!type) {
        return std::nullopt;
    }
    const auto parts = array_state(value);
    if (parts.empty()) {
        return numpy_text(*type, value.arguments()[1]->text());
    }
    const auto extents = parts[1]->elements();
    const bool is_one = std::ranges::all_of(extents, [](const PickleValue* extent) {
        return extent->kind == PickleKind::integer && extent->integer == 1;
    });
    return is_one ? numpy_text(*type, parts[4]->text()) : std::nullopt;
}

/// Tensors of kinds that are not read (quantised, sparse) are no scalars either.
std::optional<StoredTensor> try_tensor(const TorchFile& file, const PickleValue& value) {
    try {
        return file.tensor(value);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::unsupported) {
            throw;
        }
        return std::nullopt;
    }
}

}  // namespace

std::optional<std::string> text_of_tensor(const StoredTensor& tensor, const io::InputFile& input) {
    const ElementType type = element_type(tensor.dtype);
    if (type.bytes == 0 || tensor.volume() != 1) {
        return std::nullopt;
    }
    std::vector<std::byte> bytes(type.bytes);
    input.read_at(tensor.storage_offset + static_cast<Bytes>(tensor.element_offset) * type.bytes,
                  bytes);
    return element_text(type, bytes);
}

std::optional<std::string> plain_word(std::string_view text) {
    const std::string_view word = trim(text);
    if (word.empty() || word.size() > kLongestWord) {
        return std::nullopt;
    }
    const std::string lower = in_small_letters(word);
    if (lower == "none" || lower == "null") {
        return std::nullopt;
    }
    if (lower == "true" || lower == "false") {
        return lower;
    }
    const auto real = parsed_number<double>(word);
    return real && !parse_index(word) ? decimal(*real) : std::string(word);
}

std::string real_text(double value) {
    return decimal(value);
}

bool is_text(const PickleValue& value) {
    if (value.kind == PickleKind::object) {
        const auto type = type_of_numpy(value);
        return type && (type->kind == 'U' || type->kind == 'S');
    }
    return value.kind == PickleKind::text || value.kind == PickleKind::bytes;
}

const PickleValue& unwrapped(const PickleValue& value) {
    const PickleValue* inner = &value;
    for (int i = 0; i < kMostWrappers && inner->class_name().starts_with("omegaconf."); ++i) {
        const PickleValue* const held = inner->attribute("_val");
        const PickleValue* const content = held != nullptr ? held : inner->attribute("_content");
        if (content == nullptr) {
            break;
        }
        inner = content;
    }
    return *inner;
}

std::optional<std::string> scalar_text(const PickleValue& value) {
    const PickleValue& bare = unwrapped(value);
    switch (bare.kind) {
        case PickleKind::boolean:
            return flag_text(bare.integer != 0);
        case PickleKind::integer:
            return std::to_string(bare.integer);
        case PickleKind::real:
            return decimal(bare.real);
        case PickleKind::text:
        case PickleKind::bytes:
            return plain_word(bare.text());
        case PickleKind::object:
            return text_of_numpy(bare);
        default:
            return std::nullopt;
    }
}

std::optional<std::string> ScalarReader::text_of(const PickleValue& value) const {
    const PickleValue& bare = unwrapped(value);
    auto text = scalar_text(bare);
    if (text || bare.kind != PickleKind::object) {
        return text;
    }
    const auto tensor = try_tensor(*file_, bare);
    return tensor ? text_of_tensor(*tensor, *input_) : std::nullopt;
}

std::optional<Index> ScalarReader::index_of(const PickleValue* value) const {
    const auto text = value == nullptr ? std::nullopt : text_of(*value);
    return text ? parse_index(*text) : std::nullopt;
}

}  // namespace shardweld::formats
