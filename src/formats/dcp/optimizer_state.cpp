#include "optimizer_state.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/in_context.hpp"
#include "core/process/stop_point.hpp"
#include "core/text.hpp"
#include "formats/containers/safetensors_header.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/shared/adam.hpp"
#include "formats/shared/dcp_blobs.hpp"
#include "formats/shared/hints.hpp"
#include "formats/shared/module_names.hpp"
#include "formats/shared/neighbour_names.hpp"
#include "formats/shared/optimizer_claims.hpp"
#include "formats/shared/settings.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "uneven_rows.hpp"

namespace shardweld::formats::dcp {

namespace {

constexpr std::string_view kStep = "step";
constexpr std::string_view kMembers = "params";
constexpr std::string_view kSchedulers = "lr_scheduler";

bool is_of_optimizer(std::string_view key) {
    return is_training_only(key) && has_part(key, "ptim");
}

/// What stands behind `word` where that is the optimizer's: a key of its own, or the beginning of
/// one, as flattened dictionaries have it. nullopt for other paths.
std::optional<std::string_view> behind(std::string_view word, std::string_view path) {
    const char separator = !has_part(path, kKeySeparator) ? '.' : kKeySeparator;
    bool is_ours = false;
    for (std::size_t begin = 0; begin < path.size();) {
        const std::size_t end = std::min(path.find(separator, begin), path.size());
        const std::string_view key = path.substr(begin, end - begin);
        const bool is_word =
            key.starts_with(word) &&
            (key.size() == word.size() ? end < path.size() : key[word.size()] == '.');
        if (is_ours && is_word) {
            return path.substr(begin + word.size() + 1);
        }
        is_ours = is_of_optimizer(key);
        begin = end + 1;
    }
    return std::nullopt;
}

/// The last key, which holds no dots, and what stands before it: a parameter's name may hold some.
struct Named {
    std::string owner;
    std::string_view key;
};

Named named(std::string_view rest) {
    constexpr std::array<char, 2> kSeparators = {kKeySeparator, '.'};
    const std::size_t at =
        rest.find_last_of(std::string_view(kSeparators.data(), kSeparators.size()));
    return at == std::string_view::npos ? Named{"", rest}
                                        : Named{dotted(rest.substr(0, at)), rest.substr(at + 1)};
}

std::optional<std::string_view> setting_of_scheduler(std::string_view path) {
    const std::size_t at = path.find(kSchedulers);
    const bool is_key = at != std::string_view::npos && (at == 0 || path[at - 1] == kKeySeparator);
    const std::size_t end = path.find(kKeySeparator, at == std::string_view::npos ? 0 : at);
    return is_key && end != std::string_view::npos ? std::optional(path.substr(end + 1))
                                                   : std::nullopt;
}

void require_name(std::string_view parameter, std::string_view path) {
    if (parameter.empty() || parse_index(parameter)) {
        throw Error(ErrorCode::unsupported,
                    "the optimizer numbers its parameters (" + printable(dotted(path)) +
                        "), and nothing in the save tells their names",
                    "save what torch's get_state_dict makes of the optimizer, or " +
                        std::string(kWeightsOnly));
    }
}

std::vector<std::string> names_in(const PickleValue& list) {
    return collect_list(list.elements(), [&](const PickleValue* const element) {
        return without_wrappers(element->text());
    });
}

}  // namespace

bool OptimizerReader::take_tensor(const DcpTensor& tensor, std::string_view path) {
    if (location_.state == TakenState::weights) {
        return false;
    }
    const auto add = [&](std::string group, std::string_view option,
                         std::optional<std::string> owner) {
        if (!tensor.chunks.empty()) {
            const DcpChunk& chunk = tensor.chunks.front();
            settings_.push_back({chunk.file, chunk.offset, chunk.length, std::move(group),
                                 std::string(option), std::move(owner), tensor.name});
        }
        return false;
    };
    if (const auto rest = behind("param_groups", path)) {
        const Named option = named(*rest);
        return add(option.owner, option.key, std::nullopt);
    }
    const auto rest = behind("state", path);
    if (!rest) {
        return false;
    }
    const Named state = named(*rest);
    require_name(state.owner, path);
    if (state.key == kStep) {
        return add("", kStep, state.owner);
    }
    if (location_.state != TakenState::all) {
        return false;
    }
    const std::string_view known = adam_state(state.key, dotted(path));
    Tensor taken = tensor_as_stored(location_, metadata_, tensor, placed_);
    taken.name = location_.prefix.empty() ? state.owner : location_.prefix + "." + state.owner;
    state_called(known, out_).tensors.push_back(std::move(taken));
    return true;
}

void OptimizerReader::take_object(const DcpObject& object, std::string_view path) {
    if (location_.state == TakenState::weights || object.length == 0) {
        return;
    }
    const auto add = [&](std::string group, std::string option, std::optional<std::string> owner) {
        settings_.push_back({object.file, object.offset, object.length, std::move(group),
                             std::move(option), std::move(owner)});
    };
    if (const auto rest = behind("param_groups", path)) {
        const Named option = named(*rest);
        add(option.owner, std::string(option.key), std::nullopt);
    } else if (const auto state = behind("state", path)) {
        const Named of = named(*state);
        if (of.key == kStep || location_.state == TakenState::all) {
            add("", std::string(of.key), of.owner);
        }
    } else if (const auto setting = setting_of_scheduler(path)) {
        add(std::string(kSchedulers), dotted(*setting), std::nullopt);
    }
}

void OptimizerReader::read(const std::string& file, const std::vector<const Setting*>& settings) {
    const fs::path path = location_.directory / file;
    if (!io::is_file(path)) {
        throw Error(ErrorCode::not_found,
                    "the optimizer's settings lie in " + printable(file) +
                        ", which is not seen where .metadata is",
                    "copy the files of all ranks to one place, or " + std::string(kWeightsOnly));
    }
    const auto input = io::InputFile::open(path);
    std::optional<std::map<std::string, StoredTensor>> container;  // all of the file's tensors
    for (const Setting* const setting : settings) {
        stop_point();
        if (!setting->stored_as.empty() && begins_container(input, setting->offset)) {
            if (!container) {
                container = read_safetensors_header(input, setting->offset);
            }
            put_tensor(*setting, *container, input);
            continue;
        }
        const auto archive =
            TorchFile::read(input, setting->offset, setting->length, location_.check_crc);
        if (setting->option == kMembers) {
            members_[setting->group] = names_in(archive.root());
        } else {
            put_setting(*setting, archive.root(), ScalarReader(archive, input));
        }
    }
}

void OptimizerReader::put_tensor(const Setting& setting,
                                 const std::map<std::string, StoredTensor>& stored,
                                 const io::InputFile& input) {
    auto* const at = find_value(stored, setting.stored_as);
    const auto text = at == nullptr ? std::nullopt : text_of_tensor(*at, input);
    if (!text) {
        refuse_said("the file holds no single number called " + printable(setting.stored_as));
    }
    if (!setting.owner) {
        (parse_index(setting.group) ? numbered_ : named_)[setting.group][setting.option] = *text;
        return;
    }
    steps_.add(*text, "the state of " + printable(*setting.owner));
    stepped_.insert(*setting.owner);
}

void OptimizerReader::put_state(const Setting& setting, const PickleValue& value,
                                const ScalarReader& scalars) {
    if (setting.option == kStep) {
        if (steps_.add(&value, scalars, "the state of " + printable(*setting.owner))) {
            stepped_.insert(*setting.owner);
        }
        return;
    }
    // torch writes an empty dictionary for a parameter without states, under its name.
    const bool is_nothing =
        value.kind == PickleKind::none || (value.is_mapping() && value.pair_count() == 0);
    if (!is_nothing || is_moment(setting.option)) {
        refuse_state(printable(setting.option) + " of " + printable(*setting.owner), value);
    }
}

void OptimizerReader::put_setting(const Setting& setting, const PickleValue& value,
                                  const ScalarReader& scalars) {
    if (setting.owner) {
        put_state(setting, value, scalars);
        return;
    }
    auto text = setting.group == kSchedulers
                    ? named_setting(setting.option, value, scalars, n_setting_values_)
                    : group_setting(setting.option, value, scalars, n_setting_values_);
    if (!text) {
        return;
    }
    auto& settings = setting.group == kSchedulers ? out_.scheduler
                     : parse_index(setting.group) ? numbered_[setting.group]
                                                  : named_[setting.group];
    settings[setting.option] = std::move(*text);
}

void OptimizerReader::require_steps() const {
    // Each rank's own metadata has what that rank wrote.
    for (const State& state : out_.states) {
        for (const Tensor& tensor : state.tensors) {
            const std::string owner =
                tensor.name.substr(location_.prefix.empty() ? 0 : location_.prefix.size() + 1);
            require_step(printable(owner), stepped_.empty() || stepped_.contains(owner));
        }
    }
}

void OptimizerReader::add_groups() {
    for (auto& [number, settings] : numbered_) {
        out_.groups.push_back({std::move(settings), std::move(members_[number])});
    }
    // Parameters of the same options are one group.
    std::map<Settings, std::size_t> group_of;
    for (const auto& [parameter, settings] : named_) {
        const auto [at, is_new] = group_of.emplace(settings, out_.groups.size());
        if (is_new) {
            out_.groups.push_back({settings, {}});
        }
        out_.groups[at->second].parameters.push_back(without_wrappers(parameter));
    }
}

Optimizer OptimizerReader::finish() {
    std::map<std::uint32_t, std::vector<const Setting*>> by_file;
    for (const Setting& setting : settings_) {
        by_file[setting.file].push_back(&setting);
    }
    for (const auto& [number, settings] : by_file) {
        const std::string& file = metadata_.files.at(number).path;
        in_context("file ", file, [&, &stored = settings] { read(file, stored); });
    }
    add_groups();
    if (!steps_.add(out_.groups, "the optimizer's groups")) {
        require_steps();
    }
    out_.step = steps_.step();
    return std::move(out_);
}

}  // namespace shardweld::formats::dcp
