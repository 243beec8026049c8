#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/whole_file.hpp"

#include "checkpoint.hpp"
#include "dcp_writer.hpp"
#include "jobs.hpp"
#include "saving.hpp"
#include "training_args.hpp"

namespace shardweld::bench {

namespace {

namespace fs = std::filesystem;

/// One of several tensors that are stored as one, stacked along leading axes.
struct Stack {
    Index at = 0;
    Index size = 0;
};

std::vector<Index> led(const std::vector<Stack>& stacks, Index Stack::*value,
                       const std::vector<Index>& values) {
    std::vector<Index> all;
    for (const Stack& stack : stacks) {
        all.push_back(value == nullptr ? 1 : stack.*value);
    }
    all.insert(all.end(), values.begin(), values.end());
    return all;
}

// What one rank writes of a torch_dist checkpoint: some files, filled in turns.
class DistRank {
  public:
    DistRank(const fs::path& directory, const Checkpoint& checkpoint, Index rank)
        : checkpoint_(checkpoint) {
        for (Index i = 0; i < checkpoint.grid.writers; ++i) {
            files_.emplace_back(directory,
                                "__" + std::to_string(rank) + "_" + std::to_string(i) + ".distcp");
        }
    }

    void add_object(const std::string& key) {
        TorchPickle out;
        out.pickle.op(PickleOp::empty_list);
        out.tensor({DType::u8, {0}, {}});
        out.pickle.op(PickleOp::append);
        content_.objects[key] = next_file().add(out, checkpoint_.values);
    }

    void add(const std::string& key, const Shard& shard, const std::vector<Stack>& stacks) {
        put(key, shard.is_f32 ? DType::f32 : checkpoint_.values.dtype, shard, stacks);
        if (checkpoint_.has_states && !shard.is_f32) {  // what is fp32 here is a buffer
            const std::string states = "optimizer.state.";
            put(states + "param." + key, DType::f32, shard, stacks, values_are_bf16());
            put(states + "exp_avg." + key, DType::f32, shard, stacks);
            put(states + "exp_avg_sq." + key, DType::f32, shard, stacks, false, true);
        }
    }

    DcpContent finish() {
        for (DcpFile& file : files_) {
            file.close();
        }
        return std::move(content_);
    }

  private:
    void put(const std::string& key, DType dtype, const Shard& shard,
             const std::vector<Stack>& stacks, bool is_master = false, bool is_square = false) {
        DcpStoredTensor& tensor = content_.tensors[key];
        tensor.dtype = dtype;
        tensor.shape = led(stacks, &Stack::size, shard.shape);
        for (const Chunk& chunk : shard.chunks) {
            TorchPickle out;
            const auto sizes = led(stacks, nullptr, chunk.sizes);
            out.tensor({tensor.dtype, sizes, chunk.bands, {}, is_master, is_square});
            const DcpPlace place = next_file().add(out, checkpoint_.values);
            tensor.chunks.push_back({led(stacks, &Stack::at, chunk.offsets), sizes, place});
        }
    }

    [[nodiscard]] bool values_are_bf16() const { return checkpoint_.values.dtype == DType::bf16; }

    DcpFile& next_file() {
        turn_ = (turn_ + 1) % files_.size();
        return files_[turn_];
    }

    const Checkpoint& checkpoint_;
    std::vector<DcpFile> files_;
    std::size_t turn_ = 0;
    DcpContent content_;
};

// How a layer's tensors are stored: all layers as one when they are alike, else each by its number;
// all experts of a layer as one.
struct LayerKey {
    std::string prefix;
    std::vector<Stack> stacks;
};

LayerKey key_of(const Checkpoint& checkpoint, Index layer, const Shard& shard) {
    LayerKey key{"decoder.layers.", {}};
    if (!checkpoint.model.has_experts()) {
        key.stacks.push_back({layer, checkpoint.model.layers});
        return key;
    }
    key.prefix += std::to_string(layer) + ".";
    if (shard.is_expert()) {
        key.stacks.push_back({shard.expert, checkpoint.model.experts});
    }
    return key;
}

// "mlp.experts.experts.linear_fc1.weight".
std::string stored_name(const Shard& shard) {
    const std::size_t size = std::string("mlp.experts.").size();
    return shard.is_expert() ? "mlp.experts.experts." + shard.name.substr(size) : shard.name;
}

// Of the ranks that hold the same dense tensors each stores some, of those that hold the same
// experts the first; only the first tp rank stores what all tp ranks hold.
class Turns {
  public:
    Turns(const Grid& grid, const Place& place)
        : place_(place), n_dp_(grid.ranks_per_stage() / grid.tp) {}

    bool is_mine(const Shard& shard) {
        if (shard.is_expert()) {
            return place_.expert_dp == 0;
        }
        const bool is_my_turn = turn_++ % n_dp_ == place_.dp;
        return is_my_turn && (place_.tp == 0 || !shard.is_replicated);
    }

  private:
    Place place_;
    Index n_dp_;
    Index turn_ = 0;
};

// "decoder.layers.mlp.linear_fc1._extra_state/shard_3_32".
std::string object_name(const LayerKey& key, const Shard& shard) {
    const Stack stack = key.stacks.empty() ? Stack{0, 1} : key.stacks.front();
    return key.prefix + extra_state_of(stored_name(shard)) + "/shard_" + std::to_string(stack.at) +
           "_" + std::to_string(stack.size);
}

// Byte objects come before tensors in the files.
void add_extra_states(DistRank& out, const Checkpoint& checkpoint, Index layer,
                      const Place& place) {
    for (const Shard& shard : layer_shards(checkpoint.model, checkpoint.grid, layer, place)) {
        const bool is_mine = shard.is_expert() ? place.etp == 0 && place.expert_dp == 0
                                               : place.tp == 0 && place.dp == 0;
        if (is_mine && has_extra_state(shard)) {
            out.add_object(object_name(key_of(checkpoint, layer, shard), shard));
        }
    }
}

void add_tensors(DistRank& out, const Checkpoint& checkpoint, const Stage& stage,
                 const Place& place) {
    const Model& model = checkpoint.model;
    const Grid& grid = checkpoint.grid;
    Turns turns(grid, place);
    const auto add_end = [&](const Shard& shard) {
        if (turns.is_mine(shard)) {
            out.add(shard.name, shard, {});
        }
    };
    if (stage.is_first) {
        add_end(embedding_shard(model, grid, place.tp));
    }
    for (Index i = 0; i < stage.n_layers; ++i) {
        const Index layer = stage.first_layer + i;
        for (const Shard& shard : layer_shards(model, grid, layer, place)) {
            if (turns.is_mine(shard)) {
                const LayerKey key = key_of(checkpoint, layer, shard);
                out.add(key.prefix + stored_name(shard), shard, key.stacks);
            }
        }
    }
    if (stage.is_last) {
        add_end(head_shard(model, grid, place.tp));
        add_end(final_norm_shard(model));
    }
}

DcpContent write_dist_rank(const fs::path& directory, const Checkpoint& checkpoint, Index rank) {
    DistRank out(directory, checkpoint, rank);
    const Index n_ranks = checkpoint.grid.ranks_per_stage();
    const Place place = place_of(checkpoint.grid, rank % n_ranks);
    for (Index vpp = 0; vpp < checkpoint.grid.vpp; ++vpp) {
        const Stage stage = stage_of(checkpoint, rank / n_ranks, vpp);
        for (Index i = 0; i < stage.n_layers; ++i) {
            add_extra_states(out, checkpoint, stage.first_layer + i, place);
        }
    }
    for (Index vpp = 0; vpp < checkpoint.grid.vpp; ++vpp) {
        add_tensors(out, checkpoint, stage_of(checkpoint, rank / n_ranks, vpp), place);
    }
    return out.finish();
}

void write_common(const fs::path& directory, const Checkpoint& checkpoint) {
    TorchPickle out;
    out.pickle.op(PickleOp::empty_dict).op(PickleOp::mark);
    put_common_state(out.pickle, checkpoint);
    out.pickle.op(PickleOp::setitems);
    AppendFile file(directory / "common.pt");
    append_archive(file, "common", out, checkpoint.values);
    file.close();
    const nlohmann::ordered_json backend = {{"sharded_backend", "torch_dist"},
                                            {"sharded_backend_version", 1},
                                            {"common_backend", "torch"},
                                            {"common_backend_version", 1}};
    io::write_text(directory / "metadata.json", backend.dump(), false);
}

}  // namespace

Bytes write_torch_dist(const fs::path& out, const Checkpoint& checkpoint, unsigned n_threads) {
    const fs::path directory = make_iteration_directory(out);
    const Grid& grid = checkpoint.grid;
    std::vector<DcpContent> parts(static_cast<std::size_t>(grid.ranks_per_stage() * grid.pp));
    run_jobs(parts.size(), n_threads, [&](std::size_t i) {
        parts[i] = write_dist_rank(directory, checkpoint, static_cast<Index>(i));
    });
    DcpContent content;
    for (DcpContent& part : parts) {
        content.merge(std::move(part));
    }
    write_common(directory, checkpoint);
    io::write_text(directory / ".metadata", dcp_metadata(content), false);
    return bytes_below(directory);
}

}  // namespace shardweld::bench
