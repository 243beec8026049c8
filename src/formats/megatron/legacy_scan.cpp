#include "legacy_scan.hpp"

#include <span>
#include <utility>

#include "core/in_context.hpp"
#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/containers/duplicate_names.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/model_values.hpp"
#include "formats/shared/module_names.hpp"
#include "formats/shared/optimizer_file.hpp"
#include "formats/shared/scalar_value.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

#include "args.hpp"
#include "legacy_optimizer.hpp"
#include "model_names.hpp"
#include "stage_content.hpp"

namespace shardweld::formats::megatron {

namespace {

constexpr int kDeepestNesting = 12;
constexpr std::size_t kLongestName = 1024;
constexpr Index kMostChunks = 1 << 16;

// Collects one file.
class LegacyScan {
  public:
    LegacyScan(const TorchFile& file, Catalogue& out)
        : file_(file),
          out_(out),
          entries_left_(file.pickle().consumed()),
          values_(file, ignored_) {}

    void add_model(const PickleValue& model, int chunk) {
        if (!model.is_mapping()) {
            throw Error(ErrorCode::corrupt, "its model is not a dictionary of tensors");
        }
        const std::size_t first = out_.shards.size();
        add_entries(model, "", chunk, 0);
        require_distinct_names(first);
    }

    /// What stands beside the model; `has_states`: the optimizer is taken.
    void leave_other_keys(const PickleValue& root, bool has_states);

    void finish() { out_.ignored = ignored_.rows(); }

  private:
    // Dictionaries may share their values; the number of entries visited is bounded by the pickle's
    // size, which any honest file exceeds by far.
    void add_entries(const PickleValue& dictionary, const std::string& prefix, int chunk,
                     int depth) {
        if (depth > kDeepestNesting) {
            throw Error(ErrorCode::corrupt,
                        "its model is nested too deeply at " + printable(prefix));
        }
        for (const auto& [key, value] : dictionary.pairs()) {
            if (entries_left_-- == 0) {
                throw Error(ErrorCode::corrupt, "its model refers to itself");
            }
            std::string name(prefix);
            name += parameter_name(key);
            if (name.size() > kLongestName) {
                throw Error(ErrorCode::corrupt, "its model has a name of more than " +
                                                    std::to_string(kLongestName) +
                                                    " bytes: " + printable(name));
            }
            if (value.pair_count() > 0 && !is_extra_state(name)) {
                add_entries(value, name + ".", chunk, depth + 1);
            } else {
                add_entry(model_name(name), value, chunk);
            }
        }
    }

    void add_entry(std::string_view name, const PickleValue& value, int chunk) {
        in_context("tensor ", name, [&] {
            if (is_extra_state(name)) {
                values_.leave_aside("*._extra_state", value, "Transformer Engine state");
            } else if (!file_.read_tensor(value, tensor_)) {
                values_.leave_aside(name, value);
            } else if (tensor_.volume() == 0) {
                ignored_.add({pattern_of(name), "empty tensor"}, 1, 0);
            } else {
                Shard shard{std::string(name), tensor_.dtype, tensor_.shape, {}, {}};
                shard.at.vpp = chunk;
                shard.piece = piece_of(tensor_);
                out_.shards.push_back(std::move(shard));
            }
        });
    }

    // The shards of one model are those from `first` on.
    void require_distinct_names(std::size_t first) const {
        formats::require_distinct(
            collect_list<std::string_view>(std::span(out_.shards).subspan(first), &Shard::name));
    }

    const TorchFile& file_;
    Catalogue& out_;
    std::size_t entries_left_;
    StoredTensor tensor_;  // that is read; its memory is used again
    IgnoredRows ignored_;
    ModelValues values_;
};

// `model` alone, or model0, model1... of virtual pipeline stages.
std::vector<const PickleValue*> models_of(const PickleValue& root) {
    std::vector<const PickleValue*> models;
    if (const PickleValue* model = root.find("model")) {
        models.push_back(model);
        return models;
    }
    for (Index v = 0; v < kMostChunks; ++v) {
        const PickleValue* model = root.find("model" + std::to_string(v));
        if (model == nullptr) {
            break;
        }
        models.push_back(model);
    }
    return models;
}

std::string keys_text(const PickleValue& root) {
    std::string text;
    for (std::size_t i = 0; i < root.pair_count() && text.size() < 300; ++i) {
        text += (text.empty() ? "" : ", ") + printable(root.key(i).text(), 60);
    }
    return text;
}

bool is_model_key(std::string_view key) {
    constexpr std::string_view kModel = "model";
    return key.starts_with(kModel) &&
           (key == kModel || parse_index(key.substr(kModel.size())).has_value());
}

// model0, model2: a chunk must not be left out silently.
void require_all(const PickleValue& root, std::size_t n_models) {
    std::size_t n_keys = 0;
    for (const auto& [key, value] : root.pairs()) {
        n_keys += is_model_key(key.text()) ? 1U : 0U;
    }
    if (n_keys != n_models) {
        throw Error(ErrorCode::corrupt,
                    "its models are not `model` alone or `model0`, `model1`... "
                    "without a gap; its keys are " +
                        keys_text(root));
    }
}

void LegacyScan::leave_other_keys(const PickleValue& root, bool has_states) {
    const auto is_models = [this](std::string_view name) {
        return std::ranges::any_of(out_.shards,
                                   [&](const Shard& shard) { return shard.name.text() == name; });
    };
    for (const auto& [name, value] : root.pairs()) {
        const std::string_view key = name.text();
        if (!is_model_key(key) && key != "args" && key != kParallelSizes &&
            key != "checkpoint_version" && key != "iteration" &&
            !(has_states && key == "optimizer")) {
            values_.leave_beside(key, value, is_models);
        }
    }
}

/// Whether the file holds the optimizer's states too, which is not asked without `taken`.
bool add_root(const TorchFile& file, const ScalarReader& scalars, TakenState taken,
              FileState& state, Catalogue& out) {
    const PickleValue& root = file.root();
    if (!root.is_mapping()) {
        throw Error(ErrorCode::corrupt,
                    "is not a Megatron checkpoint: it does not hold a dictionary");
    }
    const auto models = models_of(root);
    if (models.empty()) {
        throw Error(ErrorCode::corrupt, "holds no model: its keys are " + keys_text(root) +
                                            ", expected `model` or `model0`, `model1`...");
    }
    require_all(root, models.size());
    LegacyScan scan(file, out);
    for (const std::size_t v : indices(models)) {
        scan.add_model(*models[v], static_cast<int>(v));
    }
    out.facts["vpp"] = std::ssize(models);
    add_state(root, out.files.front().path, scalars, state, out);
    if (const auto rank = number_claim(out.claims, "rank"); rank && *rank >= 0) {
        state.rank = rank;
    }
    const bool has_states =
        taken != TakenState::weights && add_numbered_states(file, scalars, taken, out);
    scan.leave_other_keys(root, has_states);
    scan.finish();
    return has_states;
}

}  // namespace

StateScan scan_legacy(const Location& location, const std::string& file) {
    const auto input = io::InputFile::open(location.directory / file);
    StateScan scan;
    bool has_states = location.state == TakenState::weights;
    const auto add = [&](const TorchFile& opened, Catalogue& out) {
        has_states |= add_root(opened, ScalarReader(opened, input), location.state, scan.own, out);
    };
    scan.told = scan_torch_file(input, location, file, add);
    scan.own.sample = sample_of(input, scan.told.shards);
    add_given(given_optimizer(location), scan.told.optimizer);
    if (!has_states) {
        add_distributed_states(location, file, scan.told);
    }
    // Hundreds of arguments per file add up over thousands of files.
    if (file != location.shard_files.front()) {
        scan.told.claims.clear();
    }
    return scan;
}

}  // namespace shardweld::formats::megatron
