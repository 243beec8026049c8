#include "stored_tensor.hpp"

#include "formats/containers/torch_file.hpp"
#include "layout/patch.hpp"

namespace shardweld::app {

catalogue::Tensor stored_tensor(const std::string& name, const formats::StoredTensor& stored,
                                std::uint32_t file) {
    catalogue::Tensor tensor{name, stored.dtype, stored.shape, {}};
    catalogue::Piece piece;
    piece.file = file;
    piece.base = stored.storage_offset;
    piece.storage_bytes = stored.storage_bytes;
    piece.patch = layout::dense_shape(stored.shape);
    tensor.pieces.push_back(piece);
    return tensor;
}

}  // namespace shardweld::app
