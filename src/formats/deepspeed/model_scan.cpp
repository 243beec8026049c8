#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/fingerprint.hpp"
#include "core/in_context.hpp"
#include "core/text.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/containers/duplicate_names.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/containers/torch_storage.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/model_values.hpp"
#include "formats/shared/module_names.hpp"
#include "formats/shared/optimizer_claims.hpp"
#include "formats/shared/settings.hpp"
#include "shardweld/error.hpp"

#include "pickled.hpp"
#include "scan.hpp"

namespace shardweld::formats::deepspeed {

namespace {

/// What the file lists beside its module.
struct Listed {
    Shapes shapes;                 ///< of the parameters in flat groups, on this rank
    std::set<std::string> frozen;  ///< parameters that are taken from their fragments
    std::set<std::string> buffers;
};

/// Narrow floats beside fp32 weights of others are written as these.
void widen(Tensor& tensor, const ScanOptions& options) {
    if (options.in_fp32 && is_float(tensor.dtype) && size_of(tensor.dtype) < size_of(DType::f32)) {
        tensor.written_as = DType::f32;
    }
}

/// Where a tensor lies in its file: equal places are one tensor under two names.
using Place = std::pair<Bytes, Index>;

/// Adds the module's tensors. The parameters, which are known already, get their 16-bit dtypes; a
/// second name of one becomes an alias. Error(corrupt) for what is no dictionary of
/// tensors and for names that changed, Error(unsupported) for other objects.
class ModuleScan {
  public:
    ModuleScan(const ScannedFile& in, const ScanOptions& options, const Listed& listed,
               IgnoredRows& ignored)
        : in_(in),
          options_(options),
          listed_(listed),
          ignored_(ignored),
          values_(in.file, ignored) {}

    void add(const PickleValue& module) {
        if (!module.is_mapping()) {
            throw Error(ErrorCode::corrupt,
                        "holds no dictionary of tensors but " + describe(module));
        }
        // A pipeline's layers are numbered, and their tensors called as in the layer.
        const bool is_layer = in_.name.kind == ZeroFile::layer;
        const std::string prefix = is_layer ? std::to_string(in_.name.number) + "." : "";
        std::vector<std::string> names;
        for (const auto& [key, value] : module.pairs()) {
            names.push_back(prefix + std::string(parameter_name(key)));
        }
        require_distinct(std::vector<std::string_view>(names.begin(), names.end()));
        note_places(module, names);
        for (std::size_t i = 0; i < module.pair_count(); ++i) {
            in_context("tensor ", names[i], [&] { add_entry(names[i], module.value(i)); });
        }
        require_no_renamed(names);
    }

  private:
    // The module has every parameter of the optimizer, but for experts, which have files of their
    // own. Where one lacks and another of its shape is in no list, a name has changed.
    void require_no_renamed(const std::vector<std::string>& names) const {
        std::map<std::vector<Index>, std::string> unlisted;
        for (const Tensor& tensor : in_.out.tensors) {
            if (!listed_.buffers.contains(tensor.name) && !listed_.shapes.contains(tensor.name)) {
                unlisted[tensor.shape] = tensor.name;
            }
        }
        const std::set<std::string> there(names.begin(), names.end());
        for (const auto& [name, shape] : listed_.shapes) {
            auto* const other = find_value(unlisted, shape);
            if (other != nullptr && !there.contains(name) && !has_part(name, "deepspeed_experts")) {
                throw Error(ErrorCode::corrupt, "its param_shapes name " + printable(name) +
                                                    ", its module has " + printable(*other) +
                                                    " instead");
            }
        }
    }

    // The 16-bit dtypes of parameters, and where these lie: old saves do not name shared
    // parameters.
    void note_places(const PickleValue& module, const std::vector<std::string>& names) {
        std::map<std::string, std::size_t> parameters;
        for (const std::size_t i : indices(in_.content.parameters)) {
            parameters[in_.content.parameters[i].name] = i;
        }
        for (std::size_t i = 0; i < names.size() && !parameters.empty(); ++i) {
            const auto at = parameters.find(names[i]);
            if (at != parameters.end() && in_.file.read_tensor(module.value(i), stored_)) {
                in_.content.parameters[at->second].dtype = stored_.dtype;
                if (stored_.volume() > 0) {
                    places_[{stored_.storage_offset, stored_.element_offset}] = at->second;
                }
            }
        }
    }

    void add_entry(const std::string& name, const PickleValue& value) {
        if (is_extra_state(name) || !in_.file.read_tensor(value, stored_)) {
            values_.leave_aside(name, value);
            return;
        }
        const bool is_buffer = listed_.buffers.contains(name);
        const Bytes bytes = to_bytes(stored_.volume(), "elements") * size_of(stored_.dtype);
        // A universal checkpoint's copies of them are fp32, whatever they are.
        const bool is_taken = options_.selection != WeightSelection::all && is_elsewhere(name);
        const bool is_kept = options_.keeps_weights && listed_.shapes.contains(name);
        if (stored_.volume() == 0 || (is_taken && !is_kept) ||
            (options_.selection == WeightSelection::buffers && !is_buffer)) {
            if (bytes > 0) {
                ignored_.add({"*", kCopies}, 1, bytes);
            }
            return;
        }
        Tensor tensor{name, stored_.dtype, stored_.shape, {piece_of(stored_)}};
        if (!is_buffer && !is_kept) {
            widen(tensor, options_);
        }
        in_.out.tensors.push_back(std::move(tensor));
    }

    // In a flat group, or another name of what is there.
    bool is_elsewhere(const std::string& name) {
        if (listed_.shapes.contains(name) || listed_.frozen.contains(name) ||
            in_.content.aliases.contains(name)) {
            return true;
        }
        const auto at = places_.find({stored_.storage_offset, stored_.element_offset});
        if (at == places_.end() || in_.content.parameters[at->second].shape != stored_.shape) {
            return false;
        }
        in_.content.aliases[name] = in_.content.parameters[at->second].name;
        return true;
    }

    const ScannedFile& in_;
    const ScanOptions& options_;
    const Listed& listed_;
    IgnoredRows& ignored_;
    ModelValues values_;
    std::map<Place, std::size_t> places_;  // of parameters: their positions
    StoredTensor stored_;                  // that is read; its memory is used again
};

// The model's own keys: what of them is left aside is told where they are read.
constexpr std::array<std::string_view, 3> kOwnKeys = {"module", "frozen_param_fragments",
                                                      "param_shapes"};

// Collects one file.
class ModelScan {
  public:
    ModelScan(const ScannedFile& in, const ScanOptions& options) : in_(in), options_(options) {}

    void add(const PickleValue& root) {
        if (options_.selection != WeightSelection::all) {
            add_shared(root);
        }
        if (options_.selection == WeightSelection::rest) {
            add_fragments(root);
        }
        add_parameters(root);
        add_buffer_names(root);
        const bool is_flat = in_.name.kind == ZeroFile::layer || in_.name.kind == ZeroFile::expert;
        if (const PickleValue* const module = is_flat ? &root : present(root, "module")) {
            ModuleScan(in_, options_, listed_, ignored_).add(*module);
        }
        if (!is_flat) {
            leave_other_keys(root);
        }
        add_facts(root);
        add_joining(root);
        if (const auto* const scheduler =
                options_.has_scheduler ? present(root, "lr_scheduler") : nullptr) {
            in_.out.optimizer.scheduler = settings_of(*scheduler, in_.scalars);
        }
        const PickleValue* const steps = present(root, "global_steps");
        if (const auto text = steps == nullptr ? std::nullopt : in_.scalars.text_of(*steps)) {
            state_.save["global steps"] = *text;
        }
        add_steps_done(root);
        if (!state_.save.empty()) {
            state_.file = in_.out.files.front().path;
            in_.out.statements.push_back(state_);
        }
        in_.out.ignored = ignored_.rows();
    }

  private:
    // Where the optimizer is taken: steps with infinite gradients were left out.
    void add_steps_done(const PickleValue& root) {
        const auto steps = options_.has_scheduler ? stated_in(root, "global_steps") : std::nullopt;
        if (steps) {
            in_.out.facts[kStepsDone] = *steps - stated_in(root, "skipped_steps").value_or(0);
        }
    }

    // What the trainer's client_state put beside DeepSpeed's own.
    void leave_other_keys(const PickleValue& root) {
        ModelValues values(in_.file, ignored_);
        const auto is_models = [this](std::string_view name) {
            return listed_.shapes.contains(std::string(name)) ||
                   std::ranges::any_of(in_.out.tensors,
                                       [&](const Tensor& tensor) { return tensor.name == name; });
        };
        for (const auto& [name, value] : root.pairs()) {
            const std::string_view key = name.text();
            if (!contains(kOwnKeys, key) && values.contents_of(value).has_storages) {
                values.leave_beside(key, value, is_models);
            }
        }
    }

    void add_facts(const PickleValue& root) {
        in_.content.n_data_ranks = stated_in(root, kDataRanks);
        in_.content.n_model_ranks = stated_in(root, kModelRanks);
        if (const PickleValue* const sizes = present(root, "checkpoint_parallel_dimensions")) {
            in_.content.n_tensor_ranks = stated_in(*sizes, kTensorRanks);
        }
        const PickleValue* const config = present(root, "ds_config");
        const PickleValue* const order =
            config == nullptr ? nullptr : present(*config, "use_data_before_expert_parallelism");
        if (const auto flag = order == nullptr ? std::nullopt : in_.scalars.text_of(*order)) {
            in_.content.is_data_first = *flag == "true" || *flag == "1";
        }
    }

    [[nodiscard]] std::optional<Index> stated_in(const PickleValue& mapping,
                                                 const char* name) const {
        return stated_integer(present(mapping, name), in_.scalars, name);
    }

    // How tensor-parallel ranks are joined. Buffers are the same on all.
    void add_joining(const PickleValue& root) {
        const PickleValue* const info = present(root, "universal_checkpoint_info");
        const Index n_ranks =
            in_.content.n_tensor_ranks.value_or(in_.content.n_model_ranks.value_or(1));
        if (info == nullptr || n_ranks <= 1) {
            return;
        }
        Shapes shapes = listed_.shapes;
        for (const Tensor& tensor : in_.out.tensors) {
            if (!listed_.buffers.contains(tensor.name)) {
                shapes.emplace(tensor.name, tensor.shape);
            }
        }
        in_.content.rules = rules_in(*info, in_.name.mp % n_ranks, shapes);
        for (const std::string& buffer : listed_.buffers) {
            in_.content.rules.try_emplace(buffer);
        }
    }

    void add_shared(const PickleValue& root) {
        const PickleValue* const shared = present(root, "shared_params");
        if (shared != nullptr) {
            for (const auto& [key, value] : shared->pairs()) {
                const std::string alias(parameter_name(key));
                const std::string original(parameter_name(value));
                if (alias != original) {
                    in_.content.aliases[alias] = original;
                }
            }
        }
    }

    // The order is that of the flat groups.
    void add_parameters(const PickleValue& root) {
        const PickleValue* const shapes = present(root, "param_shapes");
        if (shapes == nullptr) {
            return;
        }
        Fingerprint names;
        for (std::vector<FlatParameter>& parameters : shapes_by_group(*shapes)) {
            in_.content.group_sizes.push_back(parameters.size());
            for (FlatParameter& parameter : parameters) {
                add_parameter(std::move(parameter), names);
            }
        }
        state_.save["parameters of model rank " + std::to_string(in_.name.mp)] =
            formatted("%llx", static_cast<unsigned long long>(names.value()));
    }

    void add_parameter(FlatParameter parameter, Fingerprint& names) {
        if (!listed_.shapes.emplace(parameter.name, parameter.shape).second) {
            throw Error(ErrorCode::corrupt,
                        "names " + printable(parameter.name) + " twice in its param_shapes");
        }
        names.add(parameter.name);
        for (const Index extent : parameter.shape) {
            names.add(static_cast<std::uint64_t>(extent));
        }
        if (options_.names_parameters) {
            in_.content.parameters.push_back(std::move(parameter));
        }
    }

    void add_fragments(const PickleValue& root) {
        const PickleValue* const shapes = present(root, "frozen_param_shapes");
        const PickleValue* const fragments = present(root, "frozen_param_fragments");
        if (in_.name.kind != ZeroFile::model_part || shapes == nullptr || fragments == nullptr) {
            return;
        }
        for (Frozen& frozen : frozen_parameters(in_.file, *shapes, *fragments, in_.name.dp)) {
            widen(frozen.tensor, options_);
            listed_.frozen.insert(frozen.tensor.name);
            if (frozen.padding > 0) {
                ignored_.add({"*", "padding of frozen parameters"}, 0, frozen.padding);
            }
            in_.out.tensors.push_back(std::move(frozen.tensor));
        }
    }

    void add_buffer_names(const PickleValue& root) {
        for (const PickleValue* const name : elements_in(root, "buffer_names")) {
            listed_.buffers.insert(std::string(parameter_name(*name)));
        }
    }

    const ScannedFile& in_;
    const ScanOptions& options_;
    Listed listed_;
    FileAssertion state_{"", "its state", {}, {}, true};
    IgnoredRows ignored_;
};

}  // namespace

FileScan scan_model_states(const Location& location, const std::string& file, const FileName& name,
                           const ScanOptions& options) {
    return scan_named(location, file, name, [&](const ScannedFile& opened) {
        ModelScan(opened, options).add(opened.file.root());
    });
}

}  // namespace shardweld::formats::deepspeed
