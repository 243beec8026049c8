#include "class_name.hpp"

#include <algorithm>
#include <cctype>

namespace shardweld::models {

std::string squeezed(std::string_view name) {
    std::string text;
    for (const char c : name) {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
            text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        }
    }
    return text;
}

std::string_view family_of_class(std::string_view name) {
    std::size_t end = name.size();
    for (const std::string_view what : {"For", "LMHead", "Model"}) {
        end = std::min(end, name.find(what));
    }
    return name.substr(0, end);
}

}  // namespace shardweld::models
