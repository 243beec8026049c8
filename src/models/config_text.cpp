#include "config_text.hpp"

#include <cstddef>
#include <vector>

#include <nlohmann/json.hpp>

#include "shardweld/core/error.hpp"
#include "shardweld/core/index.hpp"

namespace shardweld::models {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kMostBytes = 64'000'000;
constexpr std::size_t kDeepest = 64;
// An object of 30 000 fields, e.g. the names of as many classes.
constexpr Bytes kMostComparisons = 500'000'000;
/// "line 3, column 7" of a byte position.
std::string place_of(const std::string& text, std::size_t at) {
    std::size_t line = 1;
    std::size_t column = 1;
    for (std::size_t i = 0; i < at && i < text.size(); ++i) {
        line += text[i] == '\n' ? 1U : 0U;
        column = text[i] == '\n' ? 1 : column + 1;
    }
    return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

/// The parser nests as deep as its input does, and looks through an object's fields for each new
/// one; so limits on both come first.
class Limits {
  public:
    explicit Limits(const std::string& text) : text_(text) {}

    /// What is too much, or "".
    std::string broken() {
        bool is_text = false;
        for (std::size_t i = 0; i < text_.size(); ++i) {
            const char c = text_[i];
            if (is_text) {
                i += c == '\\' ? 1U : 0U;
                is_text = c != '"';
                continue;
            }
            is_text = c == '"';
            count(c);
            if (fields_.size() > kDeepest) {
                return "is nested deeper than 64 levels at " + place_of(text_, i);
            }
            if (n_comparisons_ > kMostComparisons) {
                return "has too many fields at " + place_of(text_, i);
            }
        }
        return "";
    }

  private:
    void count(char c) {
        if (c == '{' || c == '[') {
            fields_.push_back(0);
        } else if ((c == '}' || c == ']') && !fields_.empty()) {
            fields_.pop_back();
        } else if (c == ':' && !fields_.empty()) {
            n_comparisons_ += ++fields_.back();
        }
    }

    const std::string& text_;
    std::vector<Bytes> fields_;  ///< so far, of each object or list that is open
    Bytes n_comparisons_ = 0;
};

}  // namespace

nlohmann::ordered_json parse_config_text(const std::string& text, const std::string& origin) {
    if (text.size() > kMostBytes) {
        throw Error(ErrorCode::corrupt, origin + " is larger than 64 MB");
    }
    if (const std::string broken = Limits(text).broken(); !broken.empty()) {
        throw Error(ErrorCode::corrupt, origin + " " + broken);
    }
    ordered_json root;
    try {
        root = ordered_json::parse(text);
    } catch (const ordered_json::parse_error& error) {
        throw Error(ErrorCode::corrupt,
                    origin + " is no valid JSON at " + place_of(text, error.byte - 1));
    } catch (const ordered_json::exception& error) {
        throw Error(ErrorCode::corrupt, origin + " is no valid JSON: " + error.what());
    }
    if (!root.is_object()) {
        throw Error(ErrorCode::corrupt, origin + " is no JSON object");
    }
    return root;
}

}  // namespace shardweld::models
