// DeepSpeed's ZeRO-3 directories: each rank has an equally long part of every parameter, flat and
// in fp32, and a file of model states without weights. Source: DeepSpeed 0.19.8
// deepspeed/runtime/zero/stage3.py, deepspeed/utils/zero_to_fp32.py.
#include <algorithm>
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

struct ZeroRank {
    Index at = 0;
    Index world = 0;
    std::vector<HubTensor> parameters;  ///< of the whole module
};

/// Elements [begin, end) of a module's tensor in row-major order.
void add_range(const HubTensor& tensor, Index begin, Index end, std::vector<Band>& out) {
    Index at = 0;
    for (const Band& band : module_rows(tensor, 0, tensor.shape[0])) {
        const Index lo = std::max(begin, at);
        const Index hi = std::min(end, at + band.volume());
        if (lo < hi) {  // whole rows of a hub tensor, as one long row
            out.push_back({band.tensor, band.volume(), 0, 1, lo - at, hi - lo});
        }
        at += band.volume();
    }
}

/// Every parameter's part; what is longer than the parameter repeats its beginning, as DeepSpeed
/// does not set it.
TorchTensor flat_part(const ZeroRank& rank) {
    TorchTensor flat{DType::f32, {0}, {}};
    for (const HubTensor& tensor : rank.parameters) {
        const Index size = volume_of(tensor.shape, tensor.name);
        const Index part = (size + rank.world - 1) / rank.world;
        const Index begin = std::min(rank.at * part, size);
        const Index end = std::min(begin + part, size);
        add_range(tensor, begin, end, flat.bands);
        add_range(tensor, 0, part - (end - begin), flat.bands);
        flat.shape[0] += part;
    }
    return flat;
}

void begin_ordered(PickleWriter& pickle) {
    pickle.global("collections", "OrderedDict")
        .op(PickleOp::empty_tuple)
        .op(PickleOp::reduce)
        .op(PickleOp::mark);
}

TorchPickle model_states(const ZeroRank& rank, DType dtype) {
    TorchPickle out;
    PickleWriter& pickle = out.pickle;
    pickle.op(PickleOp::empty_dict).op(PickleOp::mark).text("module");
    begin_ordered(pickle);
    for (const HubTensor& tensor : rank.parameters) {
        pickle.text(tensor.name);
        out.tensor({tensor.is_f32 ? DType::f32 : dtype, {0}, {}});
    }
    pickle.op(PickleOp::setitems).text("buffer_names").op(PickleOp::empty_list);
    pickle.text("param_shapes").op(PickleOp::empty_list);
    begin_ordered(pickle);
    for (const HubTensor& tensor : rank.parameters) {
        pickle.text(tensor.name).global("torch", "Size").indices(tensor.shape);
        pickle.op(PickleOp::tuple1).op(PickleOp::reduce);
    }
    pickle.op(PickleOp::setitems).op(PickleOp::append);
    pickle.text("frozen_param_shapes")
        .op(PickleOp::none)
        .text("frozen_param_fragments")
        .op(PickleOp::none);
    pickle.text("shared_params").op(PickleOp::empty_dict);
    pickle.text("dp_world_size").integer(rank.world).text("mp_world_size").integer(1);
    pickle.text("ds_version").text("0.19.8").op(PickleOp::setitems);
    return out;
}

TorchPickle optimizer_states(const ZeroRank& rank) {
    TorchPickle out;
    PickleWriter& pickle = out.pickle;
    pickle.op(PickleOp::empty_dict).op(PickleOp::mark).text("optimizer_state_dict");
    pickle.op(PickleOp::empty_dict).op(PickleOp::mark).text("zero_stage");
    pickle.global("deepspeed.runtime.zero.config", "ZeroStageEnum").integer(3);
    pickle.op(PickleOp::tuple1).op(PickleOp::reduce);
    pickle.text("partition_count").integer(rank.world);
    pickle.text("fp32_flat_groups").op(PickleOp::empty_list);
    out.tensor(flat_part(rank));
    pickle.op(PickleOp::append).op(PickleOp::setitems);
    pickle.text("ds_version").text("0.19.8").op(PickleOp::setitems);
    return out;
}

void write_archive(const fs::path& directory, const std::string& stem, const TorchPickle& content,
                   const Values& values) {
    AppendFile file(directory / (stem + ".pt"));
    append_archive(file, stem, content, values);
    file.close();
}

}  // namespace

Bytes write_zero3(const fs::path& out, const Checkpoint& checkpoint, unsigned n_threads) {
    const fs::path source = out / "source";
    if (fs::exists(source)) {
        throw Error(ErrorCode::target, source.string() + " exists: remove it first");
    }
    const fs::path directory = source / "global_step1";
    fs::create_directories(directory);
    io::write_text(source / "latest", "global_step1", false);
    const Index world = checkpoint.grid.ranks_per_stage() * checkpoint.grid.pp;
    run_jobs(static_cast<std::size_t>(world), n_threads, [&](std::size_t at) {
        const ZeroRank rank{static_cast<Index>(at), world, module_tensors(checkpoint.model)};
        const std::string name = "zero_pp_rank_" + std::to_string(at) + "_mp_rank_00_";
        write_archive(directory, name + "model_states", model_states(rank, checkpoint.values.dtype),
                      checkpoint.values);
        write_archive(directory, "bf16_" + name + "optim_states", optimizer_states(rank),
                      checkpoint.values);
    });
    return bytes_below(source);
}

}  // namespace shardweld::bench
