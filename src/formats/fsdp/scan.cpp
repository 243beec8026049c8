#include "scan.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/containers/torch_storage.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/model_values.hpp"
#include "formats/shared/optimizer_file.hpp"
#include "formats/shared/scalar_value.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

#include "entries.hpp"
#include "optimizer_scan.hpp"
#include "rank_files.hpp"

namespace shardweld::formats::fsdp {

namespace {

FileAssertion::Values claims_of(const RankFile& rank) {
    FileAssertion::Values claims{{"rank", std::to_string(rank.rank)}};
    if (rank.stem.empty()) {
        claims["world size"] = std::to_string(rank.world);
    }
    return claims;
}

// What tells which rank's file it is. torch.save keeps the name that it was given.
void add_statements(const std::string& file, const RankFile& rank, const TorchFile& torch_file,
                    bool knows_rank, Catalogue& out) {
    out.statements.push_back({file, "its name", claims_of(rank), {}, false});
    const std::string suffix = fs::path(file).extension().string();
    if (const auto inner = parse_file_name(torch_file.archive_name() + suffix)) {
        out.statements.push_back(
            {file, "the name of the archive in it", claims_of(*inner), {}, true});
    }
    if (knows_rank) {
        out.statements.push_back(
            {file, "its device mesh", {{"rank", std::to_string(rank.rank)}}, {}, true});
    }
}

bool is_beside_shards(const Location& location, const std::string& file) {
    const auto at =
        std::ranges::lower_bound(location.neighbours, file, natural_less, &Neighbour::path);
    return at != location.neighbours.end() && at->path == file;
}

// torch's schedulers count their steps.
FileAssertion::Values scheduler_steps(const ScalarReader& scalars, const PickleValue& root) {
    FileAssertion::Values claims;
    const PickleValue* const scheduler = root.find("lr_scheduler");
    if (scheduler == nullptr) {
        return claims;
    }
    for (const char* key : {"last_epoch", "_step_count"}) {
        if (const auto steps = scalars.index_of(scheduler->find(key))) {
            claims[std::string("lr_scheduler.") + key] = std::to_string(*steps);
        }
    }
    return claims;
}

// The step of the first parameter that has one: all ranks have them in one order. Fused optimizers
// count in their groups.
const PickleValue* find_step(const PickleValue& root) {
    if (const PickleValue* const state = root.find("state")) {
        for (const auto& [key, parameter] : state->pairs()) {
            if (const auto* const step = parameter.find("step")) {
                return step;
            }
        }
    }
    const PickleValue* const groups = root.find("param_groups");
    const bool has_group =
        groups != nullptr && groups->kind == PickleKind::list && !groups->elements().empty();
    return has_group ? groups->elements()[0]->find("step") : nullptr;
}

// What is no count differs from all counts.
FileAssertion::Values optimizer_step(const ScalarReader& scalars, const PickleValue& root) {
    const PickleValue* const step = find_step(root);
    const auto count = step == nullptr ? std::nullopt : scalars.text_of(*step);
    return count ? FileAssertion::Values{{"optimizer step", *count}} : FileAssertion::Values{};
}

// Whatever is wrong with it, it is no part of the model.
FileAssertion::Values claims_in(const fs::path& path,
                                FileAssertion::Values (*read)(const ScalarReader&,
                                                              const PickleValue&),
                                std::string& unread) {
    try {
        const auto input = io::InputFile::open(path);
        const auto file = TorchFile::read(input);
        return read(ScalarReader(file, input), file.root());
    } catch (const Error& error) {
        if (unread.empty()) {
            unread = printable(path.filename().string()) + " cannot be read (" + error.what() +
                     "): it does not show which save it belongs to";
        }
        return {};
    }
}

/// Adds the statements of the rank's two files, as far as they lie beside its model file.
void add_training_state(const Location& location, const RankFile& rank, RankContent& content,
                        Catalogue& out) {
    if (!rank.stem.empty()) {
        return;  // accelerate's are of the whole job
    }
    const auto add = [&](std::string_view what, const char* words, const auto& read) {
        const std::string file = file_beside(file_name(rank), what);
        if (!is_beside_shards(location, file)) {
            return;
        }
        FileAssertion::Values claims =
            claims_in(location.directory / file, read, content.unread_state);
        if (!claims.empty()) {
            out.statements.push_back({file, words, {}, std::move(claims), true});
        }
    };
    add("extra_state", "its lr_scheduler", scheduler_steps);
    add("optim", "its optimizer", optimizer_step);
}

Entries entries_of(const PickleValue& state) {
    Entries entries;
    for (const auto& [key, value] : state.pairs()) {
        entries.emplace_back(parameter_name(key), &value);
    }
    return entries;
}

/// The optimizer's file, and what reshape could not put there. accelerate's are of the whole job.
void add_optimizer(const Location& location, const RankFile& rank, const TorchFile& file,
                   RankScan& scan, Catalogue& out) {
    if (location.state == TakenState::weights || !rank.stem.empty()) {
        return;
    }
    scan.own.optimizer = scan_optimizer(location, rank, file);
    add_optimizer_file(location, file_name(rank) == location.shard_files.front(),
                       scan.own.optimizer.optimizer, out.tensors);
}

}  // namespace

RankScan scan_rank(const Location& location, const std::string& file) {
    RankScan scan;
    const auto add = [&](const TorchFile& torch_file, Catalogue& out) {
        if (!torch_file.root().is_mapping()) {
            throw Error(ErrorCode::corrupt,
                        "holds no dictionary of tensors but " + describe(torch_file.root()));
        }
        const RankFile rank = rank_among(location.shard_files, file);
        EntriesRead read =
            read_entries(torch_file, rank, location.mesh, entries_of(torch_file.root()), out);
        add_statements(file, rank, torch_file, read.knows_rank, out);
        scan.own.meshes = std::move(read.meshes);
        add_training_state(location, rank, scan.own, out);
        add_optimizer(location, rank, torch_file, scan, out);
    };
    scan.told = scan_torch_file(location, file, add);
    return scan;
}

}  // namespace shardweld::formats::fsdp
