// Any text as the JSON files of a checkpoint: config.json with edits, the index of weights,
// fsdp_config.json, metadata.json, .zarray, args, ckpt_contents.json.
#include <algorithm>
#include <array>

#include "core/text.hpp"
#include "formats/fsdp/rank_files.hpp"
#include "formats/hf/hf.hpp"
#include "formats/megatron/args.hpp"
#include "formats/megatron/dist_state.hpp"
#include "formats/megatron/zarr_array.hpp"
#include "formats/verl_directories.hpp"
#include "models/config.hpp"

#include "json_files.hpp"

namespace {

using namespace shardweld;
using fuzz::JsonFile;

/// The file under the name that verl gives to its list of contents.
const std::filesystem::path& contents_directory() {
    static const fuzz::LinkDirectory directory("ckpt_contents.json");
    return directory.path();
}

bool stays_inside(const std::string& path) {
    const auto parts = split(path, '/');
    return !path.empty() && path.front() != '/' && path.find('\0') == std::string::npos &&
           std::find(parts.begin(), parts.end(), "..") == parts.end();
}

/// What is written must be JSON again, and say what was set.
void config(const JsonFile& file) {
    auto config = models::Config::parse(file.text, "config.json");
    static_cast<void>(config.model_class());
    static_cast<void>(config.field("text_config.rope_scaling.factor"));
    static_cast<void>(config.list("layer_types"));
    static_cast<void>(config.list("per_layer_config.*.head_dim"));
    fuzz::require(config.text_to_write() == file.text);
    config.remove("quantization_config");
    config.remove("rope_scaling.type");
    config.set("tie_word_embeddings", "true");
    config.set("text_config.dtype", "\"bfloat16\"");
    const auto again = models::Config::parse(config.text_to_write(), "config.json");
    fuzz::require(again.integer("tie_word_embeddings") == 1);
    fuzz::require(again.text("text_config.dtype") == "bfloat16");
}

void weight_map(const JsonFile& file) {
    for (const std::string& weights : formats::hf::read_weight_map(file.path).files) {
        fuzz::require(stays_inside(weights));
    }
}

void fsdp_config(const JsonFile& file) {
    fuzz::require(formats::fsdp::read_fsdp_config(file.path).world_size > 0);
}

void backend(const JsonFile& file) {
    static_cast<void>(formats::megatron::sharded_backend(file.path));
}

void zarray(const JsonFile& file) {
    const auto array = formats::megatron::parse_zarray(file.text);
    fuzz::require(array.shape.size() == array.chunks.size());
    volume_of(array.shape, "shape");
    volume_of(array.chunks, "chunks");
}

void claims(const JsonFile& file) {
    const auto claims = formats::megatron::claims_of_json(file.text);
    static_cast<void>(formats::megatron::stated_sizes(claims));
}

void contents(const JsonFile& /*file*/) {
    formats::Listing listing;
    listing.files = {"ckpt_contents.json"};
    const auto model = formats::model_directory(contents_directory(), listing);
    fuzz::require(model && stays_inside(model->lexically_relative(contents_directory()).string()));
}

constexpr std::array<fuzz::JsonReader, 7> kReaders = {config, weight_map, fsdp_config, backend,
                                                      zarray, claims,     contents};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::read_json(kReaders, data, size);
    return 0;
}
