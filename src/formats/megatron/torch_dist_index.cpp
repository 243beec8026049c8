#include "torch_dist_index.hpp"

#include <string>
#include <utility>

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/formats/containers/dcp_metadata.hpp"

#include "../shared/dcp_pieces.hpp"
#include "../shared/dcp_statements.hpp"
#include "../shared/ignored_rows.hpp"
#include "../shared/unnamed_files.hpp"
#include "adapter.hpp"
#include "dist_state.hpp"
#include "model_names.hpp"

namespace shardweld::formats::megatron {

catalogue::Catalogue read_index(const Location& location) {
    auto metadata = DcpMetadata::read(location.directory / ".metadata");
    if (metadata.has_transforms) {
        throw Error(ErrorCode::unsupported, "the shards are compressed",
                    "save without compression (transforms)");
    }
    catalogue::Catalogue out;
    IgnoredRows ignored;
    for (const DcpTensor& tensor : metadata.tensors) {
        if (const auto row = ignored_row(tensor.name)) {
            ignored.add(*row, 1, stored_bytes(tensor));
        } else {
            out.tensors.push_back(tensor_of(tensor));
            out.tensors.back().name = model_name(tensor.name);
            undo_halves(out.tensors.back());
        }
    }
    for (const DcpObject& object : metadata.objects) {
        const auto row = ignored_row(object.name);
        const std::string name = object.name.substr(0, object.name.find("/shard_"));
        ignored.add(row ? *row : std::pair(printable(name), std::string("not a tensor")), 1,
                    object.length);
    }
    sort_tensors(out.tensors);
    out.ignored = ignored.take();
    note_unnamed(location, location.shard_files, metadata.files, out);
    keep_used_files(std::move(metadata.files), out, metadata.ends);
    add_save_name(metadata.checkpoint_id, ".metadata", out);
    add_likenesses(".metadata", out);
    return out;
}

}  // namespace shardweld::formats::megatron
