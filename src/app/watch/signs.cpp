#include "signs.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <string_view>
#include <utility>

#include "core/text.hpp"
#include "formats/shared/iteration_directories.hpp"

namespace shardweld::app::watching {

namespace {

constexpr std::string_view kDeepSpeedTag = "latest";
constexpr std::array<std::string_view, 2> kDeepSpeedFiles = {"*_model_states.pt",
                                                             "*_optim_states.pt"};
constexpr std::array<std::string_view, 6> kWeights = {"*.safetensors", "*.bin",    "*.pt",
                                                      "*.pth",         "*.distcp", "*.ckpt"};
/// Each rank writes its own, whenever it comes to that.
constexpr std::array<std::string_view, 2> kRandomStates = {"rng_state*", "random_states*"};
/// One of them is the last file of a step that transformers, accelerate or ms-swift (with
/// Megatron) calls checkpoint-10 or checkpoint_10.
constexpr std::array<std::string_view, 3> kTrainerSigns = {
    "trainer_state.json", "random_states_0.pkl", formats::kTrackerFile};

struct Sign {
    std::string name;
    std::optional<Index> written_ns;  ///< not given: it is not there
    Index behind_ns = 0;              ///< when the last file was written that it is written behind
    bool is_denied = false;           ///< it is there, and says that the save has not ended
};

std::string directory_of(std::string_view path) {
    const auto slash = path.rfind('/');
    return std::string(path.substr(0, slash == std::string_view::npos ? 0 : slash));
}

std::string file_name(std::string_view path) {
    return std::string(path.substr(path.rfind('/') + 1));
}

std::string path_below(const std::string& directory, std::string_view name) {
    return (directory.empty() ? "" : directory + "/") + std::string(name);
}

/// Whether a trainer of such steps writes a tracker.
bool has_tracker(std::string_view name) {
    const auto step = formats::parse_step(name);
    return step && step->iteration && step->has_tracker;
}

class Signs {
  public:
    Signs(const std::string& name, const StepFiles& files, const std::vector<Tracker>& beside)
        : name_(name), files_(files), beside_(beside) {
        for (const StepFile& file : files.files) {
            for (std::string at = directory_of(file.path);; at = directory_of(at)) {
                if (!directories_.insert(at).second || at.empty()) {
                    break;
                }
            }
        }
    }

    std::vector<Sign> all() {
        for (const std::string& directory : directories_) {
            add_dcp(directory);
            add_deepspeed(directory);
            add_contents(directory);
            add_tracker(directory);
        }
        if (name_.starts_with("checkpoint-") || name_.starts_with("checkpoint_")) {
            add_trainer();
        }
        return std::move(signs_);
    }

  private:
    /// When the last of these was written; nullopt where there is none.
    [[nodiscard]] std::optional<Index> newest(
        const std::function<bool(const StepFile&)>& counts) const {
        std::optional<Index> last;
        for (const StepFile& file : files_.files) {
            if (counts(file)) {
                last = std::max(last.value_or(0), file.stamp.modified_ns);
            }
        }
        return last;
    }
    [[nodiscard]] std::optional<Index> newest_in(const std::string& directory,
                                                 std::span<const std::string_view> globs) const {
        return newest([&](const StepFile& file) {
            return directory_of(file.path) == directory &&
                   any_glob_matches(globs, file_name(file.path));
        });
    }
    [[nodiscard]] Index newest_weights() const {
        return newest([](const StepFile& file) {
                   const std::string name = file_name(file.path);
                   return any_glob_matches(kWeights, name) &&
                          !any_glob_matches(kRandomStates, name);
               })
            .value_or(0);
    }

    void add(const std::string& path, Index behind_ns) {
        const StepFile* const file = files_.find(path);
        signs_.push_back({path,
                          file == nullptr ? std::nullopt : std::optional(file->stamp.modified_ns),
                          behind_ns});
    }

    /// A tracker, which lies beside the steps.
    void add_beside(std::string_view name, Index behind_ns) {
        const auto tracker = std::ranges::find(beside_, name, &Tracker::file);
        Sign sign{std::string(name), std::nullopt, behind_ns};
        if (tracker != beside_.end()) {
            const auto number = formats::parse_step(name_)->iteration;
            sign.is_denied = !tracker->iteration || *tracker->iteration < number.value_or(0);
            sign.written_ns = sign.is_denied ? std::nullopt : std::optional(tracker->modified_ns);
        }
        signs_.push_back(std::move(sign));
    }

    void add_dcp(const std::string& directory) {
        constexpr std::array<std::string_view, 1> kShards = {"*.distcp"};
        const auto shards = newest_in(directory, kShards);
        if (!shards) {
            return;
        }
        add(path_below(directory, ".metadata"), *shards);
        if (files_.find(path_below(directory, "common.pt")) != nullptr) {
            add(path_below(directory, "metadata.json"), *shards);
        }
    }

    void add_deepspeed(const std::string& directory) {
        const auto states = newest_in(directory, kDeepSpeedFiles);
        if (!states) {
            return;
        }
        if (directory.empty()) {
            add_beside(kDeepSpeedTag, *states);
        } else {
            add(path_below(directory_of(directory), kDeepSpeedTag), *states);
        }
    }

    /// verl's directory of a role, with Megatron's shards in it.
    void add_contents(const std::string& directory) {
        constexpr std::string_view kShards = "model/dist_ckpt";
        if (directory == kShards || directory.ends_with("/" + std::string(kShards))) {
            add(path_below(directory_of(directory_of(directory)), "ckpt_contents.json"),
                newest_weights());
        }
    }

    /// The tracker of the step itself, and those of steps in it.
    void add_tracker(const std::string& directory) {
        if (newest_in(directory, kDeepSpeedFiles)) {
            return;
        }
        if (directory.empty() && has_tracker(name_)) {
            add_beside(formats::kTrackerFile, newest_weights());
        } else if (has_tracker(file_name(directory))) {
            add(path_below(directory_of(directory), formats::kTrackerFile), newest_weights());
        }
    }

    void add_trainer() {
        const auto there = std::ranges::find_if(
            kTrainerSigns, [&](auto name) { return files_.find(name) != nullptr; });
        add(std::string(there == kTrainerSigns.end() ? kTrainerSigns.front() : *there),
            newest_weights());
    }

    const std::string& name_;
    const StepFiles& files_;
    const std::vector<Tracker>& beside_;
    std::set<std::string> directories_;
    std::vector<Sign> signs_;
};

}  // namespace

Verdict verdict_on(const std::string& name, const StepFiles& files,
                   const std::vector<Tracker>& beside, Index slack_ns) {
    if (files.files.empty()) {
        return {"its files", true, false, false};
    }
    Verdict verdict;
    for (const Sign& sign : Signs(name, files, beside).all()) {
        if (!sign.written_ns && verdict.waits_for.empty()) {
            verdict.waits_for = sign.name + (sign.is_denied ? " to name it" : "");
        }
        verdict.has_signs = true;
        verdict.is_unfinished = verdict.is_unfinished || sign.is_denied;
        verdict.is_old =
            verdict.is_old || (sign.written_ns && *sign.written_ns + slack_ns < sign.behind_ns);
    }
    return verdict;
}

}  // namespace shardweld::app::watching
