#include "error_text.hpp"

namespace shardweld::app {

namespace {

std::string places_text(const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts) {
        text += (text.empty() ? "" : "; ") + part;
    }
    return text;
}

std::string line(const char* label, const std::string& text) {
    return text.empty() ? "" : "\n  " + std::string(label) + text;
}

}  // namespace

std::string hint_of(const Error& error) {
    if (!error.hint().empty()) {
        return error.hint();
    }
    switch (error.code()) {
        case ErrorCode::corrupt:
            return "copy the file again from where it was saved";
        case ErrorCode::internal:
            return "this is a fault of shardweld: please report it";
        default:
            return "";
    }
}

std::string below(const Error& error, bool has_detail) {
    return line("where: ", places_text(error.context())) + line("hint: ", hint_of(error)) +
           (has_detail ? line("detail: ", error.detail()) : "");
}

std::string text_of(const Error& error, bool has_detail) {
    return error.what() + below(error, has_detail);
}

}  // namespace shardweld::app
