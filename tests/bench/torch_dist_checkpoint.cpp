#include <array>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "checkpoint.hpp"
#include "dcp_writer.hpp"
#include "jobs.hpp"
#include "saving.hpp"
#include "training_args.hpp"

namespace shardweld::bench {

namespace {

namespace fs = std::filesystem;

// What one rank writes of a torch_dist checkpoint: two files, filled in turns.
class DistRank {
  public:
    DistRank(const fs::path& directory, const Checkpoint& checkpoint, Index rank)
        : checkpoint_(checkpoint),
          files_{DcpFile(directory, "__" + std::to_string(rank) + "_0.distcp"),
                 DcpFile(directory, "__" + std::to_string(rank) + "_1.distcp")} {}

    void add_object(const std::string& key) {
        TorchPickle out;
        out.pickle.op(Op::empty_list);
        out.tensor({DType::u8, {0}, {}});
        out.pickle.op(Op::append);
        content_.objects[key] = next_file().add(out, checkpoint_.values);
    }

    void add(const std::string& key, const Shard& shard) { add(key, shard, std::nullopt); }

    /// Stacked along a leading axis of all layers when `layer` is given.
    void add(const std::string& key, const Shard& shard, std::optional<Index> layer) {
        const auto led = [&](const std::vector<Index>& values, Index first) {
            std::vector<Index> all = values;
            if (layer) {
                all.insert(all.begin(), first);
            }
            return all;
        };
        DcpStoredTensor& tensor = content_.tensors[key];
        tensor.shape = led(shard.shape, checkpoint_.model.layers);
        for (const Chunk& chunk : shard.chunks) {
            TorchPickle out;
            const auto sizes = led(chunk.sizes, 1);
            out.tensor({checkpoint_.values.dtype, sizes, chunk.bands});
            const DcpPlace place = next_file().add(out, checkpoint_.values);
            tensor.chunks.push_back({led(chunk.offsets, layer.value_or(0)), sizes, place});
        }
    }

    DcpContent finish() {
        for (DcpFile& file : files_) {
            file.close();
        }
        return std::move(content_);
    }

  private:
    DcpFile& next_file() {
        turn_ = 1 - turn_;
        return files_[turn_];
    }

    const Checkpoint& checkpoint_;
    std::array<DcpFile, 2> files_;
    std::size_t turn_ = 0;
    DcpContent content_;
};

// Byte objects come before tensors in the files.
void add_extra_states(DistRank& out, const Checkpoint& checkpoint, Index layer) {
    const std::string place =
        "/shard_" + std::to_string(layer) + "_" + std::to_string(checkpoint.model.layers);
    for (const Shard& shard : layer_shards(checkpoint.model, checkpoint.grid, layer, 0)) {
        if (has_extra_state(shard)) {
            out.add_object("decoder.layers." + extra_state_of(shard.name) + place);
        }
    }
}

// Of equal copies only that of the first tp rank is stored.
void add_layer(DistRank& out, const Checkpoint& checkpoint, Index layer, Index tp) {
    for (const Shard& shard : layer_shards(checkpoint.model, checkpoint.grid, layer, tp)) {
        if (tp == 0 || !shard.is_replicated) {
            out.add("decoder.layers." + shard.name, shard, layer);
        }
    }
}

void add_tensors(DistRank& out, const Checkpoint& checkpoint, const Stage& stage, Index tp) {
    const auto& [model, grid, values] = checkpoint;
    if (stage.is_first) {
        const Shard embedding = embedding_shard(model, grid, tp);
        out.add(embedding.name, embedding);
    }
    for (Index i = 0; i < stage.n_layers; ++i) {
        add_layer(out, checkpoint, stage.first_layer + i, tp);
    }
    if (stage.is_last) {
        const Shard head = head_shard(model, grid, tp);
        out.add(head.name, head);
    }
    if (stage.is_last && tp == 0) {
        const Shard norm = final_norm_shard(model);
        out.add(norm.name, norm);
    }
}

DcpContent write_dist_rank(const fs::path& directory, const Checkpoint& checkpoint, Index pp,
                           Index tp) {
    DistRank out(directory, checkpoint, pp * checkpoint.grid.tp + tp);
    for (Index vpp = 0; tp == 0 && vpp < checkpoint.grid.vpp; ++vpp) {
        const Stage stage = stage_of(checkpoint, pp, vpp);
        for (Index i = 0; i < stage.n_layers; ++i) {
            add_extra_states(out, checkpoint, stage.first_layer + i);
        }
    }
    for (Index vpp = 0; vpp < checkpoint.grid.vpp; ++vpp) {
        add_tensors(out, checkpoint, stage_of(checkpoint, pp, vpp), tp);
    }
    return out.finish();
}

void write_common(const fs::path& directory, const Checkpoint& checkpoint) {
    TorchPickle out;
    out.pickle.op(Op::empty_dict).op(Op::mark);
    put_common_state(out.pickle, checkpoint);
    out.pickle.op(Op::setitems);
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
    const Index tp = checkpoint.grid.tp;
    std::vector<DcpContent> parts(static_cast<std::size_t>(tp * checkpoint.grid.pp));
    run_jobs(parts.size(), n_threads, [&](std::size_t i) {
        const auto rank = static_cast<Index>(i);
        parts[i] = write_dist_rank(directory, checkpoint, rank / tp, rank % tp);
    });
    DcpContent content;
    for (DcpContent& part : parts) {
        content.merge(std::move(part));
    }
    write_common(directory, checkpoint);
    io::write_text(directory / ".metadata", dcp_metadata(content, checkpoint.values.dtype), false);
    return bytes_below(directory);
}

}  // namespace shardweld::bench
