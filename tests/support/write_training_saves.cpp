// write_training_saves DIRECTORY: the checkpoints of training_saves.hpp, each in a directory, and
// tensors.json, which lists what they hold.
#include <fstream>
#include <iostream>

#include <nlohmann/json.hpp>

#include "support/training_saves.hpp"

namespace shardweld::test {
namespace {

nlohmann::json listed(const MadeSave& made) {
    nlohmann::json all = nlohmann::json::array();
    for (std::size_t i = 0; i < made.tensors.size(); ++i) {
        const outputs::OutputTensor& tensor = made.tensors[i];
        const outputs::TrainingTensor& place = made.save.tensors[i];
        const auto bytes = bytes_of(made.tensors, i);
        all.push_back(
            {{"file", place.file.text()},
             {"path", std::vector<std::string>(place.path.begin(), place.path.end())},
             {"dtype", torch_name(tensor.dtype)},
             {"shape", std::vector<Index>(tensor.shape)},
             {"whole", std::vector<Index>(place.is_plain ? SharedList<Index>() : place.whole)},
             {"offsets", std::vector<Index>(place.offsets)},
             {"bytes", std::vector<int>()}});
        for (const std::byte byte : bytes) {
            all.back()["bytes"].push_back(static_cast<int>(byte));
        }
    }
    return all;
}

void write_all(const std::filesystem::path& directory) {
    const std::map<std::string, MadeSave> saves = {
        {"ranks", rank_files()},
        {"fsdp", mesh_files({{"fsdp"}, {3}, "cpu"})},
        {"fsdp_cuda", mesh_files({{"fsdp"}, {3}})},
        {"hsdp", mesh_files({{"ddp", "fsdp"}, {2, 2}, "cpu"})},
        {"fsdp_old", mesh_files({{"fsdp"}, {3}, "cpu", true})},
        {"dcp", dcp_files()}};
    nlohmann::json all;
    for (const auto& [name, made] : saves) {
        write_files(made, directory / name);
        all[name] = listed(made);
    }
    std::ofstream(directory / "tensors.json") << all;
}

}  // namespace
}  // namespace shardweld::test

int main(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: write_training_saves DIRECTORY\n";
        return 2;
    }
    shardweld::test::write_all(argv[1]);
    return 0;
}
