// The formats this build writes.
#include "shardweld/outputs/format.hpp"

#include "hdf5/hdf5.hpp"
#include "safetensors/safetensors.hpp"

namespace shardweld::outputs {

const std::vector<const Format*>& all_formats() {
    static const std::vector<const Format*> formats = {
        &safetensors_format(),
        &hdf5_format(),
    };
    return formats;
}

const Format& default_format() {
    return *all_formats().front();
}

Framer Format::framer() const {
    return [](Placement&, std::size_t, const std::vector<OutputTensor>&) { return Frame{}; };
}

}  // namespace shardweld::outputs
