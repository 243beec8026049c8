#include "optimizer_file.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/in_context.hpp"
#include "core/json.hpp"
#include "core/process/stop_point.hpp"
#include "core/text.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

#include "hints.hpp"
#include "module_names.hpp"
#include "optimizer_claims.hpp"
#include "scalar_value.hpp"
#include "settings.hpp"

namespace shardweld::formats {

namespace {

using nlohmann::json;

constexpr Bytes kLargest = 64U << 20U;

/// What such a file holds at most: it is no table of tensors. More is refused while it is read, for
/// values take many times the memory of their text.
class Bounds {
  public:
    /// Error(corrupt) beyond them.
    bool check_event(json::parse_event_t event, const json& value) {
        const bool is_name = event == json::parse_event_t::value && value.is_string();
        const bool is_end =
            event == json::parse_event_t::object_end || event == json::parse_event_t::array_end;
        (is_name ? n_names_ : n_others_) += is_end ? 0 : 1;
        count_settings(event);
        if ((n_names_ + n_others_) % kBetweenStopPoints == 0) {
            stop_point();
        }
        if (n_names_ > kMostNames || n_others_ > kMostOthers) {
            refuse_many(is_name ? counted(kMostNames, "name") : counted(kMostOthers, "value"));
        }
        return true;
    }

  private:
    [[noreturn]] static void refuse_many(const std::string& what) {
        refuse_said("it has over " + what +
                    ", and a group of an optimizer has some dozens of settings");
    }

    void count_settings(json::parse_event_t event) {
        if (event == json::parse_event_t::object_start) {
            n_settings_.push_back(0);
        } else if (event == json::parse_event_t::object_end) {
            n_settings_.pop_back();
        } else if (event == json::parse_event_t::key && ++n_settings_.back() > kMostSettings) {
            refuse_many(counted(kMostSettings, "name") + " in one object");
        }
    }

    static constexpr std::size_t kBetweenStopPoints = 1U << 10U;
    static constexpr std::size_t kMostNames = 1U << 20U;
    /// The most values that are read from pickles: a name and a value each, of groups and of a
    /// scheduler.
    static constexpr std::size_t kMostOthers = 4 * kMostSettingValues + 1024;

    std::vector<std::size_t> n_settings_;  ///< of each object that is open
    std::size_t n_names_ = 0;              ///< of parameters
    std::size_t n_others_ = 0;             ///< groups, settings and their values
};

json bounded_json(const std::string& text) {
    Bounds bounds;
    return parse_json<json>(text, nullptr,
                            [&](int /*depth*/, json::parse_event_t event, json& value) {
                                return bounds.check_event(event, value);
                            });
}

/// Taken out of it: there may be a million.
std::vector<std::string> names_in(json& root, const char* key) {
    std::vector<std::string> names;
    if (root.contains(key)) {
        for (json& name : root[key]) {
            names.push_back(std::move(name.get_ref<std::string&>()));
        }
    }
    return names;
}

Settings settings_in(const json& object) {
    Settings settings;
    for (const auto& [name, value] : object.items()) {
        if (name != "params") {
            settings[name] = value.dump();
        }
    }
    return settings;
}

OptimizerFile parsed(json& root) {
    OptimizerFile file;
    json& groups = root["groups"];
    for (json& group : groups) {
        if (!groups.is_array() || !group.is_object()) {
            refuse_said("its groups are no list of objects");
        }
        file.said.groups.push_back({settings_in(group), names_in(group, "params")});
    }
    StepClaims steps;
    if (root.contains("step")) {
        steps.add(root["step"].dump(), kOptimizerFile);
    }
    steps.add(file.said.groups, kOptimizerFile);
    file.said.step = steps.step();
    file.said.scheduler = settings_in(root.value("scheduler", json::object()));
    file.said.form = root.value("read_from", "");
    if (root.contains("weights")) {
        const auto name = root["weights"].get<std::string>();
        file.weights = dtype_from_torch(name);
        if (!file.weights) {
            refuse_said("weights are said to be " + printable(name) + ", which is no known type");
        }
    }
    file.without = names_in(root, "not_in_optimizer");
    std::ranges::sort(file.without);
    return file;
}

/// "lr is ..." of the first setting that both have and not as one value; "": there is none.
std::string contradiction(const Settings& said, const Settings& own) {
    Settings both_said;
    Settings both_own;
    for (const auto& [name, text] : said) {
        if (auto* const at = find_value(own, name)) {
            both_said.emplace(name, text);
            both_own.emplace(name, *at);
        }
    }
    return difference(both_said, kOptimizerFile, both_own, "the save itself");
}

[[noreturn]] void refuse_other(const std::string& what) {
    throw Error(ErrorCode::mismatch, what, kOneSaveOrWeights);
}

void require_same_members(std::span<const ParameterGroup> said,
                          std::span<const ParameterGroup> own) {
    std::set<std::string> odd;
    for (const ParameterGroup& group : own) {
        odd.insert(group.parameters.begin(), group.parameters.end());
    }
    bool are_named = false;
    for (const ParameterGroup& group : said) {
        are_named = are_named || !group.parameters.empty();
        for (const std::string& name : group.parameters) {
            odd.erase(name);
        }
    }
    if (are_named && !odd.empty()) {
        refuse_other("the groups in " + std::string(kOptimizerFile) + " are not of the save's: " +
                     printable(*odd.begin()) + " is in none of them, or in another");
    }
}

/// A form may have fewer groups than there were, and settings less: what the save has is what the
/// file says, as far as it goes.
void add_groups(const std::vector<ParameterGroup>& more, std::vector<ParameterGroup>& groups) {
    if (more.empty() || groups.empty()) {
        groups = groups.empty() ? more : groups;
        return;
    }
    require_same_members(more, groups);
    const bool are_as_many = more.size() == groups.size();
    for (const std::size_t i : indices(groups)) {
        std::string fault;
        const bool has_one =
            are_as_many ? (fault = contradiction(more[i].settings, groups[i].settings)).empty()
                        : std::ranges::any_of(more, [&](const auto& group) {
                              fault = contradiction(group.settings, groups[i].settings);
                              return fault.empty();
                          });
        if (!has_one) {
            refuse_other("group " + std::to_string(i) + ": " + fault);
        }
        if (are_as_many) {
            groups[i].settings.insert(more[i].settings.begin(), more[i].settings.end());
            if (groups[i].parameters.empty()) {
                groups[i].parameters = more[i].parameters;
            } else {
                require_same_members({&more[i], 1}, {&groups[i], 1});
            }
        }
    }
    groups = are_as_many ? groups : more;
}

}  // namespace

namespace {

OptimizerFile file_of(const std::string& text) {
    try {
        auto root = bounded_json(text);
        if (!root.is_object()) {
            refuse_said("it is no JSON object");
        }
        return parsed(root);
    } catch (const json::exception& /*error*/) {
        refuse_said("it is not what reshape writes: a value is of another kind");
    }
}

}  // namespace

std::optional<OptimizerFile> read_optimizer_file(const fs::path& path) {
    if (!io::is_file(path)) {
        return std::nullopt;
    }
    return in_context("file ", path.string(),
                      [&] { return std::optional(file_of(io::read_text(path, kLargest))); });
}

std::string given_optimizer(const Location& location) {
    const fs::path path = location.directory / kOptimizerFile;
    return location.state != TakenState::weights && io::is_file(path)
               ? io::read_text(path, kLargest)
               : std::string();
}

void add_given(const std::string& text, Optimizer& optimizer) {
    if (!text.empty()) {
        add_said(in_context("file ", kOptimizerFile, [&] { return file_of(text); }), optimizer);
    }
}

void add_said(const OptimizerFile& file, Optimizer& optimizer) {
    const Optimizer& said = file.said;
    if (said.step && optimizer.step && *said.step != *optimizer.step) {
        refuse_other(std::string(kOptimizerFile) + " says that the optimizer is at step " +
                     real_text(*said.step) + ", its states are at " + real_text(*optimizer.step));
    }
    optimizer.step = optimizer.step ? optimizer.step : said.step;
    add_groups(said.groups, optimizer.groups);
    if (const std::string fault = contradiction(said.scheduler, optimizer.scheduler);
        !fault.empty()) {
        refuse_other("the scheduler's " + fault);
    }
    if (optimizer.scheduler.empty()) {
        optimizer.scheduler = said.scheduler;
    }
    if (optimizer.form.empty()) {
        optimizer.form = said.form;
    }
}

void add_optimizer_file(const Location& location, bool is_first, Optimizer& optimizer,
                        std::vector<Tensor>& tensors) {
    const auto file = read_optimizer_file(location.directory / kOptimizerFile);
    if (!file) {
        return;
    }
    add_said(*file, optimizer);
    if (!is_first || !file->weights || *file->weights == DType::f32) {
        return;
    }
    for (Tensor& tensor : tensors) {
        const std::string name = tensor.name.substr(tensor.name.rfind(kKeySeparator) + 1);
        if (tensor.dtype == DType::f32 && !std::ranges::binary_search(file->without, name)) {
            tensor.written_as = file->weights;
        }
    }
}

}  // namespace shardweld::formats
