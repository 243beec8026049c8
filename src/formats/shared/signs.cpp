#include "signs.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "core/text.hpp"

namespace shardweld::formats {

namespace {

bool any_of_these(const std::vector<std::string>& names, std::string_view pattern) {
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& name) { return glob_matches(pattern, name); });
}

/// `pattern`: a file's name, or with a '/' behind it a directory's; '*' is any text.
bool has(const Listing& listing, std::string_view pattern) {
    return pattern.ends_with('/')
               ? any_of_these(listing.directories, pattern.substr(0, pattern.size() - 1))
               : any_of_these(listing.files, pattern);
}

struct Row {
    Sign sign;
    std::array<std::string_view, 3> any;   ///< one of these tells it
    std::array<std::string_view, 2> with;  ///< beside all of these
};

constexpr std::array<Row, 11> kRows = {{
    {{"the optimizer of a ColossalAI checkpoint", "give the directory of its model"},
     {"pytorch_optim*", "", ""},
     {}},
    {{"optimizer state without weights", "give the directory of the weights, or an earlier save"},
     {"optimizer.bin", "optimizer.pt", "optimizer_*rank*.bin"},
     {}},
    {{"a PEFT adapter without weights", "copy adapter_model.safetensors, too"},
     {"adapter_config.json", "", ""},
     {}},
    {{"a GGUF model, llama.cpp's format", "give the HuggingFace model that it was made of"},
     {"*.gguf", "", ""},
     {}},
    {{"a NeMo archive", "unpack it (tar -xf) and give what lies in it"}, {"*.nemo", "", ""}, {}},
    {{"an Orbax checkpoint of JAX", "convert it with the tools of the program that trained it"},
     {"_CHECKPOINT_METADATA", "manifest.ocdbt", "checkpoint_metadata"},
     {}},
    {{"a TensorFlow checkpoint", "load it with transformers' from_pretrained(from_tf=True)"},
     {"*.data-00000-of-*", "", ""},
     {}},
    {{"a release of Llama in Meta's own layout",
      "convert it with transformers' convert_llama_weights_to_hf.py"},
     {"consolidated.*.pth", "", ""},
     {}},
    {{"a Lightning checkpoint in one file", "load it with torch: there is nothing to merge"},
     {"*.ckpt", "", ""},
     {}},
    {{"an ONNX model", "give the HuggingFace model that it was made of"}, {"*.onnx", "", ""}, {}},
    {{"a HuggingFace model without weights",
      "give the checkpoint as --local_dir, and this "
      "directory as --hf_config"},
     {"config.json", "", ""},
     {"tokenizer_config.json", ""}},
}};

bool is_told(const Row& row, const Listing& listing) {
    return std::any_of(
               row.any.begin(), row.any.end(),
               [&](std::string_view name) { return !name.empty() && has(listing, name); }) &&
           std::all_of(row.with.begin(), row.with.end(),
                       [&](std::string_view name) { return name.empty() || has(listing, name); });
}

}  // namespace

bool is_hf_model(const Listing& listing) {
    // accelerate's rank files are called like a model's.
    return has(listing, "model*.safetensors") ||
           std::any_of(listing.files.begin(), listing.files.end(), [](const std::string& name) {
               return glob_matches("pytorch_model*.bin", name) &&
                      !glob_matches("pytorch_model_fsdp*_rank*.bin", name);
           });
}

std::optional<Sign> sign_in(const Listing& listing) {
    const auto* const row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& candidate) {
        return is_told(candidate, listing);
    });
    return row == kRows.end() ? std::nullopt : std::optional(row->sign);
}

}  // namespace shardweld::formats
