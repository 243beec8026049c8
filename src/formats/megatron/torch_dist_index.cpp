#include "torch_dist_index.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/formats/shared/dcp_metadata.hpp"

#include "../shared/dcp_pieces.hpp"
#include "../shared/fingerprint.hpp"
#include "../shared/ignored_rows.hpp"
#include "../shared/unnamed_files.hpp"
#include "../steps.hpp"
#include "dist_state.hpp"
#include "names.hpp"

namespace shardweld::formats::megatron {

namespace {

/// What is known of a blob beside its bytes, by its place in the file.
using Blob = std::pair<Bytes, std::uint64_t>;

std::uint64_t shape_of(const catalogue::Tensor& tensor, const catalogue::Piece& piece) {
    Fingerprint shape;
    shape.add(torch_name(tensor.dtype));
    for (const layout::Axis& axis : piece.patch.axes) {
        if (axis.extent != 1) {
            shape.add(static_cast<std::uint64_t>(axis.extent));
        }
    }
    return shape.value();
}

/// Of each file, what tells it from others once its blobs are opened.
std::vector<std::string> likenesses(const catalogue::Catalogue& catalogue) {
    std::vector<std::vector<Blob>> blobs(catalogue.files.size());
    for (const catalogue::Tensor& tensor : catalogue.tensors) {
        for (const catalogue::Piece& piece : tensor.pieces) {
            blobs[piece.file].emplace_back(piece.base, shape_of(tensor, piece));
        }
    }
    std::vector<std::string> texts;
    for (std::size_t file = 0; file < blobs.size(); ++file) {
        std::sort(blobs[file].begin(), blobs[file].end());
        Fingerprint all;
        all.add(catalogue.files[file].size);
        for (const auto& [base, shape] : blobs[file]) {
            all.add(base);
            all.add(shape);
        }
        texts.push_back(std::to_string(all.value()));
    }
    return texts;
}

/// The blobs are held against the index when they are opened: a file that has others in their
/// places is refused then.
void add_statements(const std::string& checkpoint_id, catalogue::Catalogue& out) {
    if (const auto iteration = iteration_of(checkpoint_id)) {
        out.statements.push_back({".metadata",
                                  "the name of the directory that was saved to",
                                  {},
                                  {{"iteration", std::to_string(*iteration)}}});
    }
    const auto alike = likenesses(out);
    for (std::size_t file = 0; file < out.files.size(); ++file) {
        out.statements.push_back({out.files[file].path,
                                  "its pieces, as .metadata lists them",
                                  {},
                                  {{"index", ".metadata"}},
                                  true,
                                  alike[file]});
    }
}

}  // namespace

catalogue::Catalogue read_index(const Location& location) {
    auto metadata = DcpMetadata::read(location.directory / ".metadata");
    if (metadata.has_transforms) {
        throw Error(ErrorCode::unsupported,
                    "the shards are compressed; save without compression (transforms)");
    }
    catalogue::Catalogue out;
    IgnoredRows ignored;
    for (const DcpTensor& tensor : metadata.tensors) {
        if (const auto row = aside(tensor.name)) {
            ignored.add(*row, 1, stored_bytes(tensor));
        } else {
            out.tensors.push_back(tensor_of(tensor));
            out.tensors.back().name = model_name(tensor.name);
        }
    }
    for (const DcpObject& object : metadata.objects) {
        const auto row = aside(object.name);
        const std::string name = object.name.substr(0, object.name.find("/shard_"));
        ignored.add(row ? *row : std::pair(printable(name), std::string("not a tensor")), 1,
                    object.length);
    }
    sort_tensors(out.tensors);
    out.ignored = ignored.take();
    note_unnamed(location, location.shard_files, metadata.files, out);
    keep_used_files(std::move(metadata.files), out, metadata.ends);
    add_statements(metadata.checkpoint_id, out);
    return out;
}

}  // namespace shardweld::formats::megatron
