#include "torch_dist_index.hpp"

#include <algorithm>
#include <utility>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/formats/shared/dcp_metadata.hpp"

#include "../shared/dcp_pieces.hpp"
#include "../shared/ignored_rows.hpp"
#include "dist_state.hpp"

namespace shardweld::formats::megatron {

namespace {

using catalogue::Catalogue;

void require_distinct(const std::vector<catalogue::Tensor>& tensors) {
    for (std::size_t i = 1; i < tensors.size(); ++i) {
        if (tensors[i].name == tensors[i - 1].name) {
            throw Error(ErrorCode::corrupt,
                        "two keys name tensor " + printable(tensors[i].name) +
                            " when the prefixes model. and module. are removed");
        }
    }
}

}  // namespace

std::string_view model_key(std::string_view key) {
    for (bool again = true; again;) {
        again = false;
        for (const std::string_view wrapper : {"model.", "module."}) {
            if (key.starts_with(wrapper)) {
                key.remove_prefix(wrapper.size());
                again = true;
            }
        }
    }
    return key;
}

Catalogue read_index(const Location& location) {
    auto metadata = DcpMetadata::read(location.directory / ".metadata");
    if (metadata.has_transforms) {
        throw Error(ErrorCode::unsupported,
                    "the shards are compressed; save without compression (transforms)");
    }
    Catalogue out;
    IgnoredRows ignored;
    for (const DcpTensor& tensor : metadata.tensors) {
        if (const auto row = aside(tensor.name)) {
            ignored.add(*row, 1, stored_bytes(tensor));
        } else {
            out.tensors.push_back(tensor_of(tensor));
            out.tensors.back().name = model_key(tensor.name);
        }
    }
    for (const DcpObject& object : metadata.objects) {
        const auto row = aside(object.name);
        const std::string name = object.name.substr(0, object.name.find("/shard_"));
        ignored.add(row ? *row : std::pair(printable(name), std::string("not a tensor")), 1,
                    object.length);
    }
    std::sort(out.tensors.begin(), out.tensors.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    require_distinct(out.tensors);
    keep_used_files(std::move(metadata.files), out);
    out.ignored = ignored.take();
    return out;
}

}  // namespace shardweld::formats::megatron
