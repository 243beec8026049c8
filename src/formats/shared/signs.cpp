#include "signs.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "neighbour_names.hpp"

namespace shardweld::formats {

using namespace std::string_view_literals;

namespace {

constexpr std::string_view kUnpack = "unpack it and give the directory that comes out";
constexpr std::string_view kFromModel = "give the HuggingFace model that it was made of";
constexpr std::string_view kFromJax =
    "load it with the JAX program that saved it, and write a HuggingFace model there";

// What trainers and programs write, whatever their format is. The first that fits is said, so what
// only one program writes goes before what several do.
// Seen with: paddlepaddle 3.3.1, orbax-checkpoint 0.12.8, tensorstore 0.1.86, flax 0.12.12, keras
// 3.15.1, tensorizer 2.12.1, tensordict 0.15.3, torchsnapshot 0.1.0, torch_checkpointing 0.1.1, mlx
// 0.32.4.
constexpr auto kSigns = std::to_array<Sign>({
    {"a distributed checkpoint of Paddle",
     "load it with Paddle (paddle.distributed.load_state_dict) and save safetensors there",
     {"#_#.distcp", "#.metadata"}},
    {"a checkpoint of Paddle", "save it as safetensors with Paddle", {"*.pdparams", "*.pdopt"}},
    {"an Orbax checkpoint of JAX",
     kFromJax,
     {"_CHECKPOINT_METADATA", "_METADATA", "checkpoint_metadata"}},
    {"an OCDBT store of TensorStore, as JAX programs write it", kFromJax, {"manifest.ocdbt"}},
    {"an array of TensorStore or zarr, as JAX programs write it",
     kFromJax,
     {".zarray", "zarr.json"}},
    {"a Flax model", kFromJax, {"*.msgpack", "checkpoint_#"}},
    {"a TensorFlow checkpoint",
     "load it with transformers' from_pretrained(from_tf=True)",
     {"*.data-#-of-#", "tf_model*.h5", "saved_model.pb"}},
    {"Keras's weights", "load them with Keras and save safetensors", {"*.weights.h5", "*.keras"}},
    {"a model of tensorizer",
     "load it with tensorizer's TensorDeserializer and save safetensors",
     {"*.tensors"}},
    {"a snapshot of torchsnapshot",
     "restore it with torchsnapshot and save with torch.distributed.checkpoint",
     {".snapshot_metadata"}},
    {"a checkpoint of torch_checkpointing",
     "load it with its CheckpointManager and save with torch.distributed.checkpoint",
     {"metadata.pkl"},
     {"*_#.pt"}},
    {"files of each rank by torch.save, as torch_checkpointing writes them",
     "load them with the program that wrote them and save with torch.distributed.checkpoint",
     {"model_#.pt"}},
    {"a TensorDict in memory maps",
     "load it with TensorDict.load_memmap and save safetensors",
     {"*.memmap"},
     {"meta.json"}},
    {"MLX's weights", "load them with mlx.core.load and save safetensors", {"weights*.npz"}},
    {"an adapter of MLX", "fuse it into its model with mlx_lm.fuse", {"adapters.safetensors"}},
    {"vLLM's sharded state", kFromModel, {"model-rank-#-part-#.safetensors"}},
    {"a checkpoint of TensorRT-LLM", kFromModel, {"rank#.safetensors", "rank#.engine"}},
    {"optimizer state without weights",
     "give the directory of the weights, or an earlier save",
     {"optimizer.bin", "optimizer.pt", "optimizer_*rank*.bin"}},
    {"a PEFT adapter without weights",
     "copy adapter_model.safetensors, too",
     {"adapter_config.json"}},
    {"a GGUF model, llama.cpp's format", kFromModel, {"*.gguf"}},
    {"a NeMo archive", "unpack it (tar -xf) and give what lies in it", {"*.nemo"}},
    {"a release of Llama in Meta's own layout",
     "convert it with transformers' convert_llama_weights_to_hf.py",
     {"consolidated.*.pth"}},
    {"a Lightning checkpoint in one file",
     "load it with torch: there is nothing to merge",
     {"*.ckpt"}},
    {"an ONNX model", kFromModel, {"*.onnx"}},
    {"an archive that is still packed", kUnpack, {"*.tar", "*.tar.*", "*.tgz"}},
    {"an archive that is still packed", kUnpack, {"*.zip"}},
    {"a HuggingFace model without weights",
     "give the checkpoint as --local_dir, and this directory as --hf_config",
     {"config.json"},
     {"tokenizer_config.json"}},
});

/// Whether one of `names` is that of a file, or with a '/' behind it of a directory.
bool has_like(const Listing& listing, std::string_view pattern) {
    const bool is_directory = pattern.ends_with('/');
    pattern.remove_suffix(is_directory ? 1 : 0);
    return std::ranges::any_of(is_directory ? listing.directories : listing.files,
                               [&](const std::string& name) { return matches(pattern, name); });
}

bool is_told(const Sign& sign, const Listing& listing) {
    const auto is_there = [&](std::string_view name) { return has_like(listing, name); };
    return std::ranges::any_of(sign.any,
                               [&](auto name) { return !name.empty() && is_there(name); }) &&
           std::ranges::all_of(sign.with,
                               [&](auto name) { return name.empty() || is_there(name); });
}

const Sign* sign_among(std::span<const Sign> signs, const Listing& listing) {
    const auto sign =
        std::ranges::find_if(signs, [&](const Sign& one) { return is_told(one, listing); });
    return sign == signs.end() ? nullptr : &*sign;
}

}  // namespace

const Sign* sign_in(const Listing& listing) {
    for (const Format* const format : all_formats()) {
        if (const Sign* const sign = sign_among(format->signs, listing)) {
            return sign;
        }
    }
    return sign_among(kSigns, listing);
}

}  // namespace shardweld::formats
