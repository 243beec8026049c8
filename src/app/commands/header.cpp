// `shardweld inspect FILE --json`: the header of one safetensors or GGUF file, for programs that
// judge it.
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "app/report/report_json.hpp"
#include "core/dtype.hpp"
#include "formats/containers/gguf_header.hpp"
#include "formats/containers/safetensors_header.hpp"
#include "io/input_file.hpp"

#include "commands.hpp"

namespace shardweld::app {

namespace {

constexpr int kHeaderSchema = 1;

}  // namespace

bool has_header(const fs::path& file) {
    return file.extension() == ".gguf" || file.extension() == ".safetensors";
}

std::string header_text(const fs::path& path) {
    const io::InputFile file = io::InputFile::open(path);
    nlohmann::ordered_json json = {{"schema", kHeaderSchema}, {"file", path.string()}};
    nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
    if (path.extension() == ".gguf") {
        const formats::GgufHeader header = formats::read_gguf(file);
        for (const auto& [name, extents] : header.extents) {
            tensors.push_back({{"name", name}, {"shape", extents}});
        }
        json.update({{"keys", header.keys},
                     {"texts", header.texts},
                     {"numbers", header.numbers},
                     {"lengths", header.lengths}});
    } else {
        const auto header = formats::read_safetensors(file, 0, formats::Twice::last_counts);
        for (const auto& [name, tensor] : header.tensors) {
            tensors.push_back({{"name", name},
                               {"dtype", std::string(safetensors_name(tensor.dtype))},
                               {"shape", tensor.shape},
                               {"begin", tensor.storage_offset},
                               {"bytes", tensor.storage_bytes}});
        }
        json["metadata"] = header.metadata;
    }
    json["tensors"] = std::move(tensors);
    return json_text(json);
}

}  // namespace shardweld::app
