#include "registry.hpp"

#include <algorithm>

#include "shardweld/error.hpp"

namespace shardweld::formats {

const std::vector<const Format*>& all_formats() {
#define SHARDWELD_LIST(folder, format) &folder::format,
    static const std::vector<const Format*> formats = {SHARDWELD_FORMATS(SHARDWELD_LIST)};
#undef SHARDWELD_LIST
    return formats;
}

std::vector<std::string> backends() {
    std::vector<std::string> names;
    for (const Format* const format : all_formats()) {
        if (std::ranges::find(names, format->backend) == names.end()) {
            names.emplace_back(format->backend);
        }
    }
    return names;
}

const Format& format_called(std::string_view name) {
    const auto at = std::ranges::find(all_formats(), name, &Format::name);
    if (at == all_formats().end()) {
        throw Error(ErrorCode::internal, "no format is called \"" + std::string(name) + "\"");
    }
    return **at;
}

const Format& format_of(const Location& location) {
    return format_called(location.format);
}

}  // namespace shardweld::formats
