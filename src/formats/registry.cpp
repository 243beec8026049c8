// The formats this build reads, in the order in which they are tried.

#include "registry.hpp"

#include <algorithm>

#include "shardweld/error.hpp"

#include "format.hpp"

namespace shardweld::formats {

// The order matters where one directory fits several: the more particular format comes first.
const std::vector<const Format*>& all_formats() {
    static const std::vector<const Format*> formats = {
        &megatron::zarr_format(),
        &megatron::torch_dist_format(),
        &megatron::legacy_format(),
        &deepspeed::universal_format(),
        &deepspeed::zero_format(),
        &fsdp::fsdp_format(),
        &fsdp::accelerate_format(),
        &bytecheckpoint::bytecheckpoint_format(),
        &dcp::dcp_format(),
        &dcp::hf_shards_format(),
        &colossalai::sharded_format(),
        &colossalai::single_format(),
        &hf::hf_format(),
        &hf::adapter_format(),
        &hdf5::hdf5_format(),
    };
    return formats;
}

std::vector<std::string> backends() {
    std::vector<std::string> names;
    for (const Format* const format : all_formats()) {
        if (std::find(names.begin(), names.end(), format->backend()) == names.end()) {
            names.emplace_back(format->backend());
        }
    }
    return names;
}

const Format& format_of(const Location& location) {
    const auto& formats = all_formats();
    const auto at = std::find_if(formats.begin(), formats.end(), [&](const Format* format) {
        return format->name() == location.format;
    });
    if (at == formats.end()) {
        throw Error(ErrorCode::internal, "no format is called \"" + location.format + "\"");
    }
    return **at;
}

}  // namespace shardweld::formats
