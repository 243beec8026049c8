#include "dist_state.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/containers/zip.hpp"
#include "formats/recognise.hpp"
#include "formats/shared/dcp_blobs.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/model_values.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"

#include "args.hpp"
#include "model_names.hpp"
#include "optimizer_state.hpp"

namespace shardweld::formats::megatron {

namespace {

void add_args(const PickleValue& args, const std::string& file, const ScalarReader& scalars,
              FileState& state, Catalogue& out) {
    out.claims = claims_of(args, scalars);
    state.args = fingerprint_of(common_args(args, scalars));
    if (out.claims.empty()) {
        out.warnings["args_unread"] = "args in " + printable(file) + " are " + in_words(args.kind) +
                                      " without attributes: nothing is compared with them";
    }
}

void add_facts(const PickleValue& root, const ScalarReader& scalars, Catalogue& out) {
    constexpr Index kVersions = 1000;
    if (const auto iteration = scalars.index_of(root.find("iteration"))) {
        out.facts["iteration"] = *iteration;
    }
    const auto version = scalars.index_of(root.find("checkpoint_version"));
    if (version && *version >= 0 && *version < kVersions) {
        out.facts["version"] = *version;
    }
}

FileAssertion state_statement(const PickleValue& root, const std::string& file,
                              const ScalarReader& scalars) {
    FileAssertion statement{file, "its state", {}, {}};
    const auto add = [&](const char* name, const PickleValue* value) {
        if (const auto text = value == nullptr ? std::nullopt : scalars.text_of(*value)) {
            statement.save[name] = *text;
        }
    };
    add("iteration", root.find("iteration"));
    add("operations so far", root.find("num_floating_point_operations_so_far"));
    const PickleValue* scheduler = root.find("opt_param_scheduler");
    if (scheduler != nullptr) {
        add("scheduler steps", scheduler->find("num_steps"));
    }
    return statement;
}

}  // namespace

const PickleValue* args_in(const PickleValue& root) {
    const PickleValue* const args = root.find("args");
    return args == nullptr ? root.find(kParallelSizes) : args;
}

void add_state(const PickleValue& root, const std::string& file, const ScalarReader& scalars,
               FileState& state, Catalogue& out) {
    add_facts(root, scalars, out);
    if (const PickleValue* args = args_in(root)) {
        add_args(*args, file, scalars, state, out);
    }
    out.statements.push_back(state_statement(root, file, scalars));
}

namespace {

constexpr Bytes kLargestBackendFile = 1U << 16U;
constexpr Bytes kLargestClaimsFile = 16U << 20U;

constexpr std::string_view kChained = "chained_";  // with a number: several optimizers
constexpr std::array<std::string_view, 6> kTrainingKeys = {
    "optimizer",           "rng_state",
    "rerun_state_machine", "rerun_state_machine_state",
    "opt_param_scheduler", "num_floating_point_operations_so_far"};

/// All records must have their CRC-32s: the state's own tensors are not read with the model's.
void require_records(const io::InputFile& input, Bytes offset, Bytes length) {
    const ZipArchive archive = ZipArchive::read(input, offset, length);
    for (const auto& [name, entry] : archive.entries) {
        std::vector<std::byte> bytes(to_size(entry.size, "a record"));
        input.read_at(entry.offset, bytes);
        require_crc32(name, bytes, entry.crc32);
    }
}

/// Whether it is a weight of a module that is called as training state is: the optimizer's own are
/// called by what it keeps, "optimizer.state.exp_avg.decoder.final_layernorm.weight".
bool is_of_module(std::string_view first, std::string_view key) {
    constexpr std::array<std::string_view, 5> kKept = {"state", "distributed", "param_",
                                                       "optimizer.", "shard_"};
    key.remove_prefix(std::min(first.size() + 1, key.size()));
    return is_called_as_weight(key) && std::ranges::none_of(kKept, [&](std::string_view kept) {
               return key.starts_with(kept);
           });
}

/// The training key that is the first component of a key, "" for others: modules may be called
/// "optimizer_proj".
std::string_view training_key(std::string_view key) {
    const std::string_view first = key.substr(0, key.find_first_of("./"));
    if (is_of_module(first, key)) {
        return {};
    }
    if (first.starts_with(kChained) && parse_index(first.substr(kChained.size()))) {
        return kChained;
    }
    return contains(kTrainingKeys, first) ? first : std::string_view();
}

}  // namespace

std::optional<std::string> sharded_backend(const fs::path& path) {
    const auto root = parse_json<nlohmann::json>(io::read_text(path, kLargestBackendFile));
    if (!root.is_object()) {
        return "";
    }
    if (!root.contains("sharded_backend") || !root["sharded_backend"].is_string()) {
        return std::nullopt;
    }
    return root["sharded_backend"].get<std::string>();
}

std::vector<std::string> claims_files(const Location& location) {
    std::vector<std::string> files;
    if (io::is_file(location.directory / kRunConfigFile)) {
        files.emplace_back(kRunConfigFile);
    }
    if (location.claims_file) {
        files.push_back(location.claims_file->lexically_relative(location.directory).string());
    }
    return files;
}

std::vector<std::string> metadata_files(const Location& location, const char* first) {
    std::vector<std::string> files = {first};
    if (io::is_file(location.directory / kCommonFile)) {
        files.emplace_back(kCommonFile);
    }
    append_all(files, claims_files(location));
    return files;
}

void add_global_facts(Catalogue& out) {
    out.facts.merge(stated_sizes(out.claims));
    out.facts["t"] = 1;
    out.facts["te"] = 1;
    if (has_other_tokenizer(out.claims)) {
        out.facts[kForeignTokenizer] = 1;
    }
    out.facts.emplace("version", 3);
    note_adapter(out);
}

void note_unchecked(Catalogue& out) {
    if (out.claims.empty()) {
        out.notes.emplace_back(kNothingStated);
    }
}

void add_claims(StateScan& added, FileState& known, Catalogue& out) {
    Catalogue& scan = added.told;
    refuse_unsupported(scan.claims);
    if (added.own.args && known.args && added.own.args != known.args) {
        require_agreement(out.claims, kCommonState, scan.claims, kCommonFile);
    }
    known.args = known.args ? known.args : added.own.args;
    out.facts.insert(scan.facts.begin(), scan.facts.end());
    out.claims.merge(scan.claims);
    out.warnings.merge(scan.warnings);
}

StateScan scan_state(const io::InputFile& input, const ObjectPlace& place,
                     const Location& location) {
    const bool check_crc = location.check_crc;
    const auto length = place.length == 0 ? std::nullopt : std::optional(place.length);
    const auto opened = TorchFile::read(input, place.offset, length, check_crc);
    if (check_crc && !opened.archive_name().empty()) {
        require_records(input, place.offset, length.value_or(input.size()));
    }
    const ScalarReader scalars(opened, input);
    StateScan scan;
    for (const std::string& global : opened.pickle().inert_globals()) {
        scan.told.inert_globals[global] = 1;
    }
    const PickleValue& root = only_element_of(opened.root());
    if (root.is_mapping()) {
        // A model's tensors that are not sharded are saved here.
        require_no_part(opened, root);
        add_state(root, place.file, scalars, scan.own, scan.told);
        if (location.state != TakenState::weights) {
            add_optimizer(root, scalars, scan.told.optimizer);
        }
    }
    opened.require_unchanged();
    return scan;
}

Catalogue scan_claims(const fs::path& path) {
    const std::string text = io::read_text(path, kLargestClaimsFile);
    Catalogue out;
    out.claims = path.extension() == ".yaml" ? claims_of_run_config(text) : claims_of_json(text);
    return out;
}

StateScan scan_beside(const Location& location, const std::string& file) {
    const fs::path path = location.directory / file;
    return file == kCommonFile ? scan_state(io::InputFile::open(path), {file, 0, 0}, location)
                               : StateScan{scan_claims(path.lexically_normal())};
}

std::optional<RowName> ignored_row(std::string_view key) {
    if (const std::string_view training = training_key(key); !training.empty()) {
        return RowName(std::string(training) + "*", "training state");
    }
    if (key.ends_with("._extra_state") || has_part(key, "._extra_state/")) {
        return RowName("*._extra_state*", "Transformer Engine state");
    }
    return std::nullopt;
}

bool is_in_module(std::string_view key) {
    return has_part(key, '.');
}

}  // namespace shardweld::formats::megatron
