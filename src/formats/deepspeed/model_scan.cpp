#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "core/fingerprint.hpp"
#include "core/text.hpp"
#include "formats/containers/torch_file.hpp"
#include "formats/containers/torch_storage.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/ignored_rows.hpp"
#include "formats/shared/model_values.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

#include "module_scan.hpp"
#include "parameter_lists.hpp"
#include "pickled.hpp"
#include "rules.hpp"
#include "scan.hpp"

namespace shardweld::formats::deepspeed {

namespace {

using catalogue::Catalogue;
using catalogue::Tensor;

// Of the model: what of them is left aside is told where they are read.
constexpr std::array<std::string_view, 3> kOwnKeys = {"module", "frozen_param_fragments",
                                                      "param_shapes"};

// Collects one file.
class ModelScan {
  public:
    ModelScan(const TorchFile& file, const io::InputFile& input, const FileName& name,
              const Wish& wish, Catalogue& out)
        : file_(file), scalars_(file, input), name_(name), wish_(wish), out_(out) {}

    void add(const PickleValue& root) {
        if (wish_.wanted != Wanted::all) {
            add_shared(root);
        }
        if (wish_.wanted == Wanted::rest) {
            add_fragments(root);
        }
        add_parameters(root);
        add_buffer_names(root);
        const bool is_flat = name_.kind == FileKind::layer || name_.kind == FileKind::expert;
        if (const PickleValue* const module = is_flat ? &root : present(root, "module")) {
            add_module(*module, file_, name_, wish_, listed_, ignored_, out_);
        }
        if (!is_flat) {
            leave_other_keys(root);
        }
        add_facts(root);
        add_joining(root);
        const PickleValue* const steps = present(root, "global_steps");
        if (const auto text = steps == nullptr ? std::nullopt : scalars_.text_of(*steps)) {
            state_.save["global steps"] = *text;
        }
        if (!state_.save.empty()) {
            state_.file = out_.files.front().path;
            out_.statements.push_back(state_);
        }
        out_.ignored = ignored_.take();
    }

  private:
    // What the trainer's client_state put beside DeepSpeed's own.
    void leave_other_keys(const PickleValue& root) {
        ModelValues values(file_, ignored_);
        const auto is_models = [this](std::string_view name) {
            return listed_.shapes.contains(std::string(name)) ||
                   std::ranges::any_of(out_.tensors,
                                       [&](const Tensor& tensor) { return tensor.name == name; });
        };
        for (std::size_t i = 0; i < root.pair_count(); ++i) {
            const std::string_view key = root.key(i).text();
            const bool is_own = std::ranges::find(kOwnKeys, key) != kOwnKeys.end();
            if (const PickleValue& value = root.value(i);
                !is_own && values.contents_of(value).has_storages) {
                values.leave_beside(key, value, is_models);
            }
        }
    }

    void add_facts(const PickleValue& root) {
        for (const char* const fact : {kDataRanks, kModelRanks}) {
            add_fact(fact, present(root, fact));
        }
        if (const PickleValue* const sizes = present(root, "checkpoint_parallel_dimensions")) {
            add_fact(kTensorRanks, present(*sizes, kTensorRanks));
        }
        const PickleValue* const config = present(root, "ds_config");
        const PickleValue* const order = config == nullptr ? nullptr : present(*config, kDataFirst);
        if (const auto flag = order == nullptr ? std::nullopt : scalars_.text_of(*order)) {
            out_.facts[kDataFirst] = *flag == "true" || *flag == "1" ? 1 : 0;
        }
    }

    void add_fact(const char* name, const PickleValue* value) {
        if (const auto number = stated_integer(value, scalars_, name)) {
            out_.facts[name] = *number;
        }
    }

    // Of tensor-parallel ranks. Buffers are the same on all.
    void add_joining(const PickleValue& root) {
        const PickleValue* const info = present(root, "universal_checkpoint_info");
        const auto own = out_.facts.find(kTensorRanks);
        const auto all = out_.facts.find(kModelRanks);
        const Index n_ranks = own != out_.facts.end()   ? own->second
                              : all != out_.facts.end() ? all->second
                                                        : 1;
        if (info == nullptr || n_ranks <= 1) {
            return;
        }
        Shapes shapes = listed_.shapes;
        for (const Tensor& tensor : out_.tensors) {
            if (!listed_.buffers.contains(tensor.name)) {
                shapes.emplace(tensor.name, tensor.shape);
            }
        }
        add_rules(*info, name_.mp % n_ranks, shapes, out_);
        for (const std::string& buffer : listed_.buffers) {
            Tensor rule;
            rule.name = buffer;
            rule.placement = kRuleReplicated;
            out_.tensors.push_back(std::move(rule));
        }
    }

    void add_shared(const PickleValue& root) {
        const PickleValue* const shared = present(root, "shared_params");
        for (std::size_t i = 0; shared != nullptr && i < shared->pair_count(); ++i) {
            const std::string alias(parameter_name(shared->key(i)));
            const std::string original(parameter_name(shared->value(i)));
            if (alias != original) {
                out_.claims[alias] = original;
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
        std::size_t group = 0;
        for (std::vector<NamedShape>& parameters : shapes_by_group(*shapes)) {
            out_.facts[count_key(group++)] = to_index(parameters.size(), "parameters");
            for (NamedShape& parameter : parameters) {
                add_parameter(std::move(parameter), names);
            }
        }
        std::array<char, 16> text{};
        const auto end = std::to_chars(text.begin(), text.end(), names.value(), 16).ptr;
        state_.save["parameters of model rank " + std::to_string(name_.mp)] =
            std::string(text.begin(), end);
    }

    void add_parameter(NamedShape parameter, Fingerprint& names) {
        if (!listed_.shapes.emplace(parameter.name, parameter.shape).second) {
            throw Error(ErrorCode::corrupt,
                        "names " + printable(parameter.name) + " twice in its param_shapes");
        }
        names.add(parameter.name);
        for (const Index extent : parameter.shape) {
            names.add(static_cast<std::uint64_t>(extent));
        }
        if (wish_.names_parameters) {
            Tensor tensor;
            tensor.name = std::move(parameter.name);
            tensor.shape = std::move(parameter.shape);
            tensor.placement = kParameter;
            out_.tensors.push_back(std::move(tensor));
        }
    }

    void add_fragments(const PickleValue& root) {
        const PickleValue* const shapes = present(root, "frozen_param_shapes");
        const PickleValue* const fragments = present(root, "frozen_param_fragments");
        if (name_.kind != FileKind::model_part || shapes == nullptr || fragments == nullptr) {
            return;
        }
        for (Frozen& frozen : frozen_parameters(file_, *shapes, *fragments, name_.dp)) {
            widen(frozen.tensor, wish_);
            listed_.frozen.insert(frozen.tensor.name);
            if (frozen.padding > 0) {
                ignored_.add({"*", "padding of frozen parameters"}, 0, frozen.padding);
            }
            out_.tensors.push_back(std::move(frozen.tensor));
        }
    }

    void add_buffer_names(const PickleValue& root) {
        const PickleValue* const names = present(root, "buffer_names");
        if (names == nullptr) {
            return;
        }
        for (const PickleValue* const name : names->elements()) {
            listed_.buffers.insert(std::string(parameter_name(*name)));
        }
    }

    const TorchFile& file_;
    ScalarReader scalars_;
    const FileName& name_;
    Wish wish_;
    Catalogue& out_;
    Listed listed_;
    catalogue::Statement state_{"", "its state", {}, {}, true};
    IgnoredRows ignored_;
};

}  // namespace

Catalogue scan_model_states(const Location& location, const std::string& file, const FileName& name,
                            const Wish& wish) {
    const auto input = io::InputFile::open(location.directory / file);
    return scan_torch_file(input, location, file, [&](const TorchFile& torch_file, Catalogue& out) {
        if (!torch_file.root().is_mapping()) {
            throw Error(ErrorCode::corrupt,
                        "holds no dictionary but " + describe(torch_file.root()));
        }
        ModelScan(torch_file, input, name, wish, out).add(torch_file.root());
        state_names(file, name, torch_file.archive_name(), out);
    });
}

}  // namespace shardweld::formats::deepspeed
