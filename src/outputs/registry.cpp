// The formats this build writes.
#include <algorithm>

#include "format.hpp"
#include "gguf.hpp"

namespace shardweld::outputs {

const std::vector<const OutputFormat*>& all_formats() {
    static const std::vector<const OutputFormat*> formats = {&safetensors_format(), &hdf5_format()};
    return formats;
}

const OutputFormat& default_format() {
    return *all_formats().front();
}

bool is_output_name(std::string_view name) {
    return name.ends_with(kGgufEnding) ||
           std::ranges::any_of(all_formats(), [&](const OutputFormat* format) {
               return std::ranges::any_of(format->endings(), [&](std::string_view ending) {
                   return name.ends_with(ending);
               });
           });
}

}  // namespace shardweld::outputs
