#include "modules.hpp"

#include <map>
#include <utility>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "peft_names.hpp"
#include "separate.hpp"

namespace shardweld::adapters {

namespace {

/// Tensors of one module by their component ("lora_A", "lora_B.bias").
using FactorsByComponent = std::map<std::string, std::size_t>;

/// A module, and which of the wrappers around it.
using Wrapped = std::pair<std::string, Index>;

std::map<Wrapped, FactorsByComponent> by_module(std::span<const SavedTensor> tensors) {
    std::map<Wrapped, FactorsByComponent> modules;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const PeftName name = read_name(tensors[i].name);
        if (name.role != TensorRole::factor) {
            continue;
        }
        modules[{name.module_name, name.depth}][name.component] = i;
    }
    return modules;
}

std::optional<std::size_t> find(const FactorsByComponent& factors, const std::string& component) {
    const auto found = factors.find(component);
    return found == factors.end() ? std::nullopt : std::optional(found->second);
}

std::size_t require(const FactorsByComponent& factors, const std::string& component,
                    const std::string& path) {
    const auto found = find(factors, component);
    if (!found) {
        throw Error(ErrorCode::mismatch, "the adapter of " + printable(path) + " has no " +
                                             component + ": the checkpoint is incomplete");
    }
    return *found;
}

[[noreturn]] void reject(const SavedTensor& tensor, const std::string& expected) {
    throw Error(ErrorCode::mismatch, printable(tensor.name) + " is " + shape_text(tensor.shape) +
                                         ", expected " + expected +
                                         " after the module's other factors");
}

void check_vector(std::span<const SavedTensor> tensors, std::optional<std::size_t> at,
                  const Module& module) {
    // DoRA keeps a convolution's magnitudes as [1, n, 1, 1].
    if (at && volume_of(tensors[*at].shape, tensors[*at].name) != module.n_out) {
        reject(tensors[*at], "[" + std::to_string(module.n_out) + "]");
    }
}

Module module_of(std::span<const SavedTensor> tensors, const Wrapped& wrapped,
                 const FactorsByComponent& factors) {
    Module module;
    module.path = wrapped.first;
    module.depth = wrapped.second;
    const std::string& path = module.path;
    module.is_embedding =
        factors.contains("lora_embedding_A") || factors.contains("lora_embedding_B");
    const std::string stem = module.is_embedding ? "lora_embedding_" : "lora_";
    module.a = require(factors, stem + "A", path);
    module.b = require(factors, stem + "B", path);
    const SavedTensor& a = tensors[module.a];
    const SavedTensor& b = tensors[module.b];
    if (a.shape.size() < 2 || b.shape.size() != a.shape.size()) {
        reject(a.shape.size() < 2 ? a : b, "as many dims as the other factor, at least two");
    }
    module.is_matrix = a.shape.size() == 2;
    module.rank = a.shape[0];
    module.n_in = a.shape[1];
    module.n_out = b.shape[0];
    if (b.shape[1] != module.rank) {
        reject(b, "[" + std::to_string(module.n_out) + ", " + std::to_string(module.rank) + "]");
    }
    module.magnitude = find(factors, "lora_magnitude_vector");
    module.bias = find(factors, "lora_B.bias");
    check_vector(tensors, module.magnitude, module);
    check_vector(tensors, module.bias, module);
    return module;
}

}  // namespace

std::vector<Module> modules_of(std::span<const SavedTensor> tensors) {
    std::vector<Module> modules;
    for (const auto& [wrapped, factors] : by_module(tensors)) {
        modules.push_back(module_of(tensors, wrapped, factors));
    }
    return modules;
}

}  // namespace shardweld::adapters
