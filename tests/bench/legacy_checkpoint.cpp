#include <utility>

#include "checkpoint.hpp"
#include "jobs.hpp"
#include "saving.hpp"
#include "torch_writer.hpp"
#include "training_args.hpp"

namespace shardweld::bench {

namespace {

namespace fs = std::filesystem;

std::string digits(Index value, std::size_t width) {
    const std::string text = std::to_string(value);
    return std::string(width > text.size() ? width - text.size() : 0, '0') + text;
}

// A legacy file holds the chunks of a rank as one tensor, joined along the rows.
void put_shard(TorchPickle& out, const std::string& name, const Shard& shard, DType dtype) {
    TorchTensor tensor{shard.is_f32 ? DType::f32 : dtype, shard.chunks.front().sizes, {}};
    tensor.shape[0] = 0;
    for (const Chunk& chunk : shard.chunks) {
        tensor.shape[0] += chunk.sizes[0];
        tensor.bands.insert(tensor.bands.end(), chunk.bands.begin(), chunk.bands.end());
    }
    out.pickle.text(name);
    out.tensor(std::move(tensor));
}

void put_extra_state(TorchPickle& out, const std::string& name) {
    out.pickle.text(name);
    out.tensor({DType::u8, {0}, {}});
}

// Experts are numbered from 0 on each rank, and share one extra state.
void put_layer(TorchPickle& out, const std::string& prefix, const std::vector<Shard>& shards,
               Index first_expert, DType dtype) {
    for (const Shard& shard : shards) {
        const Index expert = shard.is_expert() ? shard.expert - first_expert : 0;
        const std::string number = shard.is_expert() ? std::to_string(expert) : "";
        put_shard(out, prefix + shard.name + number, shard, dtype);
        if (has_extra_state(shard) && expert == 0) {
            put_extra_state(out, prefix + extra_state_of(shard.name));
        }
    }
}

void put_model(TorchPickle& out, const Checkpoint& checkpoint, const Stage& stage,
               const Place& place) {
    const auto& [model, grid, values, has_states] = checkpoint;
    out.pickle.global("collections", "OrderedDict").op(PickleOp::empty_tuple).op(PickleOp::reduce);
    out.pickle.op(PickleOp::mark);
    if (stage.is_first) {
        const Shard embedding = embedding_shard(model, grid, place.tp);
        put_shard(out, embedding.name, embedding, values.dtype);
    }
    for (Index i = 0; i < stage.n_layers; ++i) {
        put_layer(out, "decoder.layers." + std::to_string(i) + ".",
                  layer_shards(model, grid, stage.first_layer + i, place),
                  place.ep * model.experts / grid.ep, values.dtype);
    }
    if (stage.is_last) {
        for (const Shard& shard : {final_norm_shard(model), head_shard(model, grid, place.tp)}) {
            put_shard(out, shard.name, shard, values.dtype);
        }
        out.pickle.text("output_layer._extra_state").op(PickleOp::none);
    }
    out.pickle.op(PickleOp::setitems);
}

// mp_rank_TT[_PPP][_EEE].
std::string rank_name(const Grid& grid, Index pp, const Place& place) {
    return "mp_rank_" + digits(place.tp, 2) + (grid.pp == 1 ? "" : "_" + digits(pp, 3)) +
           (grid.ep == 1 ? "" : "_" + digits(place.ep, 3));
}

void write_rank_file(const fs::path& directory, const Checkpoint& checkpoint, Index pp,
                     const Place& place) {
    TorchPickle out;
    out.pickle.op(PickleOp::empty_dict).op(PickleOp::mark);
    put_common_state(out.pickle, checkpoint);
    for (Index vpp = 0; vpp < checkpoint.grid.vpp; ++vpp) {
        out.pickle.text(checkpoint.grid.vpp == 1 ? "model" : "model" + std::to_string(vpp));
        put_model(out, checkpoint, stage_of(checkpoint, pp, vpp), place);
    }
    out.pickle.op(PickleOp::setitems);
    const fs::path rank = directory / rank_name(checkpoint.grid, pp, place);
    fs::create_directory(rank);
    AppendFile file(rank / "model_optim_rng.pt");
    append_archive(file, "model_optim_rng", out, checkpoint.values);
    file.close();
}

}  // namespace

Bytes write_legacy(const fs::path& out, const Checkpoint& checkpoint, unsigned n_threads) {
    const fs::path directory = make_iteration_directory(out);
    const Index n_ranks = checkpoint.grid.ranks_per_stage();
    const auto n_files = static_cast<std::size_t>(n_ranks * checkpoint.grid.pp);
    run_jobs(n_files, n_threads, [&](std::size_t i) {
        const auto file = static_cast<Index>(i);
        write_rank_file(directory, checkpoint, file / n_ranks,
                        place_of(checkpoint.grid, file % n_ranks));
    });
    return bytes_below(directory);
}

}  // namespace shardweld::bench
