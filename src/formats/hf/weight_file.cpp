#include "weight_file.hpp"

#include <map>
#include <utility>

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/formats/containers/safetensors_header.hpp"
#include "shardweld/formats/containers/torch_file.hpp"
#include "shardweld/io/input_file.hpp"

#include "../shared/ignored_rows.hpp"
#include "../shared/stored_piece.hpp"

namespace shardweld::formats::hf {

namespace {

using catalogue::Catalogue;
using Tensors = std::map<std::string, StoredTensor>;

Tensors torch_tensors(const io::InputFile& input, bool check_crc, Catalogue& out) {
    const TorchFile file = TorchFile::read(input, 0, std::nullopt, check_crc);
    for (const std::string& global : file.pickle().inert_globals()) {
        out.inert_globals[global] = 1;
    }
    if (!file.root().is_mapping()) {
        throw Error(ErrorCode::corrupt, "holds no dictionary of tensors");
    }
    Tensors tensors;
    IgnoredRows ignored;
    for (std::size_t i = 0; i < file.root().pair_count(); ++i) {
        const PickleValue& key = file.root().key(i);
        const std::string name(key.kind == PickleKind::text ? key.text() : "(no text)");
        try {
            if (auto tensor = file.tensor(file.root().value(i));
                tensor && key.kind == PickleKind::text) {
                tensors.insert_or_assign(name, std::move(*tensor));
            } else {
                ignored.add({printable(name), "not a tensor"}, 1, 0);
            }
        } catch (Error& error) {
            error.add_context("tensor " + printable(name));
            throw;
        }
    }
    file.require_unchanged();
    out.ignored = ignored.take();
    return tensors;
}

}  // namespace

Catalogue scan_weights(const Location& location, const std::string& file) {
    Catalogue out;
    try {
        const auto input = io::InputFile::open(location.directory / file);
        out.files.push_back({file, input.size()});
        Tensors tensors = file.ends_with(".safetensors")
                              ? read_safetensors_header(input)
                              : torch_tensors(input, location.check_crc, out);
        out.tensors.reserve(tensors.size());
        while (!tensors.empty()) {  // either list holds as much as a large model's file tells
            auto taken = tensors.extract(tensors.begin());
            StoredTensor& stored = taken.mapped();
            catalogue::Tensor& tensor = out.tensors.emplace_back();
            tensor.name = std::move(taken.key());
            tensor.dtype = stored.dtype;
            if (stored.volume() != 0) {
                tensor.pieces.push_back(piece_of(stored));
            }
            tensor.shape = std::move(stored.shape);
        }
    } catch (Error& error) {
        error.add_context("file " + printable(file));
        throw;
    }
    return out;
}

}  // namespace shardweld::formats::hf
