#include "registry.hpp"

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
        if (!contains(names, format->backend)) {
            names.emplace_back(format->backend);
        }
    }
    return names;
}

const Format* find_format(std::string_view name) {
    return copy_or(find_item(all_formats(), name, &Format::name), nullptr);
}

const Format& format_called(std::string_view name) {
    const Format* const format = find_format(name);
    if (format == nullptr) {
        throw Error(ErrorCode::internal, "no format is called \"" + std::string(name) + "\"");
    }
    return *format;
}

const Format& format_of(const Location& location) {
    return format_called(location.format);
}

}  // namespace shardweld::formats
