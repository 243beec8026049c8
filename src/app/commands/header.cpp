// `shardweld inspect FILE`: the header of one safetensors or GGUF file, for people, and with --json
// for programs that judge it.
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/messages/table.hpp"
#include "app/report/report_json.hpp"
#include "core/dtype.hpp"
#include "core/index.hpp"
#include "core/text.hpp"
#include "formats/containers/gguf_header.hpp"
#include "formats/containers/safetensors_header.hpp"
#include "io/input_file.hpp"

#include "commands.hpp"

namespace shardweld::app {

namespace {

constexpr int kHeaderSchema = 1;

/// Its metadata and tensors as they are in the JSON.
std::string text_of_header(const ordered_json& header) {
    constexpr std::size_t kLongest = 300;
    Cells told{{"file", header.at("file")}};
    for (const char* part : {"metadata", "texts", "numbers"}) {
        const auto own = header.value(part, ordered_json::object());
        for (const auto& [name, value] : own.items()) {
            told.push_back(
                {printable(name),
                 printable(value.is_string() ? value.get<std::string>() : value.dump(), kLongest)});
        }
    }
    Cells rows{{"tensor", "dtype", "shape", "bytes"}};
    for (const ordered_json& tensor : header.at("tensors")) {
        rows.push_back({printable(tensor.at("name").get<std::string>()), tensor.value("dtype", ""),
                        shape_text(tensor.at("shape").get<std::vector<Index>>()),
                        tensor.contains("bytes") ? human_bytes(tensor.at("bytes")) : ""});
    }
    return table({Align::left, Align::left}, told) + "\n" +
           table({Align::left, Align::left, Align::left, Align::right}, rows);
}

}  // namespace

bool has_header(const fs::path& file) {
    return file.extension() == ".gguf" || file.extension() == ".safetensors";
}

std::string header_text(const fs::path& path, bool is_json) {
    const io::InputFile file = io::InputFile::open(path);
    ordered_json json = {{"schema", kHeaderSchema},
                         {"ok", true},
                         {"dir", path.parent_path().empty() ? "." : path.parent_path().string()},
                         {"file", path.string()}};
    ordered_json tensors = ordered_json::array();
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
                               {"dtype", safetensors_name(tensor.dtype)},
                               {"shape", tensor.shape},
                               {"begin", tensor.storage_offset},
                               {"bytes", tensor.storage_bytes}});
        }
        json["metadata"] = header.metadata;
    }
    json["tensors"] = std::move(tensors);
    return is_json ? json_text(json) : text_of_header(json);
}

}  // namespace shardweld::app
