// verl's FSDP directories: one file of DTensors for each rank of a one-dimensional mesh.
#include <algorithm>
#include <utility>

#include "io/whole_file.hpp"
#include "outputs/torch/dtensor.hpp"
#include "shardweld/error.hpp"

#include "checkpoint.hpp"
#include "jobs.hpp"
#include "saving.hpp"
#include "torch_writer.hpp"

namespace shardweld::bench {

namespace {

namespace fs = std::filesystem;

struct Rank {
    Index at = 0;
    Index world = 0;
};

/// This rank's rows, cut as torch.chunk cuts them.
TorchTensor local_part(const HubTensor& tensor, DType dtype, Rank rank) {
    const Index rows = tensor.shape[0];
    const Index step = (rows + rank.world - 1) / rank.world;
    const Index begin = std::min(rank.at * step, rows);
    const Index end = std::min(begin + step, rows);
    TorchTensor part{dtype, tensor.shape, module_rows(tensor, begin, end)};
    part.shape[0] = end - begin;
    return part;
}

void put_parameter(TorchPickle& out, const HubTensor& tensor, DType dtype, Rank rank) {
    const outputs::DeviceMesh mesh{{"fsdp"}, {rank.world}, "cpu"};
    const auto put_local = [&] { out.tensor(local_part(tensor, dtype, rank)); };
    const auto put_ranks = [&](const std::vector<Index>& shape, std::string ranks) {
        out.tensor({DType::i32, shape, {}, std::move(ranks)});
    };
    out.pickle.text(tensor.name);
    outputs::torch::put_dtensor(out.pickle, dtype, tensor.shape, mesh, rank.at,
                                {put_local, put_ranks});
}

void write_rank_file(const fs::path& directory, const Checkpoint& checkpoint, Rank rank) {
    TorchPickle out;
    outputs::torch::put_ordered_dict(out.pickle);
    out.pickle.op(PickleOp::mark);
    for (const HubTensor& tensor : module_tensors(checkpoint.model)) {
        const DType dtype = tensor.is_f32 ? DType::f32 : checkpoint.values.dtype;
        put_parameter(out, tensor, dtype, rank);
    }
    out.pickle.op(PickleOp::setitems);
    const std::string stem =
        "model_world_size_" + std::to_string(rank.world) + "_rank_" + std::to_string(rank.at);
    AppendFile file(directory / (stem + ".pt"));
    append_archive(file, stem, out, checkpoint.values);
    file.close();
}

}  // namespace

Bytes write_fsdp(const fs::path& out, const Checkpoint& checkpoint, unsigned n_threads) {
    const fs::path directory = out / "source";
    if (fs::exists(directory)) {
        throw Error(ErrorCode::target, directory.string() + " exists: remove it first");
    }
    fs::create_directories(directory);
    const Index world = checkpoint.grid.ranks_per_stage() * checkpoint.grid.pp;
    io::write_text(
        directory / "fsdp_config.json",
        "{\n    \"FSDP_version\": 2,\n    \"world_size\": " + std::to_string(world) + "\n}", false);
    run_jobs(static_cast<std::size_t>(world), n_threads, [&](std::size_t rank) {
        write_rank_file(directory, checkpoint, {static_cast<Index>(rank), world});
    });
    return bytes_below(directory);
}

}  // namespace shardweld::bench
