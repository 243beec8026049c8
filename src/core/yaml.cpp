#include "yaml.hpp"

#include <algorithm>

#include "text.hpp"

namespace shardweld {

namespace {

std::size_t indent_of(std::string_view line) {
    return std::min(line.find_first_not_of(' '), line.size());
}

/// A scalar as it is written behind "key:" or "- ". Tags of Python's classes are none.
std::string scalar_in(std::string_view text) {
    text = trim(text);
    const bool is_quoted = text.size() >= 2 && (text.front() == '"' || text.front() == '\'') &&
                           text.back() == text.front();
    if (is_quoted) {
        return std::string(text.substr(1, text.size() - 2));
    }
    return std::string(text.starts_with('!') ? "" : trim(text.substr(0, text.find(" #"))));
}

bool is_item(std::string_view text) {
    return text == "-" || text.starts_with("- ");
}

/// Takes the lines of one section.
class YamlSection {
  public:
    void add(std::string_view line) {
        const std::size_t indent = indent_of(line);
        const std::string_view text = trim(line);
        level_ = level_ == 0 ? indent : level_;
        if (is_item(text)) {
            add_item(text.substr(1), indent);
        } else if (indent == level_) {
            const std::size_t colon = text.find(':');
            last_ = fields_.end();
            if (colon != std::string_view::npos) {
                const std::string value = scalar_in(text.substr(colon + 1));
                last_ = fields_.insert_or_assign(scalar_in(text.substr(0, colon)), value).first;
            }
        } else {
            leave_mapping();
        }
    }

    YamlFields take() { return std::move(fields_); }

  private:
    /// Adds an item to the list of the last key, which may stand as far left as the key.
    void add_item(std::string_view text, std::size_t indent) {
        if (last_ == fields_.end() || indent < level_) {
            return;
        }
        std::string& list = last_->second;
        list = list.empty() ? "[" : list.substr(0, list.size() - 1) + ", ";
        list += scalar_in(text) + "]";
    }

    void leave_mapping() {
        if (last_ != fields_.end() && last_->second.empty()) {
            fields_.erase(last_);
            last_ = fields_.end();
        }
    }

    YamlFields fields_;
    YamlFields::iterator last_ = fields_.end();
    std::size_t level_ = 0;
};

}  // namespace

YamlFields yaml_section(std::string_view yaml, std::string_view section) {
    YamlSection found;
    bool is_inside = false;
    for (const std::string_view line : split(yaml, '\n')) {
        const std::string_view text = trim(line);
        if (text.empty() || text.front() == '#') {
            continue;
        }
        if (indent_of(line) == 0 && !is_item(text)) {
            const std::size_t colon = text.find(':');
            is_inside =
                colon != std::string_view::npos && scalar_in(text.substr(0, colon)) == section;
        } else if (is_inside) {
            found.add(line);
        }
    }
    return found.take();
}

}  // namespace shardweld
