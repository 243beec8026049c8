#include "safetensors_header.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/in_context.hpp"
#include "core/index.hpp"
#include "core/json.hpp"
#include "core/strides.hpp"
#include "core/text.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

#include "file_sign.hpp"

namespace shardweld::formats {

namespace {

struct SafetensorsEntry {
    std::string name;
    std::string dtype;         ///< as written: "BF16"
    std::vector<Index> shape;  ///< elements
    Bytes begin = 0;           ///< data_offsets, relative to the data's start
    Bytes end = 0;

    bool operator==(const SafetensorsEntry&) const = default;
};

struct SafetensorsText {
    std::string twice;  ///< a tensor that is described twice, and in different ways; "": none
    std::deque<SafetensorsEntry> entries;         ///< in the order of the text
    std::map<std::string, std::string> metadata;  ///< of `__metadata__`
};

using Json = nlohmann::json;

constexpr std::string_view kMetadata = "__metadata__";

[[noreturn]] void refuse_header(const std::string& what) {
    throw Error(ErrorCode::corrupt, "malformed safetensors header: " + what);
}

// Told of each token by the parser; false would stop it, errors are thrown instead.
class HeaderReader final : public nlohmann::json_sax<Json> {
  public:
    explicit HeaderReader(SafetensorsText& out) : out_(out) {}

    bool start_object(std::size_t /*size*/) override {
        if (is_passed_over()) {
            ++passed_depth_;
            return true;
        }
        ++depth_;
        if (depth_ > 2 || in_list_) {
            refuse_value();
        }
        if (depth_ == 2 && !in_metadata()) {
            out_.entries.push_back({name_, "", {}, 0, 0});
        }
        return true;
    }

    bool key(std::string& text) override {
        if (passed_depth_ > 0) {
            return true;
        }
        if (depth_ == 1 && text == kMetadata && std::exchange(has_metadata_, true)) {
            refuse_header("key " + printable(text) + " comes twice");
        }
        if (depth_ == 2 && !in_metadata() && is_field_of_tensor(text) &&
            !fields_.insert(text).second) {
            refuse_header(where() + ": " + printable(text) + " comes twice");
        }
        (depth_ == 1 ? name_ : field_) = std::move(text);
        return true;
    }

    /// At the end: a set of names would take as much memory as all else.
    void keep_last_of_each() {
        std::vector<const SafetensorsEntry*> order =
            collect_list(out_.entries, [](const SafetensorsEntry& entry) { return &entry; });
        std::ranges::stable_sort(
            order, {}, [](const auto* entry) -> const auto& { return entry->name; });
        std::set<const SafetensorsEntry*> earlier;
        for (std::size_t i = 1; i < order.size(); ++i) {
            if (order[i - 1]->name == order[i]->name) {
                out_.twice = *order[i - 1] == *order[i] ? out_.twice : order[i]->name;
                earlier.insert(order[i - 1]);
            }
        }
        if (!earlier.empty()) {
            std::erase_if(out_.entries,
                          [&](const SafetensorsEntry& entry) { return earlier.contains(&entry); });
        }
    }

    bool end_object() override {
        if (passed_depth_ > 0) {
            --passed_depth_;
            return true;
        }
        --depth_;
        if (depth_ == 1 && !in_metadata()) {
            for (const char* field : {"dtype", "shape", "data_offsets"}) {
                if (!fields_.contains(field)) {
                    refuse_header(where() + " has no " + field);
                }
            }
        }
        fields_.clear();
        return true;
    }

    bool start_array(std::size_t /*size*/) override {
        if (is_passed_over()) {
            ++passed_depth_;
            return true;
        }
        if (depth_ != 2 || in_list_ || in_metadata() ||
            (field_ != "shape" && field_ != "data_offsets")) {
            refuse_value();
        }
        in_list_ = true;
        list_.clear();
        return true;
    }

    bool end_array() override {
        if (passed_depth_ > 0) {
            --passed_depth_;
            return true;
        }
        in_list_ = false;
        SafetensorsEntry& entry = out_.entries.back();
        if (field_ == "shape") {
            entry.shape = std::move(list_);
        } else if (list_.size() != 2 || list_[0] > list_[1]) {
            refuse_header(where() + ": data_offsets are not a begin and an end");
        } else {
            entry.begin = to_bytes(list_[0], "data_offsets");
            entry.end = to_bytes(list_[1], "data_offsets");
        }
        return true;
    }

    bool string(std::string& text) override {
        if (depth_ == 2 && in_metadata()) {
            out_.metadata[field_] = std::move(text);
        } else if (depth_ == 2 && !in_list_ && field_ == "dtype") {
            out_.entries.back().dtype = std::move(text);
        } else {
            return other_value();
        }
        return true;
    }

    bool number_unsigned(std::uint64_t value) override {
        if (!in_list_) {
            return other_value();
        }
        list_.push_back(to_index(value, field_));
        return true;
    }

    bool number_integer(std::int64_t /*value*/) override { return other_value(); }
    bool number_float(double /*value*/, const std::string& /*text*/) override {
        return other_value();
    }
    bool null() override { return (depth_ == 1 && in_metadata()) || other_value(); }
    bool boolean(bool /*value*/) override { return other_value(); }
    bool binary(Json::binary_t& /*value*/) override { return other_value(); }

    bool parse_error(std::size_t position, const std::string& /*token*/,
                     const Json::exception& /*error*/) override {
        refuse_header("it is not valid JSON at byte " + std::to_string(position));
    }

  private:
    [[nodiscard]] bool in_metadata() const { return name_ == kMetadata; }
    [[nodiscard]] std::string where() const {
        return (in_metadata() ? "" : "tensor ") + printable(name_);
    }
    static bool is_field_of_tensor(std::string_view field) {
        return field == "dtype" || field == "shape" || field == "data_offsets";
    }
    /// The value of a field that no tensor has, or something inside of it.
    [[nodiscard]] bool is_passed_over() const {
        return passed_depth_ > 0 ||
               (depth_ == 2 && !in_list_ && !in_metadata() && !is_field_of_tensor(field_));
    }
    [[nodiscard]] bool other_value() const {
        if (!is_passed_over()) {
            refuse_value();
        }
        return true;
    }
    [[noreturn]] void refuse_value() const {
        if (depth_ == 0) {
            refuse_header("it is not a JSON object");
        }
        if (depth_ == 1) {
            refuse_header(where() + " is not an object");
        }
        if (in_metadata()) {
            refuse_header(where() + ": " + printable(field_) + " is not a text");
        }
        refuse_header(where() + ": " + printable(field_) +
                      (field_ == "dtype" ? " is not a text" : " is not a list of numbers from 0"));
    }

    SafetensorsText& out_;
    std::string name_;   // of the tensor
    std::string field_;  // of the tensor's object
    std::set<std::string> fields_;
    std::vector<Index> list_;
    int depth_ = 0;
    int passed_depth_ = 0;  // inside the value of a field that no tensor has
    bool in_list_ = false;
    bool has_metadata_ = false;
};

/// Parses in one pass without building a tree, in memory linear in the text, as the reference
/// implementation does: other fields of a tensor are passed over, and of a tensor that comes twice
/// the last description counts. Error(corrupt) naming the tensor for anything but an object with
/// dtype, shape and data_offsets, each of them once, and for metadata that is not text.
SafetensorsText parse_safetensors_text(std::string_view text) {
    SafetensorsText out;
    HeaderReader reader(out);
    if (too_long_at(text)) {
        refuse_header("a number in it is longer than any is");
    }
    Json::sax_parse(text, &reader);
    reader.keep_last_of_each();
    return out;
}

constexpr Bytes kLengthBytes = 8;
constexpr Bytes kLongestHeader = 100'000'000;  // the reference implementation's limit

/// Refuses a file for its header, or for what it is where only its name is that of safetensors.
[[noreturn]] void refuse_file(const io::InputFile& file, const std::string& fault) {
    const FileSign* const sign = sign_of(file);
    if (sign == nullptr || sign->ending == ".safetensors") {
        refuse_header(fault);
    }
    // torch 2.15, torch/distributed/checkpoint/hf_storage.py: objects go in front of the tensors.
    const bool is_torch = sign->bytes.starts_with("PK");
    throw Error(ErrorCode::unsupported,
                "safetensors file: it is none, but " + std::string(sign->what),
                is_torch ? "torch's HuggingFace writer makes that of objects, such as a step's "
                           "number, that are saved beside tensors: save the tensors alone with it"
                         : std::string(sign->remedy));
}

std::string read_header(const io::InputFile& file, Bytes begin) {
    const Bytes size = begin < file.size() ? file.size() - begin : 0;
    if (size < kLengthBytes) {
        refuse_header("it has " + std::to_string(size) + " bytes");
    }
    std::array<std::byte, kLengthBytes> raw{};
    file.read_at(begin, raw);
    Bytes length = 0;
    std::memcpy(&length, raw.data(), raw.size());
    if (length > size - kLengthBytes || length > kLongestHeader) {
        refuse_file(file, "it claims " + std::to_string(length) + " bytes, the file has " +
                              std::to_string(size));
    }
    std::string text(to_size(length, "the safetensors header"), '\0');
    file.read_at(begin + kLengthBytes, std::as_writable_bytes(std::span(text)));
    if (!trim(text).starts_with('{') || has_part(text, '\0')) {
        refuse_file(file, "it does not begin with '{', or holds a NUL");
    }
    return text;
}

DType dtype_of(const SafetensorsEntry& entry) {
    const auto dtype = dtype_from_safetensors(entry.dtype);
    if (!dtype) {
        throw Error(ErrorCode::unsupported,
                    "safetensors dtype " + printable(entry.dtype) + " is not supported");
    }
    return *dtype;
}

StoredTensor tensor_of(SafetensorsEntry& entry, Bytes data_begin) {
    StoredTensor tensor;
    tensor.dtype = dtype_of(entry);
    tensor.shape = std::move(entry.shape);
    tensor.storage_offset = data_begin + entry.begin;
    tensor.storage_bytes = entry.end - entry.begin;
    const Bytes volume = to_bytes(volume_of(tensor.shape, "shape"), "shape");
    if (checked_mul_bytes(volume, size_of(tensor.dtype), "shape") != tensor.storage_bytes) {
        refuse_header("shape " + shape_text(tensor.shape) + " of " + entry.dtype +
                      " does not take the " + std::to_string(tensor.storage_bytes) +
                      " bytes that data_offsets give it");
    }
    tensor.strides = dense_strides(tensor.shape);
    return tensor;
}

// The tensors lie one after another and fill the data.
void require_tiling(const std::map<std::string, StoredTensor>& tensors, Bytes data_begin,
                    Bytes data_size) {
    using NamedTensor = std::map<std::string, StoredTensor>::value_type;
    std::vector<const NamedTensor*> order =
        collect_list(tensors, [](const NamedTensor& entry) { return &entry; });
    std::ranges::sort(order, {}, [](const NamedTensor* entry) {
        return std::pair(entry->second.storage_offset, entry->second.storage_bytes);
    });
    Bytes end = 0;
    const std::string* before = nullptr;
    for (const NamedTensor* entry : order) {
        const Bytes begin = entry->second.storage_offset - data_begin;
        const Bytes next = begin + entry->second.storage_bytes;
        if (next > data_size) {
            refuse_header("tensor " + printable(entry->first) + " ends at byte " +
                          std::to_string(next) + " of the data, which has " +
                          std::to_string(data_size) + ": is the file cut short?");
        }
        if (begin < end) {
            refuse_header("tensors " + printable(*before) + " and " + printable(entry->first) +
                          " overlap");
        }
        if (begin > end) {
            refuse_header("a hole of " + std::to_string(begin - end) + " bytes before tensor " +
                          printable(entry->first));
        }
        end = next;
        before = &entry->first;
    }
    if (end != data_size) {
        refuse_header(std::to_string(data_size - end) + " bytes follow after the last tensor" +
                      (before == nullptr ? std::string() : ", " + printable(*before)));
    }
}

/// The header's text is read, parsed and gone.
SafetensorsText parse_header(const io::InputFile& file, Bytes begin, Bytes& data_begin) {
    const std::string text = read_header(file, begin);
    data_begin = begin + kLengthBytes + text.size();
    return parse_safetensors_text(text);
}

}  // namespace

SafetensorsHeader read_safetensors(const io::InputFile& file, Bytes begin, Twice twice) {
    Bytes data_begin = 0;
    SafetensorsText parsed = parse_header(file, begin, data_begin);
    if (twice == Twice::refused && !parsed.twice.empty()) {
        refuse_header("key " + printable(parsed.twice) + " comes twice, with different tensors");
    }
    SafetensorsHeader header;
    header.metadata = std::move(parsed.metadata);
    for (; !parsed.entries.empty(); parsed.entries.pop_front()) {
        SafetensorsEntry& entry = parsed.entries.front();
        StoredTensor tensor =
            in_context("tensor ", entry.name, [&] { return tensor_of(entry, data_begin); });
        header.tensors.emplace(std::move(entry.name), std::move(tensor));
    }
    require_tiling(header.tensors, data_begin, file.size() - data_begin);
    return header;
}

std::map<std::string, StoredTensor> read_safetensors_header(const io::InputFile& file,
                                                            Bytes begin) {
    return read_safetensors(file, begin).tensors;
}

}  // namespace shardweld::formats
