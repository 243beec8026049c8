#include "neighbour_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <system_error>
#include <vector>

#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

namespace {

constexpr const char* kLogs = "logs";

// What trainers leave beside any model: transformers 5 trainer.py, accelerate 1.15 constants.py
// and utils/fsdp_utils.py, lightning 2.6 strategies/fsdp.py,
// verl 0.9.1 checkpoint_manager.py and ray_trainer.py, megatron-core 0.17
// training/checkpointing.py, megatron-bridge 0.6.2 training/checkpointing.py, slime 0.2.
constexpr std::array<KnownName, 45> kNeighbours = {{
    {"metadata.json", ""},
    {"latest_checkpointed_iteration.txt", ""},
    {"ckpt_contents.json", ""},
    {"transformer_config.json", ""},
    {"run_config.yaml", ""},
    {"integrity.json", ""},
    {"train_state.pt", kTrainingState},
    {"latest_train_state.pt", kTrainingState},
    {"modelopt_state/", "states of ModelOpt's quantisers"},
    {"global_dataset_state_dict_#.pt", kTrainingState},
    {"rollout/global_dataset_state_dict_#.pt", kTrainingState},
    {"huggingface/*", kForHuggingFace},
    {"hf/*", kForHuggingFace},
    {"modelopt_state.pth", "states of ModelOpt's quantisers"},
    {"lora_adapter/", kAdapterBeside},
    {"adapter_checkpoint/", kAdapterBeside},
    {"runs/", kLogs},
    {"logs/", kLogs},
    {"log/", kLogs},
    {"wandb/", kLogs},
    {"tensorboard/", kLogs},
    {"mlruns/", kLogs},
    {".git/", "not part of the checkpoint"},
    {".cache/", "not part of the checkpoint"},
    {"__pycache__/", "not part of the checkpoint"},
    {".ipynb_checkpoints/", "not part of the checkpoint"},
    {"*.shardweld-partial/", "what a merge that has not ended wrote"},
    {"*.shardweld-old/", "what a merge was about to replace"},
    {"*events.out.tfevents*", kLogs},
    {"data.pt", kTrainingState},
    {"*dataloader*.pt", kTrainingState},
    {"*distrib_optim.pt", kTrainingState},
    {"*layer_wise_optimizer_#.pt", kTrainingState},
    {"*extra_state*.pt", kTrainingState},
    {"optim_world_size_#_rank_#.pt", kTrainingState},
    {"optimizer-#-of-#.*", kTrainingState},
    {"rng_state*.pth", kTrainingState},
    {"random_states_*.pkl", kTrainingState},
    {"custom_checkpoint_#.pkl", kTrainingState},
    {"optimizer_#_rank#.bin", kTrainingState},
    {"optimizer_rank#.bin", kTrainingState},
    {"meta.pt", "what Lightning keeps of a run beside its shards"},
    {"sampler*.bin", kTrainingState},
    {"training_args.bin", kTrainingState},
    {"*.index.json", "an index of weights that is not used"},
}};

// What weights are kept in.
constexpr std::array<std::string_view, 18> kContainers = {
    ".safetensors", ".pt",  ".pth", ".bin", ".ckpt", ".distcp",  ".h5",   ".hdf5",     ".gguf",
    ".ggml",        ".npz", ".npy", ".pkl", ".onnx", ".msgpack", ".nemo", ".pdparams", ".zarray"};

// What is written about such a file.
constexpr std::array<std::string_view, 9> kAbout = {
    ".json", ".txt", ".md5", ".sha1", ".sha256", ".metadata", ".lock", ".yaml", ".sig"};

bool ends_in_any(std::string_view name, std::span<const std::string_view> ends) {
    return std::any_of(ends.begin(), ends.end(),
                       [&](std::string_view end) { return name.ends_with(end); });
}

// Once more from each '*', which is never reconsidered when a later one was reached.
struct Star {
    std::size_t pattern = std::string_view::npos;
    std::size_t name = 0;
};

}  // namespace

std::span<const KnownName> common_names() {
    return kNeighbours;
}

bool is_container(std::string_view name) {
    std::string lower;
    for (const char c : name) {
        lower.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
    }
    return ends_in_any(lower, kContainers) ||
           (!ends_in_any(lower, kAbout) &&
            std::any_of(kContainers.begin(), kContainers.end(), [&](std::string_view end) {
                return lower.find(std::string(end) + ".") != std::string::npos ||
                       lower.find(std::string(end) + "~") != std::string::npos;
            }));
}

bool matches(std::string_view pattern, std::string_view name) {
    const auto is_digit = [&](std::size_t at) {
        return at < name.size() && std::isdigit(static_cast<unsigned char>(name[at])) != 0;
    };
    std::size_t p = 0;
    std::size_t n = 0;
    Star star;
    while (p < pattern.size() || n < name.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = {p++, n};
        } else if (p < pattern.size() && pattern[p] == '#' && is_digit(n)) {
            p += is_digit(n + 1) ? 0U : 1U;
            ++n;
        } else if (p < pattern.size() && n < name.size() && pattern[p] == name[n]) {
            ++p;
            ++n;
        } else if (star.pattern != std::string_view::npos && star.name < name.size()) {
            p = star.pattern + 1;
            n = ++star.name;
        } else {
            return false;
        }
    }
    return true;
}

bool is_hf_model(const Listing& listing) {
    // accelerate's rank files are called like a model's, and vLLM's sharded state.
    return std::ranges::any_of(listing.files, [](const std::string& name) {
        return (glob_matches("model*.safetensors", name) &&
                !matches("model-rank-#-part-#.safetensors", name)) ||
               (glob_matches("pytorch_model*.bin", name) &&
                !glob_matches("pytorch_model_fsdp*_rank*.bin", name));
    });
}

namespace {

// Without number, plural and "_state", "_states", "_state_dict": see stem_of.
constexpr std::array<std::string_view, 11> kTrainingOnly = {
    "optimizer",   "optim",       "lr_scheduler", "dataloader",          "train_dataloader", "rng",
    "data_loader", "grad_scaler", "loss_scaler",  "opt_param_scheduler", "callback"};
// Modules are called by these, too.
constexpr std::array<std::string_view, 7> kAmbiguous = {"scheduler", "random", "train", "training",
                                                        "trainer",   "scaler", "loop"};

void drop_ending(std::string& text, std::string_view end) {
    if (text.size() > end.size() && text.ends_with(end)) {
        text.erase(text.size() - end.size());
    }
}

// "Optimizers_0", "optim_state_dict", "rng_states" -> "optimizer", "optim", "rng".
std::string stem_of(std::string_view key) {
    std::string stem;
    for (const char c : key) {
        stem.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
    }
    const auto digits = stem.find_last_not_of("0123456789");
    if (digits != std::string::npos && stem[digits] == '_') {
        stem.resize(digits);
    }
    for (const std::string_view end : {"_state_dict", "_states", "_state", "s"}) {
        drop_ending(stem, end);
    }
    return stem;
}

// What a number that a trainer keeps beside a model is called by, among others: "train_loss".
constexpr std::array<std::string_view, 14> kNumbers = {
    "loss", "losses",  "step",   "steps", "epoch", "epochs", "iteration",
    "iter", "samples", "tokens", "seed",  "lr",    "metric", "accuracy"};

}  // namespace

bool is_training_number(std::string_view key) {
    return std::ranges::any_of(split(key, '_'), [](std::string_view word) {
        return std::ranges::find(kNumbers, word) != kNumbers.end();
    });
}

bool is_training_only(std::string_view key) {
    return std::ranges::find(kTrainingOnly, stem_of(key)) != kTrainingOnly.end();
}

bool is_training_key(std::string_view key) {
    return is_training_only(key) || std::ranges::find(kAmbiguous, stem_of(key)) != kAmbiguous.end();
}

namespace {

constexpr const char* kWeights =
    "give the directory of the weights: it usually lies beside this one, as pytorch_model_fsdp_0, "
    "model or weights";
constexpr std::size_t kMostRows = 3;

bool is_of_optimizer(const catalogue::Ignored& row) {
    return row.pattern.find("optim") != std::string::npos;
}

/// The largest rows: "optimizer* (24 entries, 172.1 kB)".
std::string text_of(std::vector<catalogue::Ignored> rows) {
    std::ranges::stable_sort(rows, std::ranges::greater{}, &catalogue::Ignored::bytes);
    rows.resize(std::min(rows.size(), kMostRows));
    return joined(rows, ", ", [](const catalogue::Ignored& row) {
        return row.pattern + " (" + std::to_string(row.count) + " entries, " +
               human_bytes(row.bytes) + ")";
    });
}

}  // namespace

void refuse_only_state(const std::string& where, const catalogue::Catalogue& catalogue,
                       const std::string& hint) {
    const auto& rows = catalogue.ignored;
    const bool is_optimizer = std::ranges::any_of(rows, is_of_optimizer);
    throw Error(ErrorCode::not_found,
                where + " holds only " + (is_optimizer ? "optimizer" : "training") +
                    " state and no weights: " + (rows.empty() ? "nothing" : text_of(rows)),
                hint.empty() ? kWeights : hint);
}

std::optional<Bytes> size_of(const Location& location, const Neighbour& neighbour) {
    if (neighbour.bytes > 0) {
        return neighbour.bytes;
    }
    std::error_code failed;
    const auto bytes = fs::file_size(location.directory / neighbour.path, failed);
    return failed ? std::nullopt : std::optional<Bytes>(bytes);
}

}  // namespace shardweld::formats
