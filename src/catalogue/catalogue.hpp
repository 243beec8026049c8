// What a checkpoint holds: tensors and where their pieces lie. Made by formats, read by plan.
// Metadata only.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/index.hpp"
#include "core/lists.hpp"

#include "file.hpp"
#include "master_samples.hpp"
#include "optimizer.hpp"
#include "tensor.hpp"

namespace shardweld::catalogue {

/// One dim of the saving job's device mesh.
struct MeshDim {
    std::string name;  ///< "" if it has none
    Index extent = 1;
};

/// The contents of a checkpoint: its files, tensors, shards, claims and states.
struct Catalogue {
    std::string format;              ///< e.g. "megatron torch_dist"
    std::string dialect;             ///< e.g. "megatron_core"
    std::vector<std::string> notes;  ///< what was found, for people ("iteration 10 of ...")
    /// What is doubtful about the checkpoint, by code: "replica_absent" -> "...".
    std::map<std::string, std::string> warnings;
    std::vector<File> files;      ///< sorted naturally by path
    std::vector<Tensor> tensors;  ///< global tensors, sorted by name
    std::vector<Shard> shards;    ///< rank-local tensors still to be joined
    std::vector<Ignored> ignored;
    std::map<std::string, Index> facts;  ///< t, te, tp, pp, vpp, ep, etp, version, iteration...
    StatedConfig claims;
    std::vector<FileAssertion> statements;       ///< of all files, in their order
    std::map<std::string, Index> inert_globals;  ///< pickle globals left inert, with their counts
    std::vector<MeshDim> mesh;  ///< outermost first, ranks row-major; empty if not told
    Optimizer optimizer;        ///< empty unless it was asked for
    MasterSamples samples;      ///< of weights that are taken from masters; empty when settled

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.format, self.dialect, self.notes, self.warnings, self.files,
                        self.tensors, self.shards, self.ignored, self.facts, self.claims,
                        self.statements, self.inert_globals, self.mesh, self.optimizer,
                        self.samples);
    };
};

/// Calls visit(tensors, shards) for the model's, and for each state's of the optimizer.
template <typename AnyCatalogue, typename Visit>
void each_part(AnyCatalogue& catalogue, const Visit& visit) {
    visit(catalogue.tensors, catalogue.shards);
    for (auto& state : catalogue.optimizer.states) {
        visit(state.tensors, state.shards);
    }
}

/// Calls visit(item) for each tensor and then for each shard of the model.
template <typename AnyCatalogue, typename Visit>
void each_item(AnyCatalogue& catalogue, const Visit& visit) {
    std::ranges::for_each(catalogue.tensors, visit);
    std::ranges::for_each(catalogue.shards, visit);
}

/// The names of the tensors and then of the shards, in their order and each once: thousands of
/// ranks hold shards of one name.
std::vector<const std::string*> distinct_names(const Catalogue& catalogue);

/// Calls visit(name) for each of them.
template <typename Visit>
void each_name(const Catalogue& catalogue, const Visit& visit) {
    for (const std::string* const name : distinct_names(catalogue)) {
        visit(*name);
    }
}

/// Calls visit(tensor) for the tensors of the model and of all states.
template <typename AnyCatalogue, typename Visit>
void each_tensor(AnyCatalogue& catalogue, const Visit& visit) {
    each_part(catalogue, [&](auto& tensors, auto& /*shards*/) {
        for (auto& tensor : tensors) {
            visit(tensor);
        }
    });
}

/// Calls visit(shard) for the shards of the model and of all states.
template <typename AnyCatalogue, typename Visit>
void each_shard(AnyCatalogue& catalogue, const Visit& visit) {
    each_part(catalogue, [&](auto& /*tensors*/, auto& shards) {
        for (auto& shard : shards) {
            visit(shard);
        }
    });
}

/// ", iteration 8", as the facts of a checkpoint say; "" where they do not.
std::string iteration_text(const std::map<std::string, Index>& facts);

/// Bytes of all elements that are stored: of tensors and shards with their replicas, also of the
/// optimizer's states, and of what was left aside.
Bytes stored_bytes(const Catalogue& catalogue);
Bytes stored_bytes(const Tensor& tensor);
Bytes stored_bytes(const Shard& shard);

}  // namespace shardweld::catalogue
