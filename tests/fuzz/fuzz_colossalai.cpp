// Any bytes in a save of ColossalAI, the other files of which are sound. The first letter says
// which file they are: the index, the index of a stage, a shard of either kind.
#include <array>
#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "rank_file.hpp"

namespace {

using namespace shardweld;

constexpr std::string_view kShard =
    R"({"a.weight":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})";

struct Save {
    std::filesystem::path directory;
    Bytes size = 0;  ///< of a shard that is sound, 0 where the input is one
    std::optional<formats::Location> location = std::nullopt;  ///< where the index is sound
};

formats::Location found_at(const std::filesystem::path& directory) {
    return fuzz::found_in(directory, "colossalai");
}

void write(const std::filesystem::path& path, std::string_view text) {
    std::ofstream(path, std::ios::binary) << text;
}

std::string sound_shard() {
    const char length = static_cast<char>(kShard.size());
    return std::string({length, 0, 0, 0, 0, 0, 0, 0}) + std::string(kShard) + "1234";
}

Save with_index(const std::string& index, const std::string& shard) {
    const std::string bytes = sound_shard();
    const Save save{fuzz::directory_with({index}), bytes.size()};
    write(save.directory / shard, bytes);
    return save;
}

Save with_shard(const std::string& model, const std::string& shard) {
    const auto directory = fuzz::directory_with({shard});
    write(directory / (model + ".index.json"), R"({"weight_map":{"a.weight":")" + shard + R"("}})");
    return {directory, 0, found_at(directory)};
}

std::array<Save, 4> saves() {
    return {with_index("model.safetensors.index.json", "model-00001.safetensors"),
            with_index("tmp_index_files/model.safetensors.index-stage-00001.json",
                       "model-stage-00001-shard-00001.safetensors"),
            with_shard("model.safetensors", "model-00001.safetensors"),
            with_shard("pytorch_model.bin", "pytorch_model-00001.bin")};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::file_with(data, 0);
    static const std::array<Save, 4> all = saves();
    if (size == 0 || data[0] < 'a' || data[0] - std::size_t{'a'} >= all.size()) {
        return 0;
    }
    const Save& save = all[data[0] - std::size_t{'a'}];
    fuzz::file_with(data + 1, size - 1);
    fuzz::expect_errors_only([&] {
        if (save.location) {
            fuzz::scan_and_join(*save.location, size - 1);
        } else {
            fuzz::scan_and_join(found_at(save.directory), save.size);
        }
    });
    return 0;
}
