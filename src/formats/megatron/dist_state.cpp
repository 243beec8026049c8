#include "dist_state.hpp"

#include <algorithm>
#include <array>

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/formats/containers/torch_file.hpp"
#include "shardweld/io/input_file.hpp"
#include "shardweld/io/paths.hpp"
#include "shardweld/io/whole_file.hpp"

#include "../shared/json_text.hpp"
#include "adapter.hpp"
#include "args.hpp"
#include "save_state.hpp"

namespace shardweld::formats::megatron {

namespace {

using catalogue::Catalogue;

constexpr Bytes kLargestBackendFile = 1U << 16U;
constexpr Bytes kLargestClaimsFile = 16U << 20U;

constexpr std::array<std::string_view, 6> kTrainingKeys = {
    "optimizer",           "chained_",
    "rng_state",           "rerun_state_machine",
    "opt_param_scheduler", "num_floating_point_operations_so_far"};

}  // namespace

std::optional<std::string> sharded_backend(const fs::path& path) {
    const auto root = parse_json(io::read_text(path, kLargestBackendFile));
    if (!root.is_object() || !root.contains("sharded_backend") ||
        !root["sharded_backend"].is_string()) {
        return std::nullopt;
    }
    return root["sharded_backend"].get<std::string>();
}

std::vector<std::string> metadata_files(const Location& location, const char* first) {
    std::vector<std::string> files = {first};
    if (io::is_file(location.directory / kCommonFile)) {
        files.emplace_back(kCommonFile);
    }
    if (location.claims_file) {
        files.push_back(location.claims_file->lexically_relative(location.directory).string());
    }
    return files;
}

void add_global_facts(Catalogue& out) {
    refuse_unsupported(out.claims);
    out.facts.merge(stated_sizes(out.claims));
    out.facts["t"] = 1;
    out.facts["te"] = 1;
    out.facts["version"] = 3;
    note_adapter(out);
}

Catalogue scan_common(const fs::path& path, bool check_crc) {
    Catalogue out;
    const auto input = io::InputFile::open(path);
    const auto file = TorchFile::read(input, 0, std::nullopt, check_crc);
    for (const std::string& global : file.pickle().inert_globals()) {
        out.inert_globals[global] = 1;
    }
    if (!file.root().is_mapping()) {
        return out;
    }
    if (const PickleValue* args = file.root().find("args")) {
        out.claims = claims_of(*args);
    }
    if (const PickleValue* iteration = file.root().find("iteration");
        iteration != nullptr && iteration->kind == PickleKind::integer) {
        out.facts["iteration"] = iteration->integer;
    }
    out.statements.push_back(state_statement(file.root(), kCommonFile));
    file.require_unchanged();
    return out;
}

Catalogue scan_claims(const fs::path& path) {
    Catalogue out;
    out.claims = claims_of_json(io::read_text(path, kLargestClaimsFile));
    return out;
}

std::optional<std::pair<std::string, std::string>> ignored_row(std::string_view key) {
    const auto* const at =
        std::find_if(kTrainingKeys.begin(), kTrainingKeys.end(),
                     [&](std::string_view prefix) { return key.starts_with(prefix); });
    if (at != kTrainingKeys.end()) {
        return std::pair(std::string(*at) + "*", std::string("training state"));
    }
    if (key.ends_with("._extra_state") || key.find("._extra_state/") != std::string_view::npos) {
        return std::pair(std::string("*._extra_state*"), std::string("Transformer Engine state"));
    }
    return std::nullopt;
}

}  // namespace shardweld::formats::megatron
