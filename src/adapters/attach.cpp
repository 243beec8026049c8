#include "attach.hpp"

#include <algorithm>
#include <map>

#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::adapters {

namespace {

using plan::Fold;
using plan::Matrix;
using plan::Target;

constexpr const char* kSplit = "use --lora split, and load base and adapter with peft";

bool is_foldable(DType dtype) {
    return is_trained_in(dtype) || dtype == DType::f64;
}

/// The targets by the stored tensor they are.
class Attacher {
  public:
    Attacher(std::vector<Target>& targets, const Attachment& attachment) : attachment_(attachment) {
        for (Target& target : targets) {
            by_name_[target.name] = &target;
            if (!target.source.empty()) {
                by_source_[target.source].push_back(&target);
            }
        }
    }

    void attach(const Module& module, double scale) {
        if (!module.is_matrix) {
            throw Error(ErrorCode::unsupported,
                        "the adapter of " + printable(module.path) +
                            " belongs to a convolution, which cannot be folded",
                        "use --lora split");
        }
        attach_weight(module, scale);
        if (module.bias) {
            attach_bias(module, scale);
        }
    }

    void attach(const Module& module, const LoraParameter& parameter, double scale) {
        for (const ParameterPart& part : parameter.parts) {
            Target& target = *by_name_.at(part.target);
            require_foldable(target, module.path);
            if (target.fold || module.magnitude || module.bias) {
                throw Error(ErrorCode::unsupported,
                            "the adapter of " + printable(module.path) +
                                " changes tensors that another one changes, too, or with DoRA",
                            kSplit);
            }
            const std::size_t rows = target.shape.size() - 2;
            Fold fold = fold_of(module, parameter, part, attachment_.offsets[module.a],
                                attachment_.offsets[module.b]);
            fold.n_rows = target.shape[rows];
            fold.n_cols = target.shape[rows + 1];
            fold.scale = scale;
            target.fold = fold;
        }
    }

    void attach(const TokenRows& rows) {
        Target& target = find(rows.path, ".weight");
        if (target.fold) {
            throw Error(ErrorCode::unsupported,
                        printable(rows.path) + " has both factors and rows of its own", kSplit);
        }
        const auto is_beyond = [&](Index token) { return token >= target.shape.front(); };
        if (target.shape.size() != 2 || target.shape[1] != rows.n_cols ||
            std::ranges::any_of(rows.tokens, is_beyond)) {
            throw Error(ErrorCode::mismatch,
                        target.name.text() + " is " + shape_text(target.shape) +
                            ", which has not the adapter's tokens or its " +
                            std::to_string(rows.n_cols) + " columns",
                        kTrainedOn);
        }
        Fold fold;
        fold.n_rows = target.shape[0];
        fold.n_cols = target.shape[1];
        fold.right = {attachment_.offsets[rows.tensor], target.shape[1], 1};
        fold.rows = rows.tokens;
        target.fold = fold;
    }

  private:
    [[nodiscard]] Target& find(const std::string& module, std::string_view end) const {
        const std::string stored_name = module + std::string(end);
        const std::string name = attachment_.hub_name(stored_name);
        const bool is_held = attachment_.base_names.contains(name);
        if (!is_held && attachment_.is_of_tree(stored_name)) {
            throw Error(ErrorCode::unsupported,
                        "the adapter changes " + printable(stored_name) +
                            ", which transformers makes of tensors that have other names or forms "
                            "in the base's files: it cannot be folded into them",
                        kSplit);
        }
        if (!is_held) {
            throw Error(
                ErrorCode::mismatch,
                "the adapter changes " + printable(stored_name) + ", which the base does not hold",
                attachment_.base_hint);
        }
        auto* const found = find_value(by_source_, name);
        if (found == nullptr || found->size() != 1) {
            throw Error(ErrorCode::unsupported,
                        "the adapter of " + printable(module) + " cannot be folded: " +
                            printable(name) + " is not written as it is stored (fused weights)",
                        kSplit);
        }
        Target& target = *found->front();
        require_foldable(target, module);
        return target;
    }

    void require_foldable(const Target& target, const std::string& module) const {
        if (!is_foldable(target.stored) || !is_foldable(target.dtype) || target.add != 0) {
            throw Error(ErrorCode::unsupported,
                        "the adapter of " + printable(module) + " cannot be folded into " +
                            target.name.text() + ", which holds " +
                            safetensors_name(target.stored) + " elements",
                        attachment_.base_hint + ", or use --lora split");
        }
    }

    void attach_weight(const Module& module, double scale) const {
        Target& target = find(module.path, ".weight");
        const std::vector<Index> straight{module.n_out, module.n_in};
        const std::vector<Index> turned{module.n_in, module.n_out};
        const bool is_turned = module.is_embedding ||
                               (attachment_.settings->fan_in_fan_out ? target.shape == turned
                                                                     : target.shape != straight);
        if (target.shape != (is_turned ? turned : straight)) {
            throw Error(ErrorCode::mismatch,
                        target.name.text() + " is " + shape_text(target.shape) +
                            ", but the adapter of " + printable(module.path) + " is for " +
                            shape_text(module.is_embedding ? turned : straight),
                        kTrainedOn);
        }
        const Bytes a = attachment_.offsets[module.a];
        const Bytes b = attachment_.offsets[module.b];
        Fold fold;
        fold.n_rows = target.shape[0];
        fold.n_cols = target.shape[1];
        fold.rank = module.rank;
        fold.scale = scale;
        fold.left = is_turned ? Matrix{a, 1, module.n_in} : Matrix{b, module.rank, 1};
        fold.right = is_turned ? Matrix{b, 1, module.rank} : Matrix{a, module.n_in, 1};
        if (module.magnitude) {
            fold.norm = is_turned ? Fold::Norm::columns : Fold::Norm::rows;
            fold.magnitudes = attachment_.offsets[*module.magnitude];
        }
        target.fold = fold;
    }

    void attach_bias(const Module& module, double scale) const {
        Target& target = find(module.path, ".bias");
        if (target.volume() != module.n_out) {
            throw Error(ErrorCode::mismatch,
                        target.name.text() + " is " + shape_text(target.shape) +
                            ", but lora_B's bias of " + printable(module.path) + " has " +
                            std::to_string(module.n_out) + " elements",
                        kTrainedOn);
        }
        Fold fold;
        fold.n_rows = 1;
        fold.n_cols = module.n_out;
        fold.rank = 1;
        fold.scale = scale;
        fold.right = {attachment_.offsets[*module.bias], module.n_out, 1};
        target.fold = fold;
    }

    const Attachment& attachment_;
    std::map<std::string, std::vector<Target*>> by_source_;
    std::map<std::string, Target*> by_name_;
};

}  // namespace

void attach(std::vector<Target>& targets, std::span<const Module> modules,
            std::span<const TokenRows> rows, const Attachment& attachment) {
    Attacher attacher(targets, attachment);
    for (const std::size_t i : indices(modules)) {
        const double scale = attachment.settings->scales[i];
        if (auto* const at = find_value(attachment.parameters, i)) {
            attacher.attach(modules[i], *at, scale);
        } else {
            attacher.attach(modules[i], scale);
        }
    }
    for (const TokenRows& one : rows) {
        attacher.attach(one);
    }
}

}  // namespace shardweld::adapters
