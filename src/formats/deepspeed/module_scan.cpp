// The module's tensors in a file of model states.
// Knows which of them are wanted; nothing of what else the file lists.
#include "module_scan.hpp"

#include <map>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "formats/containers/duplicate_names.hpp"
#include "formats/containers/torch_storage.hpp"
#include "formats/shared/model_values.hpp"
#include "formats/shared/module_names.hpp"
#include "formats/shared/stored_piece.hpp"
#include "shardweld/error.hpp"

#include "pickled.hpp"

namespace shardweld::formats::deepspeed {

namespace {

using catalogue::Catalogue;
using catalogue::Tensor;

/// Where a tensor lies in its file: equal places are one tensor under two names.
using Place = std::pair<Bytes, Index>;

class ModuleScan {
  public:
    ModuleScan(const TorchFile& file, const FileName& name, const Wish& wish, const Listed& listed,
               IgnoredRows& ignored, Catalogue& out)
        : file_(file),
          name_(name),
          wish_(wish),
          listed_(listed),
          ignored_(ignored),
          values_(file, ignored),
          out_(out) {}

    void add(const PickleValue& module) {
        if (!module.is_mapping()) {
            throw Error(ErrorCode::corrupt,
                        "holds no dictionary of tensors but " + describe(module));
        }
        // A pipeline's layers are numbered, and their tensors called as in the layer.
        const bool is_layer = name_.kind == FileKind::layer;
        const std::string prefix = is_layer ? std::to_string(name_.number) + "." : "";
        std::vector<std::string> names;
        for (std::size_t i = 0; i < module.pair_count(); ++i) {
            names.push_back(prefix + std::string(parameter_name(module.key(i))));
        }
        require_distinct(std::vector<std::string_view>(names.begin(), names.end()));
        note_places(module, names);
        for (std::size_t i = 0; i < module.pair_count(); ++i) {
            try {
                add_entry(names[i], module.value(i));
            } catch (Error& error) {
                error.add_context("tensor " + printable(names[i]));
                throw;
            }
        }
        require_no_renamed(names);
    }

  private:
    // The module has every parameter of the optimizer, but for experts, which have files of their
    // own. Where one lacks and another of its shape is in no list, a name has changed.
    void require_no_renamed(const std::vector<std::string>& names) const {
        std::map<std::vector<Index>, std::string> unlisted;
        for (const Tensor& tensor : out_.tensors) {
            if (tensor.placement.empty() && !listed_.buffers.contains(tensor.name)) {
                unlisted[tensor.shape] = tensor.name;
            }
        }
        const std::set<std::string> there(names.begin(), names.end());
        for (const auto& [name, shape] : listed_.shapes) {
            const auto other = unlisted.find(shape);
            if (other != unlisted.end() && !there.contains(name) &&
                name.find("deepspeed_experts") == std::string::npos) {
                throw Error(ErrorCode::corrupt, "its param_shapes name " + printable(name) +
                                                    ", its module has " + printable(other->second) +
                                                    " instead");
            }
        }
    }

    // The 16-bit dtypes of parameters, and where these lie: old saves do not name shared
    // parameters.
    void note_places(const PickleValue& module, const std::vector<std::string>& names) {
        std::map<std::string, std::size_t> parameters;
        for (std::size_t i = 0; i < out_.tensors.size(); ++i) {
            if (out_.tensors[i].placement == kParameter) {
                parameters[out_.tensors[i].name] = i;
            }
        }
        for (std::size_t i = 0; i < names.size() && !parameters.empty(); ++i) {
            const auto at = parameters.find(names[i]);
            if (at != parameters.end() && file_.read_tensor(module.value(i), stored_)) {
                out_.tensors[at->second].dtype = stored_.dtype;
                if (stored_.volume() > 0) {
                    places_[{stored_.storage_offset, stored_.element_offset}] = at->second;
                }
            }
        }
    }

    void add_entry(const std::string& name, const PickleValue& value) {
        if (is_extra_state(name) || !file_.read_tensor(value, stored_)) {
            values_.leave_aside(name, value);
            return;
        }
        const bool is_buffer = listed_.buffers.contains(name);
        const Bytes bytes = to_bytes(stored_.volume(), "elements") * size_of(stored_.dtype);
        // A universal checkpoint's copies of them are fp32, whatever they are.
        const bool is_taken = wish_.wanted != Wanted::all && is_elsewhere(name);
        if (stored_.volume() == 0 || is_taken || (wish_.wanted == Wanted::buffers && !is_buffer)) {
            leave_aside("copies of weights that are taken from the optimizer's partitions",
                        stored_.volume() == 0 ? 0 : 1, bytes);
            return;
        }
        Tensor tensor{name, stored_.dtype, stored_.shape, {piece_of(stored_)}};
        if (!is_buffer) {
            widen(tensor, wish_);
        }
        out_.tensors.push_back(std::move(tensor));
    }

    void leave_aside(const char* reason, Index count, Bytes bytes) {
        if (count > 0 || bytes > 0) {
            ignored_.add({"*", reason}, count, bytes);
        }
    }

    // In a flat group, or another name of what is there.
    bool is_elsewhere(const std::string& name) {
        if (listed_.shapes.contains(name) || listed_.frozen.contains(name) ||
            out_.claims.contains(name)) {
            return true;
        }
        const auto at = places_.find({stored_.storage_offset, stored_.element_offset});
        if (at == places_.end() || out_.tensors[at->second].shape != stored_.shape) {
            return false;
        }
        out_.claims[name] = out_.tensors[at->second].name;
        return true;
    }

    const TorchFile& file_;
    const FileName& name_;
    const Wish& wish_;
    const Listed& listed_;
    IgnoredRows& ignored_;
    ModelValues values_;
    Catalogue& out_;
    std::map<Place, std::size_t> places_;  // of parameters: positions among the tensors
    StoredTensor stored_;                  // that is read; its memory is used again
};

}  // namespace

void widen(Tensor& tensor, const Wish& wish) {
    if (wish.in_fp32 && is_float(tensor.dtype) && size_of(tensor.dtype) < size_of(DType::f32)) {
        tensor.written_as = DType::f32;
    }
}

void add_module(const PickleValue& module, const TorchFile& file, const FileName& name,
                const Wish& wish, const Listed& listed, IgnoredRows& ignored, Catalogue& out) {
    ModuleScan(file, name, wish, listed, ignored, out).add(module);
}

}  // namespace shardweld::formats::deepspeed
