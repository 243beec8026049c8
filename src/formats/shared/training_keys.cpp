#include "training_keys.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace shardweld::formats {

namespace {

// Without number, plural and "_state", "_states", "_state_dict": see stem_of.
constexpr std::array<std::string_view, 18> kTrainingKeys = {
    "optimizer",   "optim",  "lr_scheduler", "scheduler", "dataloader", "train_dataloader",
    "data_loader", "rng",    "random",       "train",     "training",   "trainer",
    "grad_scaler", "scaler", "loss_scaler",  "callback",  "loop",       "opt_param_scheduler"};

void drop_ending(std::string& text, std::string_view end) {
    if (text.size() > end.size() && text.ends_with(end)) {
        text.resize(text.size() - end.size());
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

}  // namespace

bool is_training_key(std::string_view key) {
    const std::string stem = stem_of(key);
    return std::find(kTrainingKeys.begin(), kTrainingKeys.end(), stem) != kTrainingKeys.end();
}

}  // namespace shardweld::formats
