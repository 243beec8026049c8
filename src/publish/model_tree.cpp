#include "model_tree.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "io/paths.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

#include "assets.hpp"
#include "report_file.hpp"
#include "traces.hpp"

namespace shardweld::publish {

namespace {

constexpr std::size_t kMostNamed = 5;
constexpr Bytes kMaxConfig = Bytes{16} << 20U;

bool is_config(std::string_view name) {
    return name == "config.json" || name.ends_with("_config.json");
}

bool is_part(const fs::path& file) {
    const std::string name = file.filename().string();
    return is_known_as(name, "weights of a model") || is_config(name) || is_asset(name) ||
           is_known_as(name, "beside a model") ||
           (name.ends_with(".json") && look_at_report(file).has_value());
}

/// Whether a config.json is a model's or an adapter's: projects of all kinds have one.
bool is_model_config(const fs::path& file) {
    try {
        const std::string text = io::read_text(file, kMaxConfig);
        return has_part(text, "\"model_type\"") || has_part(text, "\"architectures\"") ||
               has_part(text, "\"peft_type\"");
    } catch (const Error&) {
        return false;
    }
}

/// What one tree holds.
struct TreeContent {
    std::vector<std::string> foreign;
    bool has_model = false;
    bool is_empty = true;
};

void look_into(const fs::path& directory, const std::string& prefix, TreeContent& found) {
    for (const fs::directory_entry& entry : io::entries_of(directory)) {
        const std::string name = entry.path().filename().string();
        if (name == kPartialTrace || name == kOldTrace || name.starts_with(kLockTrace)) {
            continue;
        }
        found.is_empty = false;
        const bool is_directory = !entry.is_symlink() && entry.is_directory();
        const bool is_of_model =
            is_known_as(name, "directory of a model") || is_module_directory(name);
        if (is_directory && prefix.empty() && is_of_model) {
            look_into(entry.path(), name + "/", found);
        } else if (is_directory && name == "huggingface" && prefix == ".cache/") {
            continue;  // what the Hub's client notes beside what it has loaded
        } else if (is_directory && name == ".cache" && prefix.empty()) {
            look_into(entry.path(), ".cache/", found);
        } else if (is_directory || !is_part(entry.path())) {
            found.foreign.push_back(prefix + name + (is_directory ? "/" : ""));
        } else {
            found.has_model = found.has_model || is_known_as(name, "weights of a model") ||
                              (is_config(name) && is_model_config(entry.path()));
        }
    }
}

std::string first_names(std::vector<std::string> names) {
    std::ranges::sort(names, natural_less);
    std::string text;
    for (std::size_t i = 0; i < std::min(names.size(), kMostNamed); ++i) {
        text += (i == 0 ? "" : ", ") + printable(names[i]);
    }
    return names.size() <= kMostNamed
               ? text
               : text + " and " + std::to_string(names.size() - kMostNamed) + " more";
}

}  // namespace

void require_model_only(const fs::path& directory, const fs::path& target) {
    TreeContent found;
    look_into(directory, "", found);
    if (found.is_empty || (found.foreign.empty() && found.has_model)) {
        return;
    }
    const std::string what = found.foreign.empty()
                                 ? "nothing of a model (weights, or a "
                                   "config.json with a model_type)"
                                 : "what does not belong to a model: " + first_names(found.foreign);
    throw Error(ErrorCode::target,
                "the target directory " + target.string() + " holds " + what +
                    ", and --overwrite replaces models only",
                "move it away, or choose another --target_dir");
}

}  // namespace shardweld::publish
