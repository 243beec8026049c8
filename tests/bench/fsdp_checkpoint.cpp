// verl's FSDP directories: one file of DTensors for each rank of a one-dimensional mesh.
// Source: torch 2.6 torch/distributed/tensor/_api.py, torch/distributed/device_mesh.py, as found in
// saved files.
#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

#include "checkpoint.hpp"
#include "jobs.hpp"
#include "saving.hpp"
#include "torch_writer.hpp"

namespace shardweld::bench {

namespace {

namespace fs = std::filesystem;

constexpr const char* kMeshKey = "object mesh";

struct Rank {
    Index at = 0;
    Index world = 0;
};

void put_shape(PickleWriter& out, const std::vector<Index>& shape) {
    out.global("torch", "Size").indices(shape).op(Op::tuple1).op(Op::reduce);
}

std::vector<Index> strides_of(const std::vector<Index>& shape) {
    std::vector<Index> strides(shape.size(), 1);
    for (std::size_t k = shape.size(); k-- > 1;) {
        strides[k - 1] = strides[k] * shape[k];
    }
    return strides;
}

void put_dtype(PickleWriter& out, DType dtype) {
    out.global("torch", torch_name(dtype));
}

/// The mesh stands in the pickle once.
void put_mesh(TorchPickle& out, Rank rank) {
    PickleWriter& pickle = out.pickle;
    if (pickle.recall(kMeshKey)) {
        return;
    }
    pickle.global("torch.distributed.device_mesh", "DeviceMesh").op(Op::empty_tuple).op(Op::newobj);
    pickle.memoize(kMeshKey);
    pickle.op(Op::empty_dict).op(Op::mark);
    pickle.text("device_type").text("cpu").text("mesh");
    std::string ranks;
    for (Index i = 0; i < rank.world; ++i) {
        for (int byte = 0; byte < 4; ++byte) {
            ranks += static_cast<char>((i >> (8 * byte)) & 0xff);
        }
    }
    out.tensor({DType::i32, {rank.world}, {}, std::move(ranks)});
    pickle.text("mesh_dim_names").text("fsdp").op(Op::tuple1);
    std::vector<Index> all(static_cast<std::size_t>(rank.world));
    std::iota(all.begin(), all.end(), 0);
    pickle.text("_flatten_mesh_list").indices(all);
    pickle.text("_coordinate_on_dim").indices(std::array{rank.at});
    pickle.op(Op::setitems).op(Op::build);
}

void put_spec(TorchPickle& out, const HubTensor& tensor, DType dtype, Rank rank) {
    PickleWriter& pickle = out.pickle;
    pickle.global("torch.distributed.tensor._dtensor_spec", "DTensorSpec");
    pickle.op(Op::empty_tuple).op(Op::newobj).op(Op::empty_dict).op(Op::mark);
    pickle.text("mesh");
    put_mesh(out, rank);
    pickle.text("placements").global("torch.distributed.tensor.placement_types", "Shard");
    pickle.op(Op::empty_tuple).op(Op::newobj).op(Op::empty_dict).op(Op::mark);
    pickle.text("dim").integer(0).op(Op::setitems).op(Op::build).op(Op::tuple1);
    pickle.text("tensor_meta").global("torch.distributed.tensor._dtensor_spec", "TensorMeta");
    pickle.op(Op::mark);
    put_shape(pickle, tensor.shape);
    pickle.indices(strides_of(tensor.shape));
    put_dtype(pickle, dtype);
    pickle.op(Op::tuple).op(Op::newobj);
    pickle.op(Op::setitems).op(Op::build);
}

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

void put_dtensor(TorchPickle& out, const HubTensor& tensor, DType dtype, Rank rank) {
    PickleWriter& pickle = out.pickle;
    const auto put_class = [&] { pickle.global("torch.distributed.tensor", "DTensor"); };
    pickle.text(tensor.name);
    pickle.global("torch._tensor", "_rebuild_from_type_v2").op(Op::mark);
    pickle.global("torch._utils", "_rebuild_wrapper_subclass");
    put_class();
    pickle.op(Op::mark);
    put_class();
    put_dtype(pickle, dtype);
    put_shape(pickle, tensor.shape);
    pickle.indices(strides_of(tensor.shape)).integer(0);
    pickle.global("torch.serialization", "_get_layout").text("torch.strided");
    pickle.op(Op::tuple1).op(Op::reduce);
    pickle.global("torch", "device").text("cpu").op(Op::tuple1).op(Op::reduce);
    pickle.boolean(false).op(Op::tuple);
    pickle.op(Op::none).op(Op::empty_dict).op(Op::mark);
    pickle.text("_local_tensor");
    out.tensor(local_part(tensor, dtype, rank));
    pickle.text("_spec");
    put_spec(out, tensor, dtype, rank);
    pickle.op(Op::setitems).op(Op::tuple2);
    pickle.op(Op::tuple).op(Op::reduce);
}

void write_rank_file(const fs::path& directory, const Checkpoint& checkpoint, Rank rank) {
    TorchPickle out;
    out.pickle.global("collections", "OrderedDict").op(Op::empty_tuple).op(Op::reduce);
    out.pickle.op(Op::mark);
    for (const HubTensor& tensor : module_tensors(checkpoint.model)) {
        const DType dtype = tensor.is_f32 ? DType::f32 : checkpoint.values.dtype;
        put_dtensor(out, tensor, dtype, rank);
    }
    out.pickle.op(Op::setitems);
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
