#include "safetensors_json.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

namespace {

using Json = nlohmann::json;

constexpr std::string_view kMetadata = "__metadata__";

[[noreturn]] void refuse_json(const std::string& what) {
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
            refuse_json("key " + printable(text) + " comes twice");
        }
        if (depth_ == 2 && !in_metadata() && is_field_of_tensor(text) &&
            !fields_.insert(text).second) {
            refuse_json(where() + ": " + printable(text) + " comes twice");
        }
        (depth_ == 1 ? name_ : field_) = std::move(text);
        return true;
    }

    /// At the end: a set of names would take as much memory as all else.
    void keep_last_of_each() {
        std::vector<const SafetensorsEntry*> order;
        order.reserve(out_.entries.size());
        for (const SafetensorsEntry& entry : out_.entries) {
            order.push_back(&entry);
        }
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
                    refuse_json(where() + " has no " + field);
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
            refuse_json(where() + ": data_offsets are not a begin and an end");
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
        refuse_json("it is not valid JSON at byte " + std::to_string(position));
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
            refuse_json("it is not a JSON object");
        }
        if (depth_ == 1) {
            refuse_json(where() + " is not an object");
        }
        if (in_metadata()) {
            refuse_json(where() + ": " + printable(field_) + " is not a text");
        }
        refuse_json(where() + ": " + printable(field_) +
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

}  // namespace

SafetensorsText parse_safetensors_text(std::string_view text) {
    SafetensorsText out;
    HeaderReader reader(out);
    Json::sax_parse(text, &reader);
    reader.keep_last_of_each();
    return out;
}

}  // namespace shardweld::formats
