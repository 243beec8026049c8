#include "optimizer_files.hpp"

#include <array>
#include <string_view>
#include <utility>

#include "formats/shared/adam.hpp"
#include "formats/shared/assembler.hpp"
#include "formats/shared/optimizer_file.hpp"
#include "io/paths.hpp"

namespace shardweld::formats::hf {

namespace {

constexpr std::string_view kDirectory = "optimizer/";
constexpr std::string_view kSuffix = ".safetensors";
constexpr std::array<std::string_view, 3> kStates = {kMaster, kMoment, kSquaredMoment};

}  // namespace

std::vector<std::string> optimizer_files(const Location& location) {
    std::vector<std::string> files;
    for (const std::string_view state : kStates) {
        const std::string file = std::string(kDirectory).append(state).append(kSuffix);
        if (is_taken(state, location.state) && io::is_file(location.directory / file)) {
            files.push_back(file);
        }
    }
    return files;
}

std::string state_in(const std::string& file) {
    if (!file.starts_with(kDirectory) || !file.ends_with(kSuffix)) {
        return "";
    }
    return file.substr(kDirectory.size(), file.size() - kDirectory.size() - kSuffix.size());
}

void take_as_state(const Location& location, const std::string& file, Catalogue& scan) {
    state_called(state_in(file), scan.optimizer).tensors = std::exchange(scan.tensors, {});
    if (file != optimizer_files(location).front()) {
        return;
    }
    if (const auto said = read_optimizer_file(location.directory / kDirectory / kOptimizerFile)) {
        add_said(*said, scan.optimizer);
    }
}

void add_states(std::vector<Catalogue> scans, Catalogue& out) {
    std::vector<ToldOptimizer> told;
    Assembler files(out);
    for (Catalogue& scan : scans) {
        files.add_scan(scan);
        told.push_back({kOptimizerFile, std::move(scan.optimizer)});
    }
    join_optimizers(Shapes::stated, std::move(told), out);
    order_files(out, Unused::kept);
}

}  // namespace shardweld::formats::hf
