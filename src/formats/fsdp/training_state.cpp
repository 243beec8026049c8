#include "training_state.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/text.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/shared/scalar_value.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::fsdp {

namespace {

using catalogue::Catalogue;
using catalogue::Claims;

constexpr std::string_view kModel = "model_";

bool is_beside_shards(const Location& location, const std::string& file) {
    const auto at = std::lower_bound(location.neighbours.begin(), location.neighbours.end(), file,
                                     [](const Neighbour& neighbour, const std::string& name) {
                                         return natural_less(neighbour.path, name);
                                     });
    return at != location.neighbours.end() && at->path == file;
}

// torch's schedulers count their steps.
Claims scheduler_steps(const ScalarReader& scalars, const PickleValue& root) {
    Claims claims;
    const PickleValue* const scheduler = root.is_mapping() ? root.find("lr_scheduler") : nullptr;
    if (scheduler == nullptr || !scheduler->is_mapping()) {
        return claims;
    }
    for (const char* key : {"last_epoch", "_step_count"}) {
        if (const auto steps = scalars.index_of(scheduler->find(key))) {
            claims[std::string("lr_scheduler.") + key] = std::to_string(*steps);
        }
    }
    return claims;
}

// Of the first parameter that has one: all ranks have them in one order. Fused optimizers count in
// their groups.
const PickleValue* find_step(const PickleValue& root) {
    const PickleValue* const state = root.find("state");
    if (state != nullptr && state->is_mapping()) {
        for (std::size_t i = 0; i < state->pair_count(); ++i) {
            const PickleValue& parameter = state->value(i);
            if (const auto* step = parameter.is_mapping() ? parameter.find("step") : nullptr) {
                return step;
            }
        }
    }
    const PickleValue* const groups = root.find("param_groups");
    const bool has_group =
        groups != nullptr && groups->kind == PickleKind::list && !groups->elements().empty();
    return has_group && groups->elements()[0]->is_mapping() ? groups->elements()[0]->find("step")
                                                            : nullptr;
}

// What is no count differs from all counts.
Claims optimizer_step(const ScalarReader& scalars, const PickleValue& root) {
    const PickleValue* const step = root.is_mapping() ? find_step(root) : nullptr;
    const auto count = step == nullptr ? std::nullopt : scalars.text_of(*step);
    return count ? Claims{{"optimizer step", *count}} : Claims{};
}

struct StateSource {
    std::string_view prefix;
    const char* words;
    Claims (*read)(const ScalarReader&, const PickleValue&);
};
constexpr std::array<StateSource, 2> kSources = {{
    {"extra_state_", "its lr_scheduler", scheduler_steps},
    {"optim_", "its optimizer", optimizer_step},
}};

// Whatever is wrong with it, it is no part of the model.
Claims claims_in(const fs::path& path, const StateSource& source, Catalogue& out) {
    try {
        const auto input = io::InputFile::open(path);
        const auto file = TorchFile::read(input);
        return source.read(ScalarReader(file, input), file.root());
    } catch (const Error& error) {
        out.warnings.try_emplace(kUnreadState, printable(path.filename().string()) +
                                                   " cannot be read (" + error.what() +
                                                   "): it does not show which save it belongs to");
        return {};
    }
}

}  // namespace

void add_training_state(const Location& location, const RankFile& rank, Catalogue& out) {
    if (!rank.stem.empty()) {
        return;  // accelerate's are of the whole job
    }
    for (const StateSource& source : kSources) {
        const std::string file = std::string(source.prefix) + file_name(rank).substr(kModel.size());
        if (!is_beside_shards(location, file)) {
            continue;
        }
        Claims claims = claims_in(location.directory / file, source, out);
        if (!claims.empty()) {
            out.statements.push_back({file, source.words, {}, std::move(claims), true});
        }
    }
}

}  // namespace shardweld::formats::fsdp
