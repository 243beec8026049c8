// Shapes of the pickles: as in files that torch 2.6 and 2.15 wrote (tests/data/torch).
#include "pickle_cases.hpp"

#include <array>
#include <string>

#include "io/whole_file.hpp"

#include "checkpoint.hpp"
#include "dcp_writer.hpp"
#include "torch_writer.hpp"

namespace shardweld::bench {

namespace {

using outputs::torch::put_object;
using outputs::torch::put_size;
namespace fs = std::filesystem;

constexpr const char* kShard = "torch.distributed._shard.metadata";
constexpr const char* kSharded = "torch.distributed._shard.sharded_tensor";
constexpr Index kRows = 4;  // of a shard
constexpr Index kColumns = 300;

Checkpoint checkpoint_of(const Grid& grid, Index n_layers) {
    Checkpoint checkpoint;
    checkpoint.grid = grid;
    checkpoint.values.is_sparse = true;
    checkpoint.model = model_of_size(1e6, DType::bf16, grid);
    checkpoint.model.layers = n_layers;
    return checkpoint;
}

void put_list(PickleWriter& out, const std::array<Index, 2>& values) {
    out.op(Op::empty_list).op(Op::mark).integer(values[0]).integer(values[1]).op(Op::appends);
}

void put_shard_metadata(PickleWriter& out, Index rank) {
    put_object(out, kShard, "ShardMetadata").op(Op::none).op(Op::empty_dict).op(Op::mark);
    put_list(out.text("shard_offsets"), {rank * kRows, 0});
    put_list(out.text("shard_sizes"), {kRows, kColumns});
    put_object(out.text("placement"), "torch.distributed.remote_device", "_remote_device");
    out.op(Op::empty_dict).op(Op::mark).text("_worker_name").op(Op::none);
    out.text("_rank").integer(rank).text("_device");
    out.global("torch", "device").text("cpu").op(Op::tuple1).op(Op::reduce);
    out.op(Op::setitems).op(Op::build).op(Op::setitems).op(Op::tuple2).op(Op::build);
}

void put_properties(PickleWriter& out) {
    put_object(out, std::string(kSharded) + ".metadata", "TensorProperties").op(Op::mark);
    out.global("torch", "bfloat16");
    outputs::torch::put_strided_layout(out);
    out.boolean(false);
    out.global(std::string(kSharded) + ".metadata", "MEM_FORMAT_ENCODING").integer(0);
    out.op(Op::tuple1).op(Op::reduce).boolean(false).op(Op::tuple).op(Op::build);
}

void put_sharded_metadata(PickleWriter& out, Index n_ranks) {
    put_object(out, std::string(kSharded) + ".metadata", "ShardedTensorMetadata");
    out.op(Op::empty_dict).op(Op::mark);
    out.text("shards_metadata").op(Op::empty_list).op(Op::mark);
    for (Index rank = 0; rank < n_ranks; ++rank) {
        put_shard_metadata(out, rank);
    }
    put_size(out.op(Op::appends).text("size"), std::array{n_ranks * kRows, kColumns});
    put_properties(out.text("tensor_properties"));
    out.op(Op::setitems).op(Op::build);
}

void put_local_shard(TorchPickle& out) {
    PickleWriter& pickle = out.pickle;
    pickle.op(Op::empty_list);
    put_object(pickle, std::string(kSharded) + ".shard", "Shard");
    pickle.op(Op::none).op(Op::empty_dict).op(Op::mark);
    pickle.text("tensor");
    out.tensor({DType::bf16, {kRows, kColumns}, {}});
    put_shard_metadata(pickle.text("metadata"), 0);
    pickle.op(Op::setitems).op(Op::tuple2).op(Op::build).op(Op::append);
}

void put_sharded_tensor(TorchPickle& out, const std::string& name, Index n_ranks) {
    PickleWriter& pickle = out.pickle;
    const auto put_class = [&] { pickle.global(std::string(kSharded) + ".api", "ShardedTensor"); };
    pickle.text(name).global("torch._tensor", "_rebuild_from_type_v2").op(Op::mark);
    pickle.global("torch._utils", "_rebuild_wrapper_subclass");
    put_class();
    pickle.op(Op::mark);
    put_class();
    pickle.global("torch", "bfloat16").indices(std::array{n_ranks * kRows, kColumns});
    pickle.indices(std::array{kColumns, Index{1}}).integer(0);
    pickle.global("torch.serialization", "_get_layout").text("torch.strided").op(Op::tuple1);
    pickle.op(Op::reduce).global("torch", "device").text("cpu").op(Op::tuple1).op(Op::reduce);
    pickle.boolean(false).op(Op::tuple);
    pickle.op(Op::mark);
    put_local_shard(out);
    put_sharded_metadata(pickle, n_ranks);
    pickle.op(Op::none).op(Op::none).boolean(false).op(Op::tuple);
    pickle.op(Op::tuple).op(Op::reduce);
}

}  // namespace

void write_dtensor_case(const fs::path& directory, Index n_layers) {
    write_fsdp(directory, checkpoint_of({2, 1, 1}, n_layers), 1);
}

void write_sharded_case(const fs::path& directory, Index n_tensors, Index n_ranks) {
    fs::create_directories(directory);
    const std::string world = std::to_string(n_ranks);
    io::write_text(directory / "fsdp_config.json",
                   R"({"FSDP_version": 1, "world_size": )" + world + "}", false);
    TorchPickle out;
    out.pickle.global("collections", "OrderedDict").op(Op::empty_tuple).op(Op::reduce);
    out.pickle.op(Op::mark);
    for (Index i = 0; i < n_tensors; ++i) {
        const std::string name = "model.layers." + std::to_string(i) + ".mlp.up_proj.weight";
        put_sharded_tensor(out, name, n_ranks);
    }
    out.pickle.op(Op::setitems);
    AppendFile file(directory / ("model_world_size_" + world + "_rank_0.pt"));
    append_archive(file, "model", out, {DType::bf16, 0, true});
    file.close();
}

void write_legacy_case(const fs::path& directory, Index n_layers) {
    write_legacy(directory, checkpoint_of({2, 2, 1}, 2 * n_layers), 1);
}

void write_dcp_case(const fs::path& directory, Index n_tensors, Index n_ranks) {
    fs::create_directories(directory);
    DcpContent content;
    for (Index i = 0; i < n_tensors; ++i) {
        const std::string name = "model.layers." + std::to_string(i) + ".mlp.up_proj.weight";
        DcpStoredTensor& tensor = content.tensors[name];
        tensor.shape = {n_ranks * kRows, kColumns};
        for (Index rank = 0; rank < n_ranks; ++rank) {
            const auto at = static_cast<Bytes>(i) * 4096;
            tensor.chunks.push_back({{rank * kRows, 0},
                                     {kRows, kColumns},
                                     {"__" + std::to_string(rank) + "_0.distcp", at, 4000}});
        }
    }
    io::write_text(directory / ".metadata", dcp_metadata(content), false);
}

}  // namespace shardweld::bench
