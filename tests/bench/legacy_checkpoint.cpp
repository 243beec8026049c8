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
    TorchTensor tensor{dtype, shard.chunks.front().sizes, {}};
    tensor.shape[0] = 0;
    for (const Chunk& chunk : shard.chunks) {
        tensor.shape[0] += chunk.sizes[0];
        tensor.bands.insert(tensor.bands.end(), chunk.bands.begin(), chunk.bands.end());
    }
    out.pickle.text(name);
    out.tensor(std::move(tensor));
}

void put_layer(TorchPickle& out, const std::string& prefix, const std::vector<Shard>& shards,
               DType dtype) {
    for (const Shard& shard : shards) {
        put_shard(out, prefix + shard.name, shard, dtype);
        if (has_extra_state(shard)) {
            out.pickle.text(prefix + extra_state_of(shard.name));
            out.tensor({DType::u8, {0}, {}});
        }
    }
}

void put_model(TorchPickle& out, const Checkpoint& checkpoint, const Stage& stage, Index tp) {
    const auto& [model, grid, values] = checkpoint;
    out.pickle.global("collections", "OrderedDict").op(Op::empty_tuple).op(Op::reduce);
    out.pickle.op(Op::mark);
    if (stage.is_first) {
        const Shard embedding = embedding_shard(model, grid, tp);
        put_shard(out, embedding.name, embedding, values.dtype);
    }
    for (Index i = 0; i < stage.n_layers; ++i) {
        put_layer(out, "decoder.layers." + std::to_string(i) + ".",
                  layer_shards(model, grid, stage.first_layer + i, tp), values.dtype);
    }
    if (stage.is_last) {
        for (const Shard& shard : {final_norm_shard(model), head_shard(model, grid, tp)}) {
            put_shard(out, shard.name, shard, values.dtype);
        }
        out.pickle.text("output_layer._extra_state").op(Op::none);
    }
    out.pickle.op(Op::setitems);
}

void write_rank_file(const fs::path& directory, const Checkpoint& checkpoint, Index pp, Index tp) {
    TorchPickle out;
    out.pickle.op(Op::empty_dict).op(Op::mark);
    put_common_state(out.pickle, checkpoint);
    for (Index vpp = 0; vpp < checkpoint.grid.vpp; ++vpp) {
        out.pickle.text(checkpoint.grid.vpp == 1 ? "model" : "model" + std::to_string(vpp));
        put_model(out, checkpoint, stage_of(checkpoint, pp, vpp), tp);
    }
    out.pickle.op(Op::setitems);
    const std::string rank = "mp_rank_" + digits(tp, 2);
    const fs::path place =
        directory / (checkpoint.grid.pp == 1 ? rank : rank + "_" + digits(pp, 3));
    fs::create_directory(place);
    AppendFile file(place / "model_optim_rng.pt");
    append_archive(file, "model_optim_rng", out, checkpoint.values);
    file.close();
}

}  // namespace

Bytes write_legacy(const fs::path& out, const Checkpoint& checkpoint, unsigned n_threads) {
    const fs::path directory = make_iteration_directory(out);
    const Index tp = checkpoint.grid.tp;
    const auto n_files = static_cast<std::size_t>(tp * checkpoint.grid.pp);
    run_jobs(n_files, n_threads, [&](std::size_t i) {
        const auto file = static_cast<Index>(i);
        write_rank_file(directory, checkpoint, file / tp, file % tp);
    });
    return bytes_below(directory);
}

}  // namespace shardweld::bench
