// The formats this build writes.
#include <algorithm>

#include "format.hpp"
#include "gguf.hpp"

namespace shardweld::outputs {

const std::vector<const Format*>& all_formats() {
    static const std::vector<const Format*> formats = {&safetensors_format(), &hdf5_format()};
    return formats;
}

const Format& default_format() {
    return *all_formats().front();
}

bool is_output_name(std::string_view name) {
    return name.ends_with(kGgufEnding) ||
           std::ranges::any_of(all_formats(), [&](const Format* format) {
               return std::ranges::any_of(format->endings(), [&](std::string_view ending) {
                   return name.ends_with(ending);
               });
           });
}

}  // namespace shardweld::outputs
