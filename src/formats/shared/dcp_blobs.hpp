// What distributed checkpoints keep as archives of their own inside shard files: tensors, each
// chunk a torch.save archive within a .distcp file or its elements alone, and objects beside them.
// Sources: torch 2.15 torch/distributed/checkpoint/filesystem.py (_write_item); bytecheckpoint
// 0.0.2 bytecheckpoint/engine/store_engine.py.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "core/index.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/containers/pickle.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/format.hpp"

#include "file_scan.hpp"

namespace shardweld::formats {

/// Opens the archives of all unlocated pieces in `files`; `before_file` is called at each.
/// Blobs that are no archives (`are_archives`) are only held against their files' sizes: their
/// pieces have their strides already.
/// Error(corrupt) when one is no archive of a tensor or lies outside its file, Error(mismatch) when
/// dtype or shape are not those of the index.
Resolution locate_blobs(const Location& location, const Catalogue& catalogue,
                        std::span<const std::uint32_t> files,
                        const std::function<void()>& before_file, bool are_archives);

/// Format::resolve of archives.
Resolution locate_archives(const Location& location, const Catalogue& catalogue,
                           std::span<const std::uint32_t> files,
                           const std::function<void()>& before_file);

/// Where an object lies.
struct ObjectPlace {
    std::string file;  ///< below the checkpoint's directory
    Bytes offset = 0;
    Bytes length = 0;
};

/// SerializationFormat.SAFETENSORS puts all tensors of a file in one container, where the JSON
/// header begins after eight bytes; an archive has its compression method, 0 or 8, there.
bool begins_container(const io::InputFile& file, Bytes begin);

/// Megatron keeps an object among the shards as the one element of a list.
const PickleValue& only_element_of(const PickleValue& root);

/// Refuses a weight in an object that is called as none of the model's is, a head's dictionary or
/// a tensor: Error(unsupported), naming it. What cannot be looked into is let pass.
/// `is_models`: whether a name is one of the model's.
void require_no_part(
    const Location& location, const ObjectPlace& place, const std::string& name,
    const std::function<bool(std::string_view)>& is_models = [](std::string_view /*name*/) {
        return false;
    });

/// Refuses a weight in a dictionary whose values are a checkpoint's own state, not in its training
/// keys, as in an object.
void require_no_part(const TorchFile& file, const PickleValue& state);

/// Puts the object into a row of its name with its length. It is opened where it stands among a
/// model's tensors: Error(unsupported), naming it, when it may be a weight (model_values.hpp) or
/// cannot be looked into. `name` is what it is called within the model.
void leave_aside_object(const Location& location, const ObjectPlace& place, const std::string& name,
                        IgnoredRows& ignored);

}  // namespace shardweld::formats
