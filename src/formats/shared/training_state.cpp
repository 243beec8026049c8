#include "training_state.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <vector>

#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

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

}  // namespace shardweld::formats
